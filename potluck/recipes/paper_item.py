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
        set: changes of the run file, each as ``--set`` takes it; by default none.
        published: measure → the published number; by default none was.
    """

    model_config = ConfigDict(title="a row of a paper's item")

    title: str = Field(min_length=1)
    set: list[str] = Field(default_factory=list)
    published: dict[str, float] = Field(default_factory=dict)


class PaperScale(Section):
    """What one scale changes about the run file, for all rows.

    Args:
        set: changes, each as ``--set`` takes it; by default none.
        reduced: in words, what is smaller than in the paper; by default nothing.
        minutes: how long it takes on two cores, about; by default it was not measured.
    """

    model_config = ConfigDict(title="a scale of a paper's item")

    set: list[str] = Field(default_factory=list)
    reduced: str = ""
    minutes: float | None = Field(None, gt=0)


class PaperItem(Section):
    """A table or figure of a paper.

    Args:
        paper: the paper's method.
        item: which table or figure.
        title: what it shows.
        claim: what the paper reads off it, in a sentence.
        measures: what is compared with the published numbers.
        rows: the rows of it that are played.
        scales: what each scale changes; those that are there can be played.
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
    scales: Mapping[ReproductionScale, PaperScale]
    data: list[str] = Field(default_factory=list)
    open: str = ""

    @model_validator(mode="after")
    def _as_measured(self) -> PaperItem:
        titles = [row.title for row in self.rows]
        for position, row in enumerate(self.rows):
            if titles.count(row.title) > 1:
                refuse([(("rows", position, "title"), f"two rows are called {row.title!r}; titles must differ.")])
            if unknown := sorted(set(row.published) - set(self.measures)):
                known = ", ".join(self.measures)
                refuse([(("rows", position, "published", unknown[0]), f"it is not measured; expected one of {known}.")])
        return self


class PaperFile(Section):
    """What of a run file is about a paper; the rest is read when it is played."""

    model_config = ConfigDict(title="a paper's run file", extra="ignore")

    paper: PaperItem = Field(description="a table [paper] with what was published")
