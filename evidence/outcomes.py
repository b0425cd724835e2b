"""What result files hold, and the numbers that tables and figures take from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Outcome = dict[str, Any]
"""What one result file holds."""


class Results:
    """All result files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found: dict[tuple[str, str], list[Outcome]] = {}
        for path in sorted(folder.glob("*.json")):
            content = json.loads(path.read_text())
            if isinstance(content, dict) and any("accuracy" in row for row in content.get("rounds", [])):
                self._found.setdefault((content["experiment"], content["setting"]), []).append(content)

    def of(self, experiment: str, setting: str) -> list[Outcome]:
        """One outcome for each seed; none if it was not played."""
        return self._found.get((experiment, setting), [])

    def until(self, experiment: str, setting: str, last: int) -> list[Outcome]:
        """The outcomes that reached a round, without what came after it: like is compared with like."""
        return [
            outcome | {"rounds": [row for row in outcome["rounds"] if row["round"] <= last]}
            for outcome in self.of(experiment, setting)
            if last in measured(outcome)
        ]

    def read(self, name: str) -> Any:
        """A file that holds no rounds."""
        return json.loads((self.folder / f"{name}.json").read_text())


def measured(outcome: Outcome) -> dict[int, float]:
    """Round → mean accuracy, where it was measured."""
    return {row["round"]: row["accuracy"] for row in outcome["rounds"] if "accuracy" in row}


def last_round(outcome: Outcome) -> int:
    """The last one that was measured."""
    return max(measured(outcome))


def first_within(outcome: Outcome, points: float) -> int:
    """The first round that comes within so many points of the best one."""
    scores = measured(outcome)
    return min(number for number, score in scores.items() if score >= max(scores.values()) - points / 100)


def gains(outcome: Outcome, alone: Outcome) -> dict[str, float]:
    """How much more accurate each participant is than alone, relative to that."""
    return {name: score / alone["participants"][name] - 1 for name, score in outcome["participants"].items()}


def spread(values: Iterable[float], scale: float = 100.0, digits: int = 1) -> str:
    """Mean ± deviation over seeds; a single seed has none."""
    found = [scale * value for value in values]
    if not found:
        return "–"
    text = f"{np.mean(found):.{digits}f}"
    return text if len(found) == 1 else f"{text} ± {np.std(found, ddof=1):.{digits}f}"


def final(outcomes: Iterable[Outcome], digits: int = 1) -> str:
    """Accuracy in percent at the last measured round."""
    return spread((measured(outcome)[last_round(outcome)] for outcome in outcomes), digits=digits)


def best(outcomes: Iterable[Outcome], digits: int = 1) -> str:
    """The best round's accuracy and, in brackets, its number: chosen on test data, not a result."""
    tops = [max(measured(outcome).items(), key=lambda pair: pair[1]) for outcome in outcomes]
    if not tops:
        return "–"
    return f"{spread((score for _, score in tops), digits=digits)} ({spread((number for number, _ in tops), 1, 0)})"
