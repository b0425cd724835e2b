"""What results hold, and the numbers that tables and figures take from them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from evidence.result_files import all_lines
from potluck.reproduction.result_lines import ResultLine

Outcome = dict[str, Any]
"""What one line says of a run, round by round."""


def outcome_of(line: ResultLine) -> Outcome:
    """A run's rounds, each with what was measured after it."""
    rounds: list[dict[str, Any]] = [{"round": number} for number in range(1, (line.played or 0) + 1)]
    for name, column in line.rounds.items():
        for row, value in zip(rounds, column, strict=True):
            row[name] = value
    columns = {name: column for name, column in line.measured.items() if name != "round"}
    for place, number in enumerate(line.measured.get("round", [])):
        rounds[int(number) - 1] |= {name: column[place] for name, column in columns.items()}
    return line.model_dump(include={"experiment", "setting", "seed", "about", "participants"}) | {"rounds": rounds}


class Results:
    """All lines of a folder that count, by the names of their runs, and which of them were asked for."""

    def __init__(self, folder: Path) -> None:
        found = {line.run: line for line in sorted(all_lines(folder), key=lambda line: f"{line.run}.")}
        self.files: dict[str, Any] = {name: line.content or outcome_of(line) for name, line in found.items()}
        self.read_so_far: set[str] = set()
        self._contents = {line.name: name for name, line in found.items() if line.content is not None}
        self._found: dict[tuple[str, str], dict[str, Outcome]] = {}
        for name, line in found.items():
            if line.measured:
                self._found.setdefault((line.experiment, line.setting), {})[name] = self.files[name]

    def of(self, experiment: str, setting: str) -> list[Outcome]:
        """One outcome for each seed; none if it was not played."""
        found = self._found.get((experiment, setting), {})
        self.read_so_far.update(found)
        return list(found.values())

    def runs(self, name: str) -> dict[int, Outcome]:
        """Seed → outcome of ``EXPERIMENT.SETTING``; where a seed was played twice, the run that got further."""
        experiment, _, setting = name.partition(".")
        outcomes = sorted(self.of(experiment, setting), key=last_round)
        if not outcomes:
            raise KeyError(f"{name} has no result")
        return {outcome["seed"]: outcome for outcome in outcomes}

    def without(self, name: str) -> Results:
        """All lines but one."""
        fewer = copy.copy(self)
        fewer.files = {other: content for other, content in self.files.items() if other != name}
        fewer._found = {
            setting: {other: content for other, content in found.items() if other != name}
            for setting, found in self._found.items()
        }
        return fewer

    def until(self, experiment: str, setting: str, last: int) -> list[Outcome]:
        """The outcomes that reached a round, without what came after it: like is compared with like."""
        return [
            outcome | {"rounds": [row for row in outcome["rounds"] if row["round"] <= last]}
            for outcome in self.of(experiment, setting)
            if last in measured(outcome)
        ]

    def read(self, name: str) -> Any:
        """What was counted or chosen."""
        self.read_so_far.add(self._contents[name])
        return self.files[self._contents[name]]


def measured(outcome: Outcome) -> dict[int, float]:
    """Round → mean accuracy, where it was measured."""
    return {row["round"]: row["accuracy"] for row in outcome["rounds"] if "accuracy" in row}


def last_round(outcome: Outcome) -> int:
    """The last one that was measured."""
    return max(measured(outcome))


def first_at(outcome: Outcome, score: float, over: int) -> int | None:
    """The first measured round up to which the mean over so many measured rounds is at a score.

    Curves go up and down, and one that crosses a line once has not arrived there.
    """
    scores = list(measured(outcome).items())
    for end in range(over, len(scores) + 1):
        if np.mean([found for _, found in scores[end - over : end]]) >= score:
            return scores[end - 1][0]
    return None


def gains(outcome: Outcome, alone: Outcome) -> dict[str, float]:
    """How much more accurate each participant is than alone, relative to that."""
    return {name: score / alone["participants"][name] - 1 for name, score in outcome["participants"].items()}


ENOUGH = 3
"""Below so many seeds a table says how many runs there are, and nothing is concluded from them."""
FEW = {1: "one run", 2: "two runs"}


def count(runs: int) -> str:
    """How many seeds."""
    return FEW.get(runs, str(runs))


def spread(values: Iterable[float], scale: float = 100.0, digits: int = 1) -> str:
    """Mean ± deviation over seeds; the values themselves where there are too few."""
    found = [scale * value for value in values]
    if not found:
        return "–"
    if len(found) < ENOUGH:
        return " ".join(f"{value:.{digits}f}" for value in found)
    return f"{np.mean(found):.{digits}f} ± {np.std(found, ddof=1):.{digits}f}"


def final(outcomes: Iterable[Outcome], digits: int = 1) -> str:
    """Accuracy in percent at the last measured round."""
    return spread((measured(outcome)[last_round(outcome)] for outcome in outcomes), digits=digits)


def best(outcomes: Iterable[Outcome], digits: int = 1) -> str:
    """The best round's accuracy and, in brackets, its number: chosen on test data, not a result."""
    tops = [max(measured(outcome).items(), key=lambda pair: pair[1]) for outcome in outcomes]
    if not tops:
        return "–"
    return f"{spread((score for _, score in tops), digits=digits)} ({spread((number for number, _ in tops), 1, 0)})"
