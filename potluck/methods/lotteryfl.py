"""LotteryFL (Li et al., 2021): everybody looks for a lottery ticket, a sparse network of its own, and shares that."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from potluck.federation.method import Steps
from potluck.federation.participant import Participant
from potluck.methods.pruning import Masks, Pruning


class LotteryFL(Pruning):
    """Section 3, Algorithm 1: prune the smallest weights, begin again from the first values, share what is left.

    A participant whose part of the global model does well enough on its validation data lets the smallest of its
    remaining weights go, layer by layer, and starts again from the values that all began with. The global model is the
    mean of each weight over those who have kept it, Σw / Σmask; a weight that nobody has kept stays. A participant
    receives, and answers with, its own part. Biases and normalisation layers are averaged whole.

    The authors' code decides on test data, which is not copied; it prunes 10% unless told otherwise, and stops where
    half is gone, which its last step may pass.

    Args:
        threshold: the validation accuracy from which on a participant prunes itself; by default 0.2.
        step_size: the share of a layer's remaining weights that goes at once; by default 0.2.
        target: the share of a layer's weights that may be gone in the end; by default 0.5.
        rewind: whether a participant that has pruned itself begins again from the first values; by default True.
        weighting: "uniform" (the default), as in the authors' code, or "samples".
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    by_filter: ClassVar[bool] = False

    threshold: float = Field(0.2, ge=0, le=1)
    rewind: bool = True
    weighting: Literal["samples", "uniform"] = "uniform"

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        own = me.weights()
        me.state["first"] = {name: own[name] for name in me.network.trainable()} if self.rewind else {}
        return None

    def thin_out(self, me: Participant, kept: Masks) -> None:
        """What is left begins again."""
        me.load(me.state["first"])
        super().thin_out(me, kept)
