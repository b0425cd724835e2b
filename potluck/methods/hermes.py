"""Hermes (Li et al., 2021): everybody prunes filters for itself, and only what all have kept is averaged."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from potluck.core.groups import within
from potluck.core.payload import Payload
from potluck.core.requests import Request
from potluck.federation.method import exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.pruning import Masks, Pruning


class Hermes(Pruning):
    """Sections 4.2 and 4.3: structured pruning on one's own data, then the mean of the overlapping parameters.

    A participant whose validation accuracy is high enough lets the filters of smallest ℓ1 norm go in each layer. At the
    end of a round it takes the mean of what everybody of that round has kept; elsewhere it goes on from its own values,
    so that its model stays its own. One that sat out goes on from its own, too. The head keeps all its rows, and biases
    and normalisation layers are averaged whole.

    Args:
        threshold: the validation accuracy from which on a participant prunes itself; by default 0.5.
        step_size: the share of a layer's remaining filters that goes at once; by default 0.2.
        target: the share of a layer's filters that may be gone in the end; by default 0.5.
        overlap: over which filters means are taken: "all" (the default), those that all of the round have kept, or
            "holders", each over those who have kept it.
        weighting: "samples" (the default) or "uniform".
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    by_filter: ClassVar[bool] = True

    threshold: float = Field(0.5, ge=0, le=1)
    overlap: Literal["all", "holders"] = "all"
    weighting: Literal["samples", "uniform"] = "samples"

    def prunable(self, me: Participant) -> list[str]:
        return [name for name in super().prunable(me) if not within(name, me.head)]

    def catch_up(self, me: Participant) -> Generator[Request, Any, Payload | None]:
        """A model of one's own misses nothing."""
        yield from ()
        return None

    @exchange(Pruning.sparse_schema)
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean over those who kept a filter, and which filters all of the round have kept."""
        replies = super().weights(server, answers)
        common: dict[str, Tensor] = {}
        for sender in replies:
            for name, mask in super().returned(server, sender).items():
                common[name] = mask & common.get(name, mask)
        server.state["common"] = common
        return replies

    def returned(self, server: Server, sender: str) -> Masks:
        kept, common = super().returned(server, sender), server.state.get("common", {})
        return {name: mask & common[name] for name, mask in kept.items()} if self.overlap == "all" else kept
