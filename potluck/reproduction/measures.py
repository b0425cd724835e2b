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
    ratio = accuracy_by(FLOOR)(row, runs)
    return None if ratio is None else 100 * (ratio - 1)


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


def values_sent(row: str, runs: Runs) -> float | None:
    """What one participant sent in the last round, joining left out, in millions of values of four bytes."""
    sent = [float(one["bytes_up"]) for one in runs[row].history.final.rows if one["took_part"]]
    return fmean(sent) / 4e6 if sent else None


def pseudolabels(row: str, runs: Runs) -> float | None:
    """How many public samples a participant received with a label."""
    found = [float(one["received"]) for one in runs[row].history.final.rows if "received" in one]
    return fmean(found) if found else None


def extra_time(row: str, runs: Runs) -> float | None:
    """By how many percent all participants worked longer than alone."""
    if FLOOR not in runs:
        return None
    longer, alone = (runs[name].history.seconds for name in (row, FLOOR))
    return 100 * (longer / alone - 1) if alone else None


def accuracy_by(other: str) -> Measuring:
    """A participant's accuracy by what it reaches in another row: the mean over participants."""

    def measure(row: str, runs: Runs) -> float | None:
        if other not in runs:
            return None
        theirs, ours = (runs[name].course("accuracy").final for name in (other, row))
        ratios = [ours[name] / value for name, value in theirs.items() if value and name in ours]
        return fmean(ratios) if ratios else None

    return measure


MEASURES: dict[str, Measuring] = {
    "accuracy": accuracy,
    "best accuracy": best_accuracy,
    "rounds to best": rounds_to_best,
    "gain over Local %": gain_over_local,
    "share of FedAvg": share_of_fedavg,
    "MB sent": bytes_sent,
    "M values sent": values_sent,
    "pseudolabels": pseudolabels,
    "time over Local %": extra_time,
}
"""By name."""


def measure_named(name: str, inspected: bool = False) -> Measuring:
    """A measure by its name; "rounds to 60%" is one for each number, "accuracy by CoFED" for each row.

    Args:
        name: its name.
        inspected: whether what is known by no name was found in the networks; by default it is a mistake.
    """
    if found := re.fullmatch(r"rounds to ([0-9.]+)%", name):
        return rounds_to(float(found[1]))
    if name.startswith("accuracy by "):
        return accuracy_by(name.removeprefix("accuracy by "))
    if name not in MEASURES and inspected:
        return lambda row, runs: runs[row].inspected.get(name)
    if name not in MEASURES:
        raise SettingsError(
            f"There is no measure {name!r}.{nearest(name, [*MEASURES, 'rounds to 60%', 'accuracy by FedAvg'])}"
        )
    return MEASURES[name]
