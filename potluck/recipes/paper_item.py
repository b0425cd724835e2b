"""What a paper published, beside the federation that plays it: the table ``[paper]`` of a run file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from potluck.recipes.validation import Section, refuse

ReproductionScale = Literal["smoke", "small", "paper"]
"""How large an item is played: half a minute on data that are made, half an hour on two cores, as in the paper."""


class PaperRow(Section):
    """One row or curve of a table or figure: what is changed about the run file, and what was published.

    Args:
        title: what the paper calls it.
        group: which of several such as data sets it belongs to: gains and shares are counted within a group; by default
            all rows are one.
        set: changes of the run file, each as ``--set`` takes it; by default none.
        published: measure → the published number; by default none was.
    """

    model_config = ConfigDict(title="a row of a paper's item")

    title: str = Field(min_length=1)
    group: str = ""
    set: list[str] = Field(default_factory=list)
    published: dict[str, float] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tells it from all other rows."""
        return f"{self.group}: {self.title}" if self.group else self.title


class PaperScale(Section):
    """What one scale changes about the run file, for all rows.

    Args:
        set: changes, each as ``--set`` takes it; by default none.
        reduced: in words, what is smaller than in the paper; by default nothing.
        minutes: how long it takes on two cores, about; by default it was not measured.
        estimated: how long all rows would take under one seed, in minutes, on two cores, and on one GPU at "paper":
            worked out from single steps, not measured; by default unknown.
    """

    model_config = ConfigDict(title="a scale of a paper's item")

    set: list[str] = Field(default_factory=list)
    reduced: str = ""
    minutes: float | None = Field(None, gt=0)
    estimated: float | None = Field(None, gt=0)


class PaperItem(Section):
    """A table or figure of a paper.

    Args:
        paper: the paper's method.
        item: which table or figure.
        title: what it shows.
        claim: what the paper reads off it, in a sentence.
        measures: what is compared with the published numbers.
        rows: the rows of it that are played.
        scales: what each scale changes; those that are there can be played. By default those of ``base``.
        base: the name of another item whose federation this one plays; by default it has its own, in its file.
        inspect: what looks at the networks after the last round: functions, as "package.module:name", that take the
            federation and return numbers by name, which are measures; by default nothing.
        counted: whether it counts what is sent, which is the same under every seed; by default false.
        data: the data sets that the scales beside "smoke" need, for the reader; by default none.
        open: what the paper leaves open and was decided here; by default nothing.
    """

    model_config = ConfigDict(title="paper")

    paper: str = Field(min_length=1)
    item: str = Field(min_length=1)
    title: str = Field(min_length=1)
    claim: str = ""
    measures: list[str] = Field(min_length=1)
    rows: list[PaperRow] = Field(min_length=1)
    scales: Mapping[ReproductionScale, PaperScale] = Field(default_factory=dict)
    base: str = ""
    inspect: list[str] = Field(default_factory=list)
    counted: bool = False
    data: list[str] = Field(default_factory=list)
    open: str = ""

    def on(self, base: PaperItem) -> PaperItem:
        """This item with what it takes over from the one whose federation it plays."""
        kept = {"data": self.data or base.data, "open": self.open or base.open}
        return self.model_copy(update={"scales": {**base.scales, **self.scales}, **kept})

    @model_validator(mode="after")
    def _as_measured(self) -> PaperItem:
        names = [row.name for row in self.rows]
        if not self.scales and not self.base:
            refuse([(("scales",), "there is none; expected at least one, or a base that has some.")])
        for position, row in enumerate(self.rows):
            if names.count(row.name) > 1:
                refuse([(("rows", position, "title"), f"two rows are called {row.name!r}; titles must differ.")])
            if unknown := sorted(set(row.published) - set(self.measures)):
                known = ", ".join(self.measures)
                refuse([(("rows", position, "published", unknown[0]), f"it is not measured; expected one of {known}.")])
        return self


class PaperFile(Section):
    """What of a run file is about a paper; the rest is read when it is played."""

    model_config = ConfigDict(title="a paper's run file", extra="ignore")

    paper: PaperItem = Field(description="a table [paper] with what was published")
