"""A trial: one run of one method with one seed, as a report reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any

from potluck.core.history import History


@dataclass(frozen=True)
class Entry:
    """What is compared: a method, with the settings that were tried of it.

    Args:
        method: its name.
        settings: the settings that tell it from the method's other entries, each a key with its value; by default none.
    """

    method: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """What a table calls it."""
        shown = ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in self.settings)
        return f"{self.method} {shown}".strip()


@dataclass(frozen=True)
class Holder:
    """A participant, with what it brings.

    Args:
        name: what it is called.
        model: its kind of model; by default unknown.
        samples: how many samples it trains on; by default unknown.
        counts: how many of these it has of each label; by default unknown.
    """

    name: str
    model: str = ""
    samples: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Course:
    """How one metric went, round by round; bytes and seconds are those of all participants so far.

    Args:
        rounds: the rounds that were played.
        means: after each of them the mean over participants; None where nobody was measured.
        bytes: what had been sent and received.
        seconds: what all had worked.
        final: each participant's value after the last round.
        simulated: how late it was by the virtual clock; by default there was none.
    """

    rounds: tuple[int, ...]
    means: tuple[float | None, ...]
    bytes: tuple[int, ...]
    seconds: tuple[float, ...]
    final: Mapping[str, float]
    simulated: tuple[float, ...] | None = None


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of one entry with one seed.

    Args:
        entry: what was run.
        seed: what every random draw derived from.
        history: what happened.
        holders: the participants; by default unknown.
        validation: each participant's metrics on its validation data; by default none.
        cross: model's owner → data's owner → metrics; by default none.
        about: settings and versions, as a run folder keeps them; by default none.
        exchanges: what travelled at each exchange: answers, bytes_up, replies, bytes_down; by default unknown.
        unseen: the metrics of each who took no part, as a newcomer at the end; by default there was none.
        inspected: what was found in the networks after the last round, by name; by default nobody looked.
    """

    entry: Entry
    seed: int
    history: History
    holders: tuple[Holder, ...] = ()
    validation: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    cross: Mapping[str, Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    exchanges: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unseen: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    inspected: Mapping[str, float] = field(default_factory=dict)
    _courses: dict[str, Course] = field(default_factory=dict, init=False, repr=False)

    def course(self, metric: str) -> Course:
        """How a metric went."""
        if metric not in self._courses:
            self._courses[metric] = course(self.history, metric)
        return self._courses[metric]

    def score(self, metric: str) -> float | None:
        """The mean over participants after the last round."""
        final = self.course(metric).final
        return fmean(final.values()) if final else None

    def validated(self, metric: str) -> float | None:
        """The mean over participants on their validation data."""
        return _mean(self.validation, metric)

    def newcomers(self, metric: str) -> float | None:
        """The mean over those who took no part."""
        return _mean(self.unseen, metric)


def _mean(measured: Mapping[str, Mapping[str, float | None]], metric: str) -> float | None:
    """The mean over those who have a value."""
    found = [value for metrics in measured.values() if (value := metrics.get(metric)) is not None]
    return fmean(found) if found else None


def course(history: History, metric: str) -> Course:
    """How a metric of participants went; a history is read once, from its first row to its last."""
    points: dict[int, tuple[float | None, int, float]] = {}
    standing: dict[str, float] = {}
    sent, worked = 0, 0.0
    for number, rows in groupby(history.recorded(), key=itemgetter("round")):
        for row in rows:
            sent += row["bytes_up"] + row["bytes_down"]
            worked += row["seconds"]
            if row.get("model") is not None:
                continue  # a model of the server's, or one beside the participant's own
            value = row.get(metric)
            if isinstance(value, int | float):
                standing[row["participant"]] = float(value)
            else:
                standing.pop(row["participant"], None)
        points[number] = (fmean(standing.values()) if standing else None, sent, worked)
    means, travelled, seconds = zip(*points.values(), strict=True) if points else ((), (), ())
    clock = dict(history.simulated_seconds())
    late = tuple(clock[number] for number in points) if clock and clock.keys() == points.keys() else None
    return Course(tuple(points), means, travelled, seconds, standing, late)
