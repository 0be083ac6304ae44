"""A loss around another one, which it passes every member on from."""

from operator import attrgetter

from ..losses import Loss


class WrappedLoss(Loss):
    """Base of losses around another one, `loss`.

    Whatever member of `Loss` a subclass does not define itself is the member of the loss inside, so
    that a member that `Loss` gets later needs no line here. A subclass defines what takes targets,
    if its own targets differ from those of the loss inside, or predictions, if these do.
    """

    loss: Loss

    def __init_subclass__(cls) -> None:
        """Define each member of the loss inside for which a subclass has only the default."""
        super().__init_subclass__()
        own = [name for base in cls.__mro__[: cls.__mro__.index(Loss)] for name in vars(base)]
        for name in set(dir(Loss)).difference(own):
            if not name.startswith("_"):
                setattr(cls, name, property(attrgetter(f"loss.{name}")))
