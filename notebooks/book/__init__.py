"""What the notebooks share; importing it sets the style of figures and silences advice, which notebooks measure."""

import warnings

from fgmp import AdviceWarning

from .claims import as_list, claim, listed, outwards
from .figures import *  # noqa: F403
from .figures import __all__ as _figures
from .figures import use_style

__all__ = ["as_list", "claim", "listed", "outwards", *_figures]

use_style()
warnings.simplefilter("ignore", AdviceWarning)
