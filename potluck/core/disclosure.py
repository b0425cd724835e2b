"""What a participant lets others know of its table."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from potluck.core.settings import Settings

Statistic = Literal["count", "mean", "variance", "range", "histogram", "categories", "classes"]


class Disclosure(Settings):
    """Which statistics of a participant's columns may leave it, and how many samples each must stand for.

    Args:
        tell: which may leave: "count" (how many values are known), "mean", "variance", "range" (the least and the
            largest value), "histogram", "categories" (the values of a column of text, with their counts), "classes"
            (how often each label occurs). By default all. Names of columns, and whether they hold numbers, are
            disclosed in any case; leave out columns that nobody may know of.
        min_count: nothing is disclosed that stands for fewer samples: not the numbers of a column with fewer known
            values, no category and no class that is rarer; bins of a histogram with fewer are put together with their
            neighbours. By default 5.
    """

    model_config = ConfigDict(title="disclosure")

    tell: tuple[Statistic, ...] = ("count", "mean", "variance", "range", "histogram", "categories", "classes")
    min_count: int = Field(5, ge=1)
