"""The batched engine: networks of one architecture are stacked and answered together.

Parameters, buffers and what optimizers remember are stacked along a first dimension, one slice for each
participant. Everything that cannot be stacked is answered alone, as the serial engine would.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import nn

from potluck.engines.alike import likeness
from potluck.engines.forward import predict, tap
from potluck.engines.local import LocalEngine, timed_alone
from potluck.engines.training import Training
from potluck.learners.network import Network
from potluck.requests import Fit, Job, Predict

log = logging.getLogger(__name__)

STACK_BYTES = {"cpu": 16 * 2**20}
"""How large a stack's parameters may be: on a CPU, what its caches hold, since a step runs over them many times."""


class Batched(LocalEngine):
    """Answers all jobs of one likeness together, in stacks of a size that suits the device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._unstackable: set[Hashable] = set()

    def timed(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            like = likeness(job) if self.stacks(job) else None
            groups[("alone", index) if like is None or like in self._unstackable else like].append(index)
        answers: list[tuple[Any, float]] = [(None, 0.0)] * len(jobs)
        for like, members in groups.items():
            size = self._stack_size(jobs[members[0]])
            for first in range(0, len(members), size):
                stack = members[first : first + size]
                for index, answer in zip(stack, self._answer_stack(like, [jobs[i] for i in stack]), strict=True):
                    answers[index] = answer
        return answers

    def stacks(self, job: Job) -> bool:
        """Whether a job may be stacked with others of its likeness."""
        return True

    def _stack_size(self, job: Job) -> int:
        limit = STACK_BYTES.get(self.device.type)
        if limit is None or not isinstance(job.learner, Network):
            return 2**31
        size = sum(tensor.numel() * tensor.element_size() for tensor in job.learner.tensors().values())
        return max(1, limit // max(1, size))

    def _answer_stack(self, like: Hashable, jobs: list[Job]) -> list[tuple[Any, float]]:
        if len(jobs) > 1 and like not in self._unstackable:
            try:
                began = time.perf_counter()
                answers = self._answer_together(jobs)
                return [(answer, (time.perf_counter() - began) / len(jobs)) for answer in answers]
            except RuntimeError as error:
                # Nothing was written to these networks yet, so the same jobs can be answered alone.
                self._unstackable.add(like)
                kind = type(jobs[0].learner.model).__name__
                log.warning("Networks of %s cannot be stacked and run one by one: %s", kind, error)
        return [timed_alone(job, self.device) for job in jobs]

    def _answer_together(self, jobs: list[Job]) -> list[Any]:
        if isinstance(jobs[0].work, Fit):
            return Training(jobs, self.device).run()
        if isinstance(jobs[0].work, Predict):
            return predict(jobs, self.device)
        return tap(jobs, self.device)


class Auto(Batched):
    """Stacks where that pays: always on a GPU; on a CPU not convolutions, whose grouped form is slow there."""

    def stacks(self, job: Job) -> bool:
        if self.device.type != "cpu" or not isinstance(job.learner, Network):
            return True
        return not any(isinstance(layer, nn.modules.conv._ConvNd) for layer in job.learner.model.modules())
