"""A loss around another one, which it passes every member on from."""

from operator import attrgetter

from ..losses import GLMLoss


class WrappedLoss(GLMLoss):
    """Base of losses around another one, `loss`.

    Whatever member of `GLMLoss` a subclass does not define itself is the member of the loss inside,
    so that a member that it or `Loss` gets later needs no line here. A subclass defines what takes
    targets, if its own targets differ from those of the loss inside, or predictions, if these do.
    """

    loss: GLMLoss

    def __init_subclass__(cls) -> None:
        """Define each member of the loss inside for which a subclass has only the default."""
        super().__init_subclass__()
        own = [name for base in cls.__mro__[: cls.__mro__.index(GLMLoss)] for name in vars(base)]
        for name in set(dir(GLMLoss)).difference(own):
            if not name.startswith("_"):
                setattr(cls, name, property(attrgetter(f"loss.{name}")))
