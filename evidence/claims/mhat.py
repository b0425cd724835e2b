"""The claims of MHAT's page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evidence.checks import accuracy, rounds_to
from evidence.claims.kinds import Claims, claim, most_and_least
from evidence.differences import paired
from evidence.outcomes import Results, last_round, measured
from evidence.statements import LEVELS, MHAT_NEAR
from evidence.titles import MHAT_PUBLISHED


def times_fd(results: Results) -> list[float]:
    """MHAT's rounds to a fixed accuracy over FD's, of all settings and seeds."""
    found = []
    for (labels, participants), score in LEVELS.items():
        mhat, fd = (rounds_to(f"mhat_mnist.{one}-{labels}-{participants}", score)(results) for one in ("mhat", "fd"))
        found += [late / early for late, early in zip(mhat, fd, strict=True) if late and early]
    return found


def _above_published(kind: str) -> Callable[[Results], list[float]]:
    """Accuracy minus the published one, of both methods with 3 and 20 participants."""

    def found(results: Results) -> list[float]:
        return [
            float(np.mean(accuracy(f"mhat_mnist.{method}-{labels}-{participants}")(results)))
            - float(published.partition(" ")[0])
            for (method, labels, participants), published in MHAT_PUBLISHED.items()
            if labels == kind
        ]

    return found


def _farthest(results: Results) -> str:
    return f"{max(abs(points) for points in _above_published('labelled')(results)):.2f}"


def accuracies_come_back(results: Results) -> bool:
    """With labelled public data, as the statements ask."""
    return max(abs(points) for points in _above_published("labelled")(results)) <= MHAT_NEAR


def _best_rounds_are_late(results: Results) -> bool:
    """Of MHAT and FD, in the last tenth of all rounds."""
    runs = [run for one in MHAT_PUBLISHED for run in results.runs("mhat_mnist.{}-{}-{}".format(*one)).values()]
    return all(max(measured(run), key=measured(run).__getitem__) > 0.9 * last_round(run) for run in runs)


CLAIMS = Claims(
    numbers=[
        claim("all within {} points", _farthest),
        claim("published numbers, by {} to {} points", *most_and_least(_above_published("unlabelled"), 2)),
        claim("MHAT takes {} to {} times FD's rounds", *most_and_least(times_fd, 1)),
    ],
    words=[
        ("Accuracies come back with labelled public data", accuracies_come_back),
        (
            "MHAT ends slightly below FD, as in the paper",
            lambda results: all(
                -1 < paired(results, f"mhat_mnist.mhat-{kind}-{many}", f"mhat_mnist.fd-{kind}-{many}").mean < 0
                for kind, many in LEVELS
            ),
        ),
        ("the best rounds of MHAT and FD are close to the last", _best_rounds_are_late),
    ],
    given="0.1 0.5 1 1.0 5 20 32 60 62 64 150 176 188 200 256 2,000 2,900 10,000",
)
