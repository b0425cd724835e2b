"""A server that can run the participants' networks, since it knows how each of their architectures is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from potluck.core.architecture import layout_of
from potluck.core.model_spec import Declared
from potluck.core.payload import Payload
from potluck.federation.server import Server, ServerModel
from potluck.methods.weight_sharing import WeightSharing

EntryShapes = dict[str, list[str | int]]
"""Each entry's shape, by name."""


class KnownArchitectures(WeightSharing):
    """Nobody's code travels: whoever's weights fit none of the server's networks cannot take part.

    Args:
        architectures: the networks that participants bring, one for each architecture: from ``potluck.models``, as
            ``"package.module:callable"``, or callables that make one. By default the model "mlp" alone.
        aggregation: as in ``WeightSharing``.
        weighting: as in ``WeightSharing``.
        batchnorm: as in ``WeightSharing``.
    """

    architectures: tuple[ServerModel, ...] = Field(("mlp",), min_length=1)

    def server_models(self, server: Server) -> Declared:
        return {f"architecture_{place}": builder for place, builder in enumerate(self.architectures)}

    def ask(self, server: Server, senders: Sequence[str]) -> Mapping[str, Payload]:
        known = [sender for sender in senders if self.architecture(server, sender) is not None]
        for sender in set(senders) - set(known):
            names = ", ".join(str(getattr(builder, "__name__", builder)) for builder in self.architectures)
            server.refuse(sender, f"its network is none that the server knows: {names}; name it in `architectures`")
        self.forget(server, server.refused)
        return super().ask(server, known)

    def architecture(self, server: Server, sender: str) -> str | None:
        """The name of the server's network that a participant's weights fit; None if none does."""
        known: dict[str, str | None] = server.memo.setdefault("architectures", {})
        digest = server.state["digests"][sender]
        if digest not in known:
            own = _shapes(server.state["layouts"][sender])
            fitting = (name for name, net in server.models.items() if _shapes(layout_of(net.weights())) == own)
            known[digest] = next(fitting, None)
        return known[digest]


def _shapes(layout: Mapping[str, list[str | int]]) -> EntryShapes:
    """A layout without the entries' types: a server may compute in another precision."""
    return {name: shape for name, (_, *shape) in layout.items()}
