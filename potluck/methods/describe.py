"""Describe: what the columns of all tables have in common, so that they can be prepared alike before any training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from potluck.core.disclosure import Disclosure, Statistic
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Answer, Leaving, Method, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import nothing
from potluck.federation.server import Answers, Server
from potluck.methods.column_statistics import (
    Moments,
    Values,
    added,
    binned,
    categories_in,
    column,
    column_names,
    frequent,
    numbers_in,
    quantile,
    with_neighbours,
)

MOST_COLUMNS, LONGEST_NAME = 10_000, 200
LARGEST = 1e60  # what is merged of such numbers is finite, whoever tells them
QUARTILES = (0.25, 0.5, 0.75)
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Counts = dict[Name, Annotated[int, Field(ge=1, lt=2**53)]]
Names = Annotated[list[Name], Field(max_length=100 * MOST_COLUMNS)]
Kinds = Annotated[dict[Name, Literal["number", "category"]], Field(max_length=MOST_COLUMNS)]
MOMENTS = ("known", "mean", "squares", "low", "high")
UNKNOWN = (1.0, -1.0)
"""The range of a column of which nobody disclosed one: a payload holds no NaN."""


class Describe(Method):
    """A study without training: three exchanges when participants join, after which the server knows all columns.

    "columns": names, kinds, categories with their counts, class counts. A column is of numbers where it is of numbers
    everywhere. "moments": of each column of numbers how many values are known, their mean, variance and range, merged
    exactly. "histograms": counts in bins between the common least and largest value; quantiles follow from them.

    Each participant sends what its ``Disclosure`` allows, and nothing that stands for fewer samples than it says. A
    variance or a range is that of those who disclose theirs. The result is a ``Description``, and makes a preprocessor
    that all of them apply.

    Args:
        categories: columns of numbers that are codes, and so categories; by default none.
        max_categories: how many different values a column may have at one participant to count as categories; one with
            more, such as names and free text, is left out. By default 100.
        bins: how many bins histograms have; by default 32.
    """

    needs = Needs(tasks="any", own_targets=False)
    uses_models: ClassVar[bool] = False
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        "columns": ("statistics",),
        "moments": ("statistics",),
        "histograms": ("statistics",),
    }
    sends: ClassVar[Mapping[str, str]] = {
        "columns": "the names and kinds of its columns, and as far as it discloses them the categories that occur and "
        "how often, and how often each label occurs; once",
        "moments": "as far as it discloses them, of each column of numbers how many values are known, their mean, "
        "variance, least and largest value; once",
        "histograms": "as far as it discloses them, how many values of each column of numbers are in each bin; once",
    }

    categories: tuple[str, ...] = ()
    max_categories: int = Field(100, ge=1, le=10_000)
    bins: int = Field(32, ge=2, le=1000)

    def join(self, me: Participant) -> Steps:
        table, disclosure = me.data.x, me.disclosure
        kinds: dict[str, str] = {}
        values: dict[str, dict[str, int]] = {}
        for name in column_names(table):
            if name not in self.categories and numbers_in(column(table, name)) is not None:
                kinds[name] = "number"
                continue
            texts = categories_in(column(table, name))
            if len({text for text in texts if text is not None}) <= self.max_categories:
                kinds[name] = "category"
                values[name] = frequent(texts, disclosure.min_count) if "categories" in disclosure.tell else {}
        facts = {"columns": kinds, "values": values, "classes": _classes(me, disclosure)}
        common = (yield Exchange("columns", Payload(facts=facts))).facts
        late = [name for name in common["categories"] if kinds.get(name) == "number"]
        moments = _moments(table, common["numbers"], disclosure)
        codes = {name: frequent(categories_in(column(table, name)), disclosure.min_count) for name in late}
        allowed = codes if "categories" in disclosure.tell else {}
        facts = {"values": allowed, "tells": [what for what in ("variance", "range") if what in disclosure.tell]}
        reply = yield Exchange("moments", Payload({"moments": moments}, facts))
        counts = _histograms(table, common["numbers"], reply["ranges"].tolist(), disclosure, self.bins)
        yield Exchange("histograms", Payload({"counts": counts}))
        return None

    def round(self, me: Participant) -> Steps:
        """Nothing: all is sent when participants join."""
        yield from ()
        return None

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        """Nothing is learned that could answer."""
        yield from ()
        return None

    def results(self, server: Server) -> dict[str, Any]:
        return {"description": server.state["description"]} if "description" in server.state else {}

    @exchange(
        lambda self, server, sender: Schema(facts={"columns": Kinds, "values": dict[Name, Counts], "classes": Counts}),
        phase="join",
        reply=lambda self, me, sent: Schema(facts={"numbers": Names, "categories": Names}),
    )
    def columns(self, server: Server, answers: Answers) -> Payload:
        """The union of columns. One that is a category anywhere is one everywhere."""
        facts_of = {sender: dict(payload.facts) for sender, payload in answers}
        names = sorted({name for facts in facts_of.values() for name in facts["columns"]})
        kinds = {
            name: {facts["columns"][name] for facts in facts_of.values() if name in facts["columns"]} for name in names
        }
        server.state["told"] = {name: facts_of[name] for name in sorted(facts_of)}
        server.state["numbers"] = [name for name in names if kinds[name] == {"number"}]
        server.state["categories"] = [name for name in names if kinds[name] != {"number"}]
        return Payload(facts={"numbers": server.state["numbers"], "categories": server.state["categories"]})

    def moments_schema(self, server: Server, sender: str) -> Schema:
        """A row for each column of numbers."""
        shape = (len(server.state["numbers"]), len(MOMENTS))
        return Schema(
            {"moments": TensorSpec(shape, torch.float64, low=-LARGEST, high=LARGEST)},
            {"values": dict[Name, Counts], "tells": Annotated[list[Statistic], Field(max_length=2)]},
        )

    def ranges_schema(self, me: Participant, sent: Schema) -> Schema:
        """Two values for each column of numbers."""
        shape = (*(sent.tensors or {})["moments"].shape[:1], 2)
        return Schema({"ranges": TensorSpec(shape, torch.float64, low=-LARGEST, high=LARGEST)})

    @exchange(moments_schema, phase="join", reply=ranges_schema)
    def moments(self, server: Server, answers: Answers) -> Payload:
        """The moments of all values together; the reply is the range of each column."""
        parts: dict[str, list[Moments]] = {}
        tells: dict[str, list[str]] = {}
        for sender, payload in answers:
            parts[sender] = [Moments.read(row) for row in payload["moments"].tolist()]
            tells[sender] = payload.facts["tells"]
            server.state["told"][sender]["values"] |= dict(payload.facts["values"])

        def together(place: int, telling: str | None = None) -> Moments:
            names = (name for name in sorted(parts) if telling is None or telling in tells[name])
            return Moments.together(parts[name][place] for name in names)

        found = [
            {
                "held_by": sum(own[place].known > 0 for own in parts.values()),
                "count": (whole := together(place)).known,
                "mean": whole.mean,
                "variance": together(place, "variance").variance,
                **dict(zip(("low", "high"), together(place, "range").range, strict=True)),
            }
            for place in range(len(server.state["numbers"]))
        ]
        server.state["moments"] = found
        return Payload({"ranges": _ranges(found)})

    def counts_schema(self, server: Server, sender: str) -> Schema:
        """A row of bins for each column of numbers."""
        return Schema({"counts": TensorSpec((len(server.state["numbers"]), self.bins), torch.int64, low=0, high=2**53)})

    @exchange(counts_schema, phase="join", reply=nothing)
    def histograms(self, server: Server, answers: Answers) -> Payload:
        """All counts added up; with them the description is whole."""
        total = torch.zeros(len(server.state["numbers"]), self.bins, dtype=torch.int64)
        for _, payload in answers:
            total = total + payload["counts"]
        server.state["description"] = _description(server.state, total)
        return Payload()


def _classes(me: Participant, allowed: Disclosure) -> dict[str, int]:
    """How often each label occurs."""
    if not me.labels or "classes" not in allowed.tell or me.data.y.ndim != 1:
        return {}
    return frequent((str(label) for label in me.task.decode(me.data.y[me.task.known(me.data.y)])), allowed.min_count)


def _ranges(found: list[dict[str, Any]]) -> Tensor:
    """The least and the largest value of each column."""
    known = [(one["low"], one["high"]) if one["low"] is not None else UNKNOWN for one in found]
    return torch.tensor(known, dtype=torch.float64).reshape(len(found), 2)


def _numbers_to_tell(table: Any, name: str, allowed: Disclosure) -> Values | None:
    """A column of numbers, of which something may be disclosed; None if it is not here, or nothing may."""
    if name not in column_names(table) or not {"count", "mean"} <= set(allowed.tell):
        return None
    numbers = numbers_in(column(table, name))
    found = None if numbers is None else Moments.of(numbers)
    large = found is None or any(abs(value) > LARGEST for value in found)
    return None if large or found is None or found.known < allowed.min_count else numbers


def _moments(table: Any, names: list[str], allowed: Disclosure) -> Tensor:
    """A row for each column, of zeros where it is not here, or not to be disclosed."""
    rows = np.zeros((len(names), len(MOMENTS)))
    for row, name in zip(rows, names, strict=True):
        if (numbers := _numbers_to_tell(table, name, allowed)) is not None:
            found = Moments.of(numbers)
            squares = found.squares if "variance" in allowed.tell else 0.0
            row[:] = found.known, found.mean, squares, *(found.range if "range" in allowed.tell else (found.mean,) * 2)
    return torch.from_numpy(rows)


def _histograms(table: Any, names: list[str], ranges: list[list[float]], allowed: Disclosure, bins: int) -> Tensor:
    """Of each column the counts in bins, those that stand for too few samples put together with their neighbours'."""
    rows = np.zeros((len(names), bins), dtype=np.int64)
    for row, name, (low, high) in zip(rows, names, ranges, strict=True):
        if low > high or "histogram" not in allowed.tell or (numbers := _numbers_to_tell(table, name, allowed)) is None:
            continue
        row[:] = with_neighbours(binned(numbers, low, high, bins), allowed.min_count)
    return torch.from_numpy(rows)


def _description(state: Mapping[str, Any], counts: Tensor) -> dict[str, Any]:
    """Everything that was disclosed, as plain values."""
    columns: dict[str, Any] = {}
    for name, found, bins in zip(state["numbers"], state["moments"], counts.tolist(), strict=True):
        low, high = found["low"], found["high"]
        quartiles = [None if low is None else quantile(bins, low, high, share) for share in QUARTILES]
        columns[name] = {"kind": "number", **found, "quartiles": quartiles, "histogram": bins}
    for name in state["categories"]:
        own = [facts["values"].get(name, {}) for facts in state["told"].values()]
        numbers = sum(facts["columns"].get(name) == "number" for facts in state["told"].values())
        held = sum(map(bool, own))
        columns[name] = {"kind": "category", "held_by": held, "numbers_at": numbers, "categories": added(own)}
    classes = added(facts["classes"] for facts in state["told"].values())
    return {"participants": len(state["told"]), "columns": columns, "classes": classes}
