"""The strategies that a training can be carried out by on a CPU, and the rule that chooses among them.

Strategies differ in how they round, so the rule looks only at what is known before a training begins: sizes, counts,
cores. A choice by the clock would make two equal runs differ.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from potluck.core.inputs import kinds_key, shapes
from potluck.core.job import Job
from potluck.core.model_view import ModelView
from potluck.core.randomness import seeded
from potluck.learners.network import Network

Strategy = Literal["alone", "stacked", "workers", "workers, channels last"]
"""One after the other, many at once, each in a worker process, or that with channels last."""

OPERATIONS_PER_SECOND = 5e10
"""What one core does of a network's multiplications and additions, about."""

SECONDS_PER_LAYER = 1e-4
"""What each layer costs in each step besides, about."""

WORTH_FORKING = 0.1
"""From how many seconds of work on worker processes are forked for it: starting them must be a small part of it."""

WORTH_MOVING = 1e-7
"""From how many seconds of work for each parameter on a training goes to a worker: its memory is new there, so that
weights and what the optimizer remembers cost time that they do not cost in the run's own process."""

SMALL_STEP = 5e7
"""Up to how many operations in a step of a convolutional network its layers' own cost is most of the step."""


CHANNELS_LAST_USES = 200
"""From how many uses of each weight in a step on channels last are the better layout: below, as in large ResNets with
small batches, reading the weights is most of a step, and PyTorch's other layout reads them faster."""


@dataclass(frozen=True)
class Kind:
    """Trainings of one architecture, one shape of inputs and one batch size.

    Args:
        name: what they are called in a run folder; the same in every process.
        convolutional: whether the network has convolutions.
        layers: how many submodules without submodules it has.
        parameters: how many numbers it learns.
        operations: multiplications and additions for one sample, forward.
        batch_size: samples in a step.
    """

    name: str
    convolutional: bool
    layers: int
    parameters: int
    operations: int
    batch_size: int

    @classmethod
    def of(cls, job: Job) -> Kind:
        network = job.learner
        assert isinstance(network, Network)
        words = json.dumps([network.architecture.digest, shapes(job.samples.kinds), job.plan.batch_size])
        return cls(
            f"{type(network.model).__name__} {hashlib.sha256(words.encode()).hexdigest()[:12]}",
            convolves(network.model),
            len(leaves(network.model)),
            sum(parameter.numel() for parameter in network.model.parameters()),
            operations(job),
            job.plan.batch_size,
        )

    @property
    def worker_strategy(self) -> Strategy:
        """How worker processes train it."""
        uses = self.operations * self.batch_size / (2 * max(1, self.parameters))
        return "workers, channels last" if self.convolutional and uses >= CHANNELS_LAST_USES else "workers"

    def seconds(self, samples: int) -> float:
        """About how long a training on so many samples takes on one core. Backward costs twice what forward does."""
        steps = math.ceil(samples / self.batch_size)
        return 3 * samples * self.operations / OPERATIONS_PER_SECOND + steps * self.layers * SECONDS_PER_LAYER


@dataclass(frozen=True)
class Wave:
    """Trainings of one kind that run together.

    Args:
        kind: their kind.
        samples: how many samples each of them runs over in all.
        stackable: whether some of them may be stacked.
        forkable: whether they may run in another process: whatever they change besides weights is lost there.
    """

    kind: Kind
    samples: Sequence[int]
    stackable: bool
    forkable: bool = True

    @property
    def seconds(self) -> float:
        """About how long all of them take on one core."""
        return sum(self.kind.seconds(samples) for samples in self.samples)

    @property
    def movable(self) -> bool:
        """Whether there is so much work in them that worker processes may pay."""
        return self.forkable and self.seconds >= WORTH_MOVING * self.kind.parameters * len(self.samples)


def choose(waves: Sequence[Wave], cores: int) -> list[Strategy]:
    """The strategy for each kind of training in a wave.

    Networks without convolutions are stacked where that is possible. Everything else goes to worker processes, if
    there are cores for more than one training at a time, and enough work to be worth the moving and the forking.
    """
    chosen: list[Strategy] = [_in_this_process(wave) for wave in waves]
    fit = [n for n, wave in enumerate(waves) if wave.movable and (wave.kind.convolutional or chosen[n] == "alone")]
    trainings, seconds = sum(len(waves[n].samples) for n in fit), sum(waves[n].seconds for n in fit)
    if cores > 1 and trainings > 1 and seconds >= WORTH_FORKING:
        for n in fit:
            chosen[n] = waves[n].kind.worker_strategy
    return chosen


def _in_this_process(wave: Wave) -> Strategy:
    if not wave.stackable:
        return "alone"
    small = wave.kind.operations * wave.kind.batch_size <= SMALL_STEP
    return "stacked" if small or not wave.kind.convolutional else "alone"


def possible(wave: Wave, accompanied: bool, cores: int) -> list[Strategy]:
    """Every strategy that is open to trainings of a kind, the one that is usually best first.

    ``accompanied``: whether other trainings run in the same wave, of this kind or another.
    """
    found: list[Strategy] = ["alone"]
    if wave.stackable:
        found.insert(1 if wave.kind.convolutional else 0, "stacked")
    if wave.forkable and accompanied and cores > 1:
        found.append("workers")
        if wave.kind.convolutional:
            found.append("workers, channels last")
    return found


def key_of(job: Job) -> Hashable:
    """Trainings of equal keys are of one kind."""
    assert isinstance(job.learner, Network)
    return job.learner.architecture, kinds_key(job.samples.kinds), job.plan.batch_size


def samples_seen(job: Job) -> int:
    """How many samples a training runs over in all."""
    return len(job.samples) * job.plan.epochs


def convolves(model: nn.Module) -> bool:
    """Whether a network has convolutions, for which stacking and layouts make another difference than elsewhere."""
    return any(isinstance(layer, nn.modules.conv._ConvNd) for layer in model.modules())


def leaves(model: nn.Module) -> list[nn.Module]:
    """The submodules that have none of their own."""
    return [module for module in model.modules() if next(module.children(), None) is None]


def operations(job: Job) -> int:
    """How many multiplications and additions a network needs for one sample: seen from one pass of a copy of it.

    A matrix of weights is multiplied once for each of the numbers that come out on one of its rows; weights of a layer
    that is not seen to be called, as in a recurrent one, count once.
    """
    network = job.learner
    assert isinstance(network, Network)
    calls: list[tuple[Tensor, float]] = []

    def look(layer: nn.Module, _: Any, output: Any) -> None:
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim > 1 and isinstance(output, Tensor) and len(output):
            calls.append((weight, output[0].numel() / len(weight)))

    try:
        twin = copy.deepcopy(network.model).cpu().eval()
        for layer in leaves(twin):
            layer.register_forward_hook(look)
        with torch.no_grad(), seeded(0):
            ModelView(twin)(job.plan.inputs(job.samples.at(slice(1)), network.dtype))
    except Exception:  # whatever is wrong with it comes again, with its traceback, where it is trained
        return sum(2 * int(weight.numel()) for weight in network.model.parameters())
    times = [(weight, sum(count for used, count in calls if used is weight)) for weight in twin.parameters()]
    return int(sum(2 * weight.numel() * (count or 1) for weight, count in times))
