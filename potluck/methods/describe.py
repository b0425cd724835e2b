"""Describe: what the columns of all tables have in common, so that they can be prepared alike before any training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from potluck.core.disclosure import Disclosure
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Answer, Leaving, Method, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.column_statistics import (
    Moments,
    added,
    binned,
    categories_in,
    column,
    column_names,
    frequent,
    numbers_in,
    quantile,
)

MOST_COLUMNS, LONGEST_NAME, LARGEST = 10_000, 200, 1e300
QUARTILES = (0.25, 0.5, 0.75)
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Counts = dict[Name, Annotated[int, Field(ge=1, lt=2**53)]]
Kinds = Annotated[dict[Name, Literal["number", "category"]], Field(max_length=MOST_COLUMNS)]
MOMENTS = ("known", "mean", "squares", "low", "high")


class Describe(Method):
    """A study without training: three exchanges when participants join, after which the server knows all columns.

    "columns": names, kinds, categories with their counts, class counts. A column is of numbers where it is of numbers
    everywhere. "moments": of each column of numbers how many values are known, their mean, variance and range, merged
    exactly. "histograms": counts in bins between the common least and largest value; quantiles follow from them.

    Each participant tells what its ``Disclosure`` allows, and nothing that stands for fewer samples than it says. The
    result is a ``Description``, and makes a preprocessor that all of them apply.

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
        table, told = me.data.x, me.disclosure
        kinds: dict[str, str] = {}
        values: dict[str, dict[str, int]] = {}
        for name in column_names(table):
            if name not in self.categories and numbers_in(column(table, name)) is not None:
                kinds[name] = "number"
                continue
            texts = categories_in(column(table, name))
            if len({text for text in texts if text is not None}) <= self.max_categories:
                kinds[name] = "category"
                values[name] = frequent(texts, told.min_count) if "categories" in told.tell else {}
        facts = {"columns": kinds, "values": values, "classes": _classes(me, told)}
        common = (yield Exchange("columns", Payload(facts=facts))).facts
        late = [name for name in common["categories"] if kinds.get(name) == "number"]
        moments = _moments(table, common["numbers"], told)
        codes = {name: frequent(categories_in(column(table, name)), told.min_count) for name in late}
        allowed = codes if "categories" in told.tell else {}
        reply = yield Exchange("moments", Payload({"moments": moments}, {"values": allowed}))
        low, high = (reply["moments"][:, MOMENTS.index(part)].tolist() for part in ("low", "high"))
        counts = _histograms(table, common["numbers"], low, high, told, self.bins)
        yield Exchange("histograms", Payload({"counts": counts}))
        return None

    def round(self, me: Participant) -> Steps:
        """Nothing: all is told when participants join."""
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
    )
    def columns(self, server: Server, answers: Answers) -> Payload:
        """The union of columns. One that is a category anywhere is one everywhere."""
        told = {sender: dict(payload.facts) for sender, payload in answers}
        names = sorted({name for facts in told.values() for name in facts["columns"]})
        kinds = {
            name: {facts["columns"][name] for facts in told.values() if name in facts["columns"]} for name in names
        }
        server.state["told"] = {name: told[name] for name in sorted(told)}
        server.state["numbers"] = [name for name in names if kinds[name] == {"number"}]
        server.state["categories"] = [name for name in names if kinds[name] != {"number"}]
        return Payload(facts={"numbers": server.state["numbers"], "categories": server.state["categories"]})

    def moments_schema(self, server: Server, sender: str) -> Schema:
        """A row for each column of numbers."""
        shape = (len(server.state["numbers"]), len(MOMENTS))
        return Schema(
            {"moments": TensorSpec(shape, torch.float64, low=-LARGEST, high=LARGEST)}, {"values": dict[Name, Counts]}
        )

    @exchange(moments_schema, phase="join")
    def moments(self, server: Server, answers: Answers) -> Payload:
        """The moments of all values together."""
        rows: dict[str, Tensor] = {}
        for sender, payload in answers:
            rows[sender] = payload["moments"]
            server.state["told"][sender]["values"] |= dict(payload.facts["values"])
        parts = {sender: [_as_moments(row) for row in rows[sender].tolist()] for sender in sorted(rows)}
        count = len(server.state["numbers"])
        whole = [Moments.together(own[place] for own in parts.values()) for place in range(count)]
        server.state["moments"] = torch.tensor(whole, dtype=torch.float64).reshape(count, len(MOMENTS))
        server.state["held"] = [sum(own[place].known > 0 for own in parts.values()) for place in range(count)]
        return Payload({"moments": server.state["moments"]})

    def counts_schema(self, server: Server, sender: str) -> Schema:
        """A row of bins for each column of numbers."""
        return Schema({"counts": TensorSpec((len(server.state["numbers"]), self.bins), torch.int64, low=0, high=2**53)})

    @exchange(counts_schema, phase="join")
    def histograms(self, server: Server, answers: Answers) -> Payload:
        """All counts added up; with them the description is whole."""
        total = torch.zeros(len(server.state["numbers"]), self.bins, dtype=torch.int64)
        for _, payload in answers:
            total = total + payload["counts"]
        server.state["description"] = _description(server.state, total)
        return Payload()


def _classes(me: Participant, told: Disclosure) -> dict[str, int]:
    """How often each label occurs."""
    if not me.labels or "classes" not in told.tell or me.data.y.ndim != 1:
        return {}
    return frequent((str(label) for label in me.task.decode(me.data.y[me.task.known(me.data.y)])), told.min_count)


def _moments(table: Any, names: list[str], told: Disclosure) -> Tensor:
    """A row for each column, of zeros where it is not here, or not to be told."""
    here, rows = set(column_names(table)), np.zeros((len(names), len(MOMENTS)))
    tells = {"known": "count", "mean": "mean", "squares": "variance", "low": "range", "high": "range"}
    for row, name in zip(rows, names, strict=True):
        numbers = numbers_in(column(table, name)) if name in here else None
        if numbers is None or not {"count", "mean"} <= set(told.tell):
            continue
        found = Moments.of(numbers)
        if found.known >= told.min_count and all(abs(value) < math.sqrt(LARGEST) for value in found):
            row[:] = [value if tells[part] in told.tell else 0.0 for part, value in zip(MOMENTS, found, strict=True)]
            if "range" not in told.tell:
                row[MOMENTS.index("low") :] = found.mean
    return torch.from_numpy(rows)


def _histograms(
    table: Any, names: list[str], low: list[float], high: list[float], told: Disclosure, bins: int
) -> Tensor:
    """Of each column the counts in bins, those that stand for too few samples left out."""
    here, rows = set(column_names(table)), np.zeros((len(names), bins), dtype=np.int64)
    for place, name in enumerate(names):
        numbers = numbers_in(column(table, name)) if name in here else None
        if numbers is not None and "histogram" in told.tell:
            counts = binned(numbers, low[place], high[place], bins)
            rows[place] = np.where(counts >= told.min_count, counts, 0)
    return torch.from_numpy(rows)


def _as_moments(row: list[float]) -> Moments:
    count, mean, squares, low, high = row
    return Moments(max(0, int(count)), mean, max(0.0, squares), low, high)


def _description(state: Mapping[str, Any], counts: Tensor) -> dict[str, Any]:
    """Everything that was told, as plain values."""
    columns: dict[str, Any] = {}
    for place, name in enumerate(state["numbers"]):
        found = _as_moments(state["moments"][place].tolist())
        bins = counts[place].tolist()
        columns[name] = {
            "kind": "number",
            "held_by": state["held"][place],
            "count": found.known,
            "mean": found.mean,
            "variance": found.squares / found.known if found.known else 0.0,
            "low": found.low,
            "high": found.high,
            "quartiles": [quantile(bins, found.low, found.high, share) for share in QUARTILES],
            "histogram": bins,
        }
    for name in state["categories"]:
        own = [facts["values"].get(name, {}) for facts in state["told"].values()]
        columns[name] = {"kind": "category", "held_by": sum(map(bool, own)), "categories": added(own)}
    classes = added(facts["classes"] for facts in state["told"].values())
    return {"participants": len(state["told"]), "columns": columns, "classes": classes}
