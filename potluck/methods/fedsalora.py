"""FedSA-LoRA (Guo et al., 2025): adapters' A are averaged, their B stay at home."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from potluck.core.payload import Payload
from potluck.federation.method import exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.adapter_pairs import Pairs, down
from potluck.methods.adapters import Adapters
from potluck.methods.fedavg import Averaging


class FedSALoRA(Adapters):
    """Section 3: A learns what is general, B what is a participant's own; both are trained, A alone is sent.

    All begin with the same A and B = 0. Where ranks differ, A is averaged over those of one rank. With the head at home
    it was level with everybody alone on nine participants with 40 digits each (61.5% and 61.5%, five seeds); with the
    head averaged it had 64.7%.

    Args:
        alpha: α; by default 16.
        rank: as in ``Adapters``; by default 8.
        ranks: as in ``Adapters``; by default none.
        targets: as in ``Adapters``; by default all layers but the last.
        head: whether the last layer is averaged ("average") or stays at home ("local", the default), as on GLUE.
        base: as in ``Adapters``; by default "same".
        weighting: as in ``WeightSharing``; by default "samples".
    """

    sends: ClassVar[Mapping[str, str]] = {
        **Adapters.sends,
        "weights": "the A of its trained adapters (and its head, if head is average)",
    }

    alpha: float = Field(16.0, gt=0)
    head: Literal["average", "local"] = "local"

    def alpha_of(self, rank: int) -> float:
        return self.alpha

    def averaged(self, me: Participant) -> dict[str, Tensor]:
        return {**super().averaged(me), **{down(path): a for path, (a, _) in self.adapters(me).items()}}

    def update(self, me: Participant) -> Pairs:
        """B is not sent, and A is among what is averaged."""
        return {}

    def sent(self, server: Server, sender: str) -> list[str]:
        return []

    @exchange(lambda self, server, sender: self.adapter_schema(server, sender))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean of each A."""
        self.forget_base(server)
        return Averaging.weights(self, server, answers)

    def returned(self, server: Server, sender: str) -> Pairs:
        return {}
