"""The ways a training can be carried out on a CPU, and which of them is fastest for an architecture.

Which one that is depends on the machine, so it is tried: the first trainings of an architecture take turns at the
ways (their results count like any other), and the fastest way does the rest. The choice is kept with the run, since
ways differ in how they round: a run that goes on makes the same choice as one that was never stopped.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal, get_args

from torch import nn

from potluck.core.requests import Job
from potluck.engines.auto.workers import workers
from potluck.learners.network import Network

Way = Literal["alone", "stacked", "apart", "apart, channels last"]
"""One after the other, many at once, each in a worker process, or that with channels last."""

Timings = dict[str, dict[str, list[float]]]
"""For each architecture and way the seconds for each sample that was trained on."""

HELPINGS = 2
"""How many times a way is tried: the first time often pays for warming up."""

WORTH_TRYING = 0.5
"""From how many seconds of work on other ways are tried; for less, the way that is usually best will do."""


class Choices:
    """What was found out so far."""

    def __init__(self) -> None:
        self.timings: Timings = {}

    def way(self, kind: str, ways: list[Way], samples: int) -> tuple[Way, bool]:
        """How to carry out trainings of a kind on so many samples, and whether that is still a trial."""
        known = self.timings.get(kind, {})
        first = known.get(ways[0], [])
        if len(first) >= HELPINGS and len(known) == 1 and min(first) * samples < WORTH_TRYING:
            return ways[0], False
        for way in ways:
            if len(known.get(way, [])) < HELPINGS:
                return way, True
        return min(ways, key=lambda way: min(known[way])), False

    def note(self, kind: str, way: Way, seconds: float, samples: int) -> None:
        """Remembers how long a trial took."""
        self.timings.setdefault(kind, {}).setdefault(way, []).append(seconds / max(1, samples))

    def chosen(self) -> dict[str, str]:
        """The fastest way of every kind for which all were tried often enough to tell."""
        return {
            kind: min(known, key=lambda way: min(known[way]))
            for kind, known in self.timings.items()
            if len(known) > 1 and all(len(seconds) >= HELPINGS for seconds in known.values())
        }


def kind_of(job: Job) -> str:
    """Trainings of one kind take the same time: one architecture, one batch size. A name that outlives the process."""
    assert isinstance(job.learner, Network)
    told = json.dumps([job.learner.architecture.digest, list(job.samples.x.shape[1:]), job.plan.batch_size])
    return f"{type(job.learner.model).__name__} {hashlib.sha256(told.encode()).hexdigest()[:12]}"


def ways_for(job: Job, stackable: bool, in_company: bool) -> list[Way]:
    """The ways that are open to a training, the one that is usually best first.

    ``stackable``: whether others of its kind are there; ``in_company``: whether any others are there to run beside.
    """
    assert isinstance(job.learner, Network)
    convolution = convolves(job.learner.model)
    ways: list[Way] = ["alone"]
    if stackable:
        ways.insert(1 if convolution else 0, "stacked")
    if in_company and workers() > 1:
        ways.append("apart")
        if convolution:
            ways.append("apart, channels last")
    return ways


def convolves(model: nn.Module) -> bool:
    """Whether a network has convolutions, for which stacking and layouts make another difference than elsewhere."""
    return any(isinstance(layer, nn.modules.conv._ConvNd) for layer in model.modules())


def samples_seen(job: Job) -> int:
    """How many samples a training runs over in all."""
    return len(job.samples) * job.plan.epochs if job.work.writes else len(job.samples)


def check_choices(timings: Timings) -> Timings:
    """What was kept with a run, as far as this version knows the ways."""
    return {
        kind: {way: [float(s) for s in seconds] for way, seconds in known.items() if way in get_args(Way)}
        for kind, known in timings.items()
    }
