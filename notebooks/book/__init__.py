"""What the notebooks share; importing it sets the style of figures and silences advice, which notebooks measure."""

import warnings

from fgmp import AdviceWarning

from .checks import *  # noqa: F403
from .claims import *  # noqa: F403
from .comparing import *  # noqa: F403
from .figures import *  # noqa: F403
from .figures import use_style
from .maps import *  # noqa: F403
from .sliding import *  # noqa: F403
from .store import *  # noqa: F403
from .variants import *  # noqa: F403
from .voting import *  # noqa: F403
from .writers import *  # noqa: F403

use_style()
warnings.simplefilter("ignore", AdviceWarning)
warnings.filterwarnings(
    "ignore", message="A worker stopped"
)  # one that grew is replaced, and no job is lost
