"""What a participant reaches alone and together, over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Compared:
    """One participant's accuracy (0 to 1) without and with the others.

    Args:
        name: the participant.
        brings: its kind of model, in a few characters.
        knows: its label space, in a few characters.
        alone: the accuracy without the others, for each seed.
        together: the accuracy with the others, for each seed.
    """

    name: str
    brings: str
    knows: str
    alone: tuple[float, ...]
    together: tuple[float, ...]

    @property
    def gain(self) -> tuple[float, ...]:
        """Together minus alone, seed by seed."""
        return tuple(after - before for before, after in zip(self.alone, self.together, strict=True))


def overall(rows: Sequence[Compared]) -> Compared:
    """The mean over the participants, seed by seed."""
    alone = tuple(fmean(values) for values in zip(*(row.alone for row in rows), strict=True))
    together = tuple(fmean(values) for values in zip(*(row.together for row in rows), strict=True))
    return Compared("mean", "", "", alone, together)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; a single value deviates by 0."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def percent(values: Sequence[float], sign: str = "") -> str:
    """Mean ± deviation in percent, e.g. ``80.6 ± 1.2``; without a deviation where there is one value only."""
    mean, deviation = spread(values)
    text = f"{100 * mean:{sign}.1f}"
    return f"{text} ± {100 * deviation:.1f}" if len(values) > 1 else text
