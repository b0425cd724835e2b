"""The course of a training, drawn before it starts: which samples meet at which step, at which rate.

Every engine follows the same course, so their results agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from potluck.core.plan import Plan
from potluck.core.randomness import all_seeded, derive, generator
from potluck.core.requests import Job
from potluck.core.samples import Batch


@dataclass(frozen=True)
class Step:
    """One optimizer step: its number, its epoch, the rows it looks at, the learning rate."""

    number: int
    epoch: int
    rows: Tensor
    lr: float


def batch_schedule(samples: int, plan: Plan, seed: int, round: int) -> Iterator[Step]:
    """All steps of a training."""
    cuts = list(range(plan.batch_size, samples, plan.batch_size))
    if cuts and samples - cuts[-1] == 1:
        cuts.pop()  # BatchNorm cannot train on a single sample: it joins the batch before it
    number, total = 0, plan.epochs * (len(cuts) + 1)
    for epoch in range(plan.epochs if samples else 0):
        order = torch.randperm(samples, generator=generator(seed, "order", epoch))
        for rows in order.tensor_split(cuts):
            yield Step(number, epoch, rows, plan.rate(number / total, round))
            number += 1


def batch_of(job: Job, step: Step, dtype: torch.dtype) -> Batch:
    """What a step looks at: the rows, augmented, and the draws asked for.

    The plan's transform comes later, in a whole stack at once, unless it draws random numbers: those are the job's own.
    """
    rows = step.rows.to(job.samples.x.device)
    rest = {name: column.index_select(0, rows) for name, column in job.samples.columns.items() if name != "x"}
    batch = {"x": job.samples.read(rows, derive(job.seed, "items", step.number)), **rest}
    if job.plan.augment is not None:
        batch["x"] = job.plan.augment(batch["x"], generator(job.seed, "augment", step.number))
    if job.plan.draws(job.samples.x):
        with all_seeded(derive(job.seed, "transform", step.number)):
            batch["x"] = job.plan.inputs(batch["x"], dtype)
    for name, shape in job.fit.noise.items():
        noise = generator(job.seed, "draw", name, step.number)
        batch[name] = torch.randn(len(rows), *shape, generator=noise, dtype=dtype)
    return batch


def epoch_means(losses: Tensor, epochs: Tensor) -> tuple[tuple[float, ...], ...]:
    """Losses (steps × objectives) as a mean for each epoch and objective."""
    return tuple(tuple(losses[epochs == epoch].mean(dim=0).tolist()) for epoch in range(int(epochs.max()) + 1))
