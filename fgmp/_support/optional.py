"""Packages that only a part of fgmp needs, which is imported where it is used."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(purpose: str, *requirements: str) -> Iterator[None]:
    """Turn a failing import into an ImportError that says what to install.

    The message names packages and no extra of fgmp, because fgmp itself is on no index: pip would
    not find an extra of it there.

    Parameters
    ----------
    purpose : str
        What needs the packages, as the subject of the sentence.
    *requirements : str
        The packages as pip takes them, such as ``"flwr[simulation]>=1.41,<1.42"``.

    Examples
    --------
    >>> from fgmp._support.optional import needs
    >>> with needs("a plot of the path", "matplotlib"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    ImportError: a plot of the path needs matplotlib: pip install matplotlib
    """
    try:
        yield
    except ImportError as error:
        names = " and ".join(_name_of(requirement) for requirement in requirements)
        command = " ".join(map(_quoted, requirements))
        raise ImportError(f"{purpose} needs {names}: pip install {command}") from error


def _name_of(requirement: str) -> str:
    """Return the name of a package without its extras and bounds."""
    for mark in "[<>=":
        requirement = requirement.partition(mark)[0]
    return requirement


def _quoted(requirement: str) -> str:
    """Return a requirement as a shell takes it."""
    return requirement if _name_of(requirement) == requirement else f'"{requirement}"'
