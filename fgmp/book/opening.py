"""What every notebook begins with, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..advice import AdviceWarning
from .figures import use_style
from .parameters import check_parameters
from .statements import Statements

__all__ = ["begin"]


def begin(namespace: Mapping[str, Any], *names: str, none: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """Check the parameters, set the style of the figures, and return the statements and the parameters that are named.

    Advice is silenced: what goes wrong in a notebook is measured there.

    Parameters
    ----------
    namespace : mapping of str to object
        ``globals()`` of the notebook.
    names : str
        Parameters to return, settled as `check_parameters` does.
    none : mapping of str to object, optional
        What None stands for.

    Returns
    -------
    tuple
        ``claim`` (`Statements`), then the parameters.
    """
    settled = check_parameters(namespace, *names, none=none)
    use_style()
    warnings.simplefilter("ignore", AdviceWarning)
    return Statements(namespace), *settled
