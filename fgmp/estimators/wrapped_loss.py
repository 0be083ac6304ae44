"""A loss around another one, which it passes every member on from."""

from typing import Any

from ..losses import Loss


class WrappedLoss(Loss):
    """Base of losses around another one, `loss`.

    Whatever member of `Loss` a subclass does not define itself is the member of the loss inside, so
    that a member that `Loss` gets later needs no line here. A subclass defines what takes targets,
    if its own targets differ from those of the loss inside, or predictions, if these do.
    """

    loss: Loss

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute: that of the loss inside, if nothing before `Loss` defines it.

        (`__getattr__` would not do. It is asked for what is missing, and `Loss` has defaults.)
        """
        if name.startswith("_") or not _is_default(type(self), name):
            return super().__getattribute__(name)
        return getattr(self.loss, name)


def _is_default(wrapper: type, name: str) -> bool:
    """Return whether `Loss` is the first of the bases of a class to define a member."""
    first = next((base for base in wrapper.__mro__ if name in vars(base)), None)
    return first is Loss
