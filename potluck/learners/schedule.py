"""The schedule of a training, drawn before it starts: which samples meet at which step, at which rate.

Every engine follows the same schedule, so their results agree. Many networks may take their steps together: a
network's own steps keep their order, between networks any order gives the same result. So those whose next batches have
one size go together, the largest group first: whoever has an odd batch waits until others come to one like it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from potluck.core.inputs import flat, is_input
from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.randomness import all_seeded, derive, generator
from potluck.core.samples import Samples

GRADIENT_NOISE = "gradient noise of "
"""What goes before a parameter's name where a batch holds the numbers drawn for it."""


@dataclass(frozen=True)
class Step:
    """One optimizer step: its number, its epoch, the rows it looks at, the learning rate of each plan.

    Args:
        number: its number, from 0 on.
        epoch: its epoch.
        rows: the rows it looks at.
        rates: the learning rate of each plan.
    """

    number: int
    epoch: int
    rows: Tensor
    rates: tuple[float, ...]

    @property
    def lr(self) -> float:
        """The learning rate of the training's own plan."""
        return self.rates[0]


def cuts(samples: int, size: int) -> list[int]:
    """Where samples are cut into batches of a size. BatchNorm cannot train on one: a single last one is not cut off."""
    found = list(range(size, samples, size))
    return found[:-1] if found and samples - found[-1] == 1 else found


def steps_in(samples: int, plan: Plan) -> int:
    """How many steps a training takes."""
    return plan.epochs * (len(cuts(samples, plan.batch_size * plan.accumulate)) + 1) if samples else 0


def batch_schedule(samples: int, plan: Plan, seed: int, round: int, more: Sequence[Plan] = ()) -> Iterator[Step]:
    """All steps of a training: the plan's epochs and batches, at its rate and at those of more plans."""
    plans, ends = (plan, *more), cuts(samples, plan.batch_size * plan.accumulate)
    number, total = 0, steps_in(samples, plan)
    for epoch in range(plan.epochs if samples else 0):
        order = torch.randperm(samples, generator=generator(seed, "order", epoch))
        for rows in order.tensor_split(ends):
            yield Step(number, epoch, rows, tuple(each.rate(number / total, round) for each in plans))
            number += 1


def batch_of(job: Job, step: Step, dtype: torch.dtype) -> dict[str, Tensor]:
    """What a step looks at, as columns: the rows, augmented, and the draws asked for.

    The plan's transform comes later, unless it draws random numbers: those are the job's own.
    """
    rows, columns = step.rows, job.samples.columns
    x = job.samples.read(rows, derive(job.seed, "items", step.number))
    if (augment := job.plan.changes.augmenter) is not None:
        x = augment(x, augmenting(job, step))
    if job.plan.draws(job.samples):
        with all_seeded(derive(job.seed, "transform", step.number)):
            x = job.plan.inputs(x, dtype)
    rest = {n: column.index_select(0, rows.to(column.device)) for n, column in columns.items() if not is_input(n)}
    batch = {**flat(x), **rest}
    for name, shape in job.fit.noise.items():
        noise = generator(job.seed, "draw", name, step.number)
        batch[name] = torch.randn(len(rows), *shape, generator=noise, dtype=dtype)
    if job.fit.gradient_noise:
        for name, shape in {n: p.shape for n, p in job.learner.model.named_parameters() if p.requires_grad}.items():
            noise = generator(job.seed, "gradient noise", name, step.number)
            batch[f"{GRADIENT_NOISE}{name}"] = torch.randn(shape, generator=noise, dtype=dtype)
    return batch


def augmenting(job: Job, step: Step) -> torch.Generator:
    """What a step's augmentation draws from."""
    return generator(job.seed, "augment", step.number)


def epoch_means(losses: Tensor, epochs: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Losses (steps × objectives) as a mean for each epoch and objective. Epochs come one after the other."""
    counts = [len(list(same)) for _, same in groupby(epochs)]
    return tuple(tuple(part.mean(dim=0).tolist()) for part in torch.split(losses, counts))


EVALUATION_BATCH = 1024
"""How many samples are read at a time where nothing is trained."""

EVALUATION_BYTES = 64 * 2**20
"""How many bytes these have at most, unless a single one has more."""


def rows_at_once(samples: Samples) -> int:
    """How many samples are read at a time where nothing is trained: fewer where samples are large."""
    size = 4 * sum(math.prod(kind.shape or ()) for kind in samples.kinds.values())
    return max(1, min(EVALUATION_BATCH, EVALUATION_BYTES // max(1, size)))


StepShape = tuple[int, int]
"""How many networks, and how many samples each."""


@dataclass(frozen=True)
class JointStep:
    """One step of some networks, whose batches have one size.

    Args:
        members: which networks take it.
        steps: the step of each of them.
    """

    members: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def abreast(self) -> bool:
        """Whether all are at the same step, at the same rates."""
        return len({(step.number, step.rates) for step in self.steps}) == 1

    @property
    def shape(self) -> StepShape:
        """How many networks, and how many samples each."""
        return len(self.members), len(self.steps[0].rows)


def in_lockstep(courses: Sequence[Sequence[Step]], whole: int | None = None) -> Iterator[JointStep]:
    """All steps of all networks.

    With ``whole`` a group of another size than this is cut into powers of two, so that few shapes occur in all and a
    graph captured for one of them is used often.
    """
    taken = [0] * len(courses)
    while True:
        groups: dict[int, list[int]] = defaultdict(list)
        for member, course in enumerate(courses):
            if taken[member] < len(course):
                groups[len(course[taken[member]].rows)].append(member)
        if not groups:
            return
        members = max(groups.values(), key=len)
        for piece in [members] if whole in (None, len(members)) else _powers_of_two(members):
            yield JointStep(tuple(piece), tuple(courses[member][taken[member]] for member in piece))
        for member in members:
            taken[member] += 1


def _powers_of_two(members: list[int]) -> Iterator[list[int]]:
    while members:
        size = 1 << (len(members).bit_length() - 1)
        yield members[:size]
        members = members[size:]
