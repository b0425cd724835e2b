"""Drift over time: a participant that trains on a window of its samples, which moves on from round to round."""

from __future__ import annotations

import torch
from pydantic import ConfigDict, Field

from potluck.core.settings import Settings


class Window(Settings):
    """Samples in the order of time: in each round the participant has ``size`` of them, ``step`` further on.

    The first round has the first ones. Where the data end, it stays with the last ones.

    Args:
        size: how many samples it trains on in a round.
        step: how many samples further on the next round's begin.
    """

    model_config = ConfigDict(title="a window")

    size: int = Field(ge=1)
    step: int = Field(ge=1)

    def begins(self, round: int, samples: int) -> int:
        """The first sample of a round, of so many in all."""
        return max(0, min((max(round, 1) - 1) * self.step, samples - self.size))

    def rows(self, round: int, samples: int) -> torch.Tensor:
        """The samples of a round, of so many in all."""
        first = self.begins(round, samples)
        return torch.arange(first, min(first + self.size, samples))
