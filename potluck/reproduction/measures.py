"""What is measured of a run to stand beside a published number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from statistics import fmean

from potluck.core.errors import SettingsError, nearest
from potluck.report.trials import Trial

Runs = Mapping[str, Trial]
"""The runs of one seed, by the title of their row."""
Measuring = Callable[[str, Runs], float | None]
"""From a row's title and all runs of a seed to a number; None where there is none."""

FLOOR, WHOLE = "Local", "FedAvg"
"""The rows that gains and shares are counted against."""


def accuracy(row: str, runs: Runs) -> float | None:
    """The mean over participants after the last round, in percent."""
    score = runs[row].score("accuracy")
    return None if score is None else 100 * score


def best_accuracy(row: str, runs: Runs) -> float | None:
    """The highest mean over participants of any round, in percent, as papers print it: chosen on test data."""
    means = [mean for mean in runs[row].course("accuracy").means if mean is not None]
    return 100 * max(means) if means else None


def rounds_to_best(row: str, runs: Runs) -> float | None:
    """The first round whose mean is the highest of all."""
    course = runs[row].course("accuracy")
    known = [(mean, number) for number, mean in zip(course.rounds, course.means, strict=True) if mean is not None]
    return float(max(known, key=lambda pair: (pair[0], -pair[1]))[1]) if known else None


def rounds_to(percent: float) -> Measuring:
    """The first round whose mean is at least so many percent; None where no round's is."""

    def measure(row: str, runs: Runs) -> float | None:
        course = runs[row].course("accuracy")
        found = zip(course.rounds, course.means, strict=True)
        return next((float(number) for number, mean in found if mean is not None and 100 * mean >= percent), None)

    return measure


def gain_over_local(row: str, runs: Runs) -> float | None:
    """By how many percent a participant is more accurate than alone: the mean over participants of together / alone."""
    if FLOOR not in runs:
        return None
    alone, together = (runs[name].course("accuracy").final for name in (FLOOR, row))
    ratios = [together[name] / value for name, value in alone.items() if value and name in together]
    return 100 * (fmean(ratios) - 1) if ratios else None


def share_of_fedavg(row: str, runs: Runs) -> float | None:
    """What all participants sent, by what they send in FedAvg."""
    if WHOLE not in runs:
        return None
    sent, whole = (runs[name].history.bytes()[0] for name in (row, WHOLE))
    return sent / whole if whole else None


def bytes_sent(row: str, runs: Runs) -> float | None:
    """What one participant sent in one round, in millions of bytes, joining counted in."""
    history = runs[row].history
    return history.bytes()[0] / max(1, len(history.final.rows) * history.rounds) / 1e6


MEASURES: dict[str, Measuring] = {
    "accuracy": accuracy,
    "best accuracy": best_accuracy,
    "rounds to best": rounds_to_best,
    "gain over Local %": gain_over_local,
    "share of FedAvg": share_of_fedavg,
    "MB sent": bytes_sent,
}
"""By name."""


def measure_named(name: str) -> Measuring:
    """A measure by its name; "rounds to 60%" is one for each number."""
    if found := re.fullmatch(r"rounds to ([0-9.]+)%", name):
        return rounds_to(float(found[1]))
    if name not in MEASURES:
        raise SettingsError(f"There is no measure {name!r}.{nearest(name, [*MEASURES, 'rounds to 60%'])}")
    return MEASURES[name]
