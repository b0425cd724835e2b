"""What runs are compared by: a metric's name, whether more of it is better, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from potluck.core.metrics import SHARES, less_is_better, title
from potluck.report.comparison import spread


@dataclass(frozen=True)
class Metric:
    """A metric that runs are compared by.

    Args:
        name: its column in the history.
        higher: whether more of it is better; by default True.
        share: whether it is shown in percent; by default False.
    """

    name: str
    higher: bool = True
    share: bool = False

    @property
    def title(self) -> str:
        """How it is written for people."""
        return title(self.name)

    @property
    def heading(self) -> str:
        """What stands above a column of it."""
        return f"{self.title} %" if self.share else self.title

    @property
    def unit(self) -> str:
        """What follows a value in a sentence."""
        return "%" if self.share else ""

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.higher else one < other

    def gain(self, value: float, before: float) -> float:
        """How much better a value is than another one: below 0 where it is worse."""
        return value - before if self.higher else before - value

    def scaled(self, value: float) -> float:
        """A value as it is shown."""
        return 100 * value if self.share else value

    def text(self, value: float, sign: str = "") -> str:
        """A value for people: in percent, or with four digits."""
        return f"{self.scaled(value):{sign}.1f}" if self.share else f"{value:{sign}.4g}"

    def spread(self, values: Sequence[float], sign: str = "") -> str:
        """Mean ± deviation, without a deviation where there is one value only."""
        if not values:
            return "–"
        mean, deviation = spread(values)
        return self.text(mean, sign) + (f" ± {self.text(deviation)}" if len(values) > 1 else "")


def metric_named(name: str) -> Metric:
    """What is known of a metric by its name."""
    return Metric(name, not less_is_better(name), name in SHARES)


def number(values: Sequence[float], digits: int = 1) -> str:
    """The mean, for people."""
    return f"{fmean(values):,.{digits}f}" if values else "–"
