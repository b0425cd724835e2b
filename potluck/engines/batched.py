"""The batched engine: networks of one architecture are stacked and answered together.

Parameters, buffers and what optimizers remember are stacked along a first dimension, one slice for each
participant. Everything that cannot be stacked is answered alone, as the serial engine would.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from potluck.engines.alike import Architectures, likeness
from potluck.engines.forward import predict, tap
from potluck.engines.local import Arrival, LocalEngine, timed_alone
from potluck.engines.memory import keep_freed_memory, let_go, out_of_memory
from potluck.engines.precision import computing_in
from potluck.engines.stacks import Room
from potluck.engines.training import Training
from potluck.learners.network import Network
from potluck.randomness import derive, seeded
from potluck.requests import Fit, Job, Predict

log = logging.getLogger(__name__)

STACK_BYTES = {"cpu": 128 * 2**20}
"""How large a stack's parameters may be: on a CPU there is nothing to win beyond, and its gradients need as much."""

Timed = tuple[Any, float]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Stacked:
    """Jobs of one likeness, to be answered together, and where they stand among all jobs."""

    like: Hashable
    jobs: list[Job]
    at: list[int]

    def halves(self) -> tuple[Stacked, Stacked]:
        half = len(self.jobs) // 2
        return Stacked(self.like, self.jobs[:half], self.at[:half]), Stacked(
            self.like, self.jobs[half:], self.at[half:]
        )


class Batched(LocalEngine):
    """Answers all jobs of one likeness together, in stacks of a size that suits the device."""

    def __init__(self, device: torch.device, precision: str = "torch") -> None:
        super().__init__(device, precision)
        self._side_by_side = device.type == "cuda"
        if device.type == "cpu":
            keep_freed_memory()

    def _begin(self) -> None:
        super()._begin()
        self._architectures = Architectures()
        self._unstackable: set[Hashable] = set()
        self._most: dict[Hashable, int] = {}
        """How many of a likeness fit into memory at once, where that was found out the hard way."""
        self._trainings: dict[tuple[Hashable, int], Training] = {}
        """On a GPU: stacks that stay, with the graphs captured over them."""
        self._told = False
        """Whether it was said that stacks do not fit side by side, which every round may find out anew."""

    def start(self, *stage: Any) -> Iterator[Arrival]:
        """Begins a stage; between stages users may have changed their networks."""
        self._architectures.look_again()
        return super().start(*stage)

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        with computing_in(self.precision):
            return self._timed(jobs)

    def _timed(self, jobs: Sequence[Job]) -> list[Timed]:
        return self._answer(self._stacks(jobs), len(jobs))

    def _stacks(self, jobs: Sequence[Job]) -> list[Stacked]:
        """Cuts jobs into stacks, those that are like no other into stacks of one."""
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            like = likeness(job, self._architectures) if self.stacks(job) else None
            groups[("alone", index) if like is None or like in self._unstackable else like].append(index)
        stacks = []
        for like, members in groups.items():
            size = min(self._stack_size(jobs[members[0]]), self._most.get(like, len(members)))
            for first in range(0, len(members), size):
                at = members[first : first + size]
                stacks.append(Stacked(like, [jobs[index] for index in at], at))
        return stacks

    def stacks(self, job: Job) -> bool:
        """Whether a job may be stacked with others of its likeness."""
        return True

    def _stack_size(self, job: Job) -> int:
        limit = STACK_BYTES.get(self.device.type)
        if limit is None or not isinstance(job.learner, Network):
            return 2**31
        size = sum(tensor.numel() * tensor.element_size() for tensor in job.learner.tensors().values())
        return max(1, limit // max(1, size))

    def _answer(self, stacks: Sequence[Stacked], count: int) -> list[Timed]:
        """Answers every stack; what cannot be stacked, alone."""
        answers: list[Timed] = [(None, 0.0)] * count
        together = [stack for stack in stacks if self._pays(stack)]
        for at_once in self._at_once(together):
            for stack, found in zip(at_once, self._answer_some(at_once), strict=True):
                for index, answer in zip(stack.at, found, strict=True):
                    answers[index] = answer
        for stack in stacks:
            if stack not in together:
                for index, job in zip(stack.at, stack.jobs, strict=True):
                    answers[index] = self._answer_alone(job)
        return answers

    def _answer_alone(self, job: Job) -> Timed:
        """One network by itself; if memory does not suffice, without what is kept for later trainings."""
        try:
            return timed_alone(job, self.device)
        except (RuntimeError, MemoryError) as error:
            # A training that has begun has changed the network, so it cannot simply be begun again.
            if isinstance(job.work, Fit) or not self._trainings or not out_of_memory(error):
                raise
            let_go(error)
        self._free()
        return timed_alone(job, self.device)

    def _pays(self, stack: Stacked) -> bool:
        """A single network gains nothing on a CPU; on a GPU its training still becomes a graph, beside others."""
        if isinstance(stack.like, tuple) and stack.like[0] == "alone":
            return False
        return len(stack.jobs) > 1 or (self.device.type == "cuda" and isinstance(stack.jobs[0].work, Fit))

    def _at_once(self, stacks: list[Stacked]) -> list[list[Stacked]]:
        """Which are answered at the same time: all trainings on a GPU; on a CPU, whose caches hold one, and of those
        that only look, each by itself."""
        trainings = [stack for stack in stacks if self._side_by_side and isinstance(stack.jobs[0].work, Fit)]
        others = [[stack] for stack in stacks if stack not in trainings]
        return [trainings, *others] if trainings else others

    def _answer_some(self, stacks: list[Stacked]) -> list[list[Timed]]:
        """Answers one stack, or several trainings at the same time, or less at a time where memory does not suffice."""
        began = time.perf_counter()
        done: Sequence[Training | list[Any] | None]
        try:
            done = self._train(stacks) if isinstance(stacks[0].jobs[0].work, Fit) else [self._look(stacks[0])]
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            let_go(error)
            failed = error
        else:
            # Not before: if memory ran out when some results were written, those networks would be trained twice.
            found = [self._written(one) if isinstance(one, Training) else one for one in done]
            return self._shared_out(stacks, found, time.perf_counter() - began)
        return self._answer_with_less(stacks, failed)

    def _shared_out(self, stacks: list[Stacked], found: list[list[Any] | None], seconds: float) -> list[list[Timed]]:
        """Everyone's answer with its share of the time; what could not be stacked is answered alone."""
        share = seconds / sum(len(stack.jobs) for stack in stacks)
        return [
            [self._answer_alone(job) for job in stack.jobs]
            if answers is None
            else [(answer, share) for answer in answers]
            for stack, answers in zip(stacks, found, strict=True)
        ]

    def _answer_with_less(self, stacks: list[Stacked], error: Exception) -> list[list[Timed]]:
        """Without what is kept of others; if that was not it, half of the stacks at a time, then halves of a stack."""
        in_the_way = {like for like, _ in self._trainings} - {stack.like for stack in stacks}
        self._free()
        if in_the_way:
            return self._answer_some(stacks)
        if len(stacks) > 1:
            if not self._told:
                log.warning("%d stacks do not fit into memory side by side; going on with half of them.", len(stacks))
                self._told = True
            half = len(stacks) // 2
            return [*self._answer_some(stacks[:half]), *self._answer_some(stacks[half:])]
        stack = stacks[0]
        if len(stack.jobs) == 1:
            error.add_note(
                f"The network of {stack.jobs[0].owner} does not fit into what is free of the memory of {self.device}, "
                f"even alone. Smaller batches would help, and so would ending what else has taken memory there."
            )
            raise error
        log.warning("%d networks do not fit into memory at once; going on with half as many.", len(stack.jobs))
        first, second = stack.halves()
        self._most[stack.like] = len(second.jobs)
        return [[*self._answer_some([first])[0], *self._answer_some([second])[0]]]

    def _free(self) -> None:
        """Gives up the stacks that are kept, and what networks have left in circles."""
        self._trainings.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _train(self, stacks: list[Stacked]) -> list[Training | None]:
        """Trains all stacks side by side. None for one that cannot be stacked. Nothing has happened to networks yet."""
        with seeded(derive(stacks[0].jobs[0].seed, "model")):
            trainings = [
                self._attempt(stack, partial(self._loaded, stack, stacks[:n])) for n, stack in enumerate(stacks)
            ]
            going = {n: training.steps() for n, training in enumerate(trainings) if training is not None}
            while going:
                for n, steps in list(going.items()):
                    if not self._attempt(stacks[n], partial(next, steps, False)):
                        del going[n]
        done = [
            None if stack.like in self._unstackable else training
            for stack, training in zip(stacks, trainings, strict=True)
        ]
        for training in filter(None, done):
            training.fetch_losses()
        return done

    def _written(self, training: Training) -> list[Any]:
        with self.clock("copy"):
            return training.finish()

    def _loaded(self, stack: Stacked, before: list[Stacked]) -> Training:
        """A training with these jobs in it; on a GPU the one used last time, if they still fit in."""
        room = Room.of(stack.jobs)
        if self.device.type != "cuda":
            training = Training(stack.jobs, room, self.device, self.precision)
        else:
            key = (stack.like, sum(other.like == stack.like for other in before))
            if key not in self._trainings or not self._trainings[key].room.covers(room):
                if key in self._trainings:  # its memory first
                    room = self._trainings.pop(key).room.grown(room)
                self._trainings[key] = Training(stack.jobs, room, self.device, self.precision)
            training = self._trainings[key]
        with self.clock("copy"):
            training.load(stack.jobs)
        return training

    def _look(self, stack: Stacked) -> list[Any] | None:
        """Predictions, or taps."""
        look: Callable[..., list[Any]] = predict if isinstance(stack.jobs[0].work, Predict) else tap
        return self._attempt(stack, partial(look, stack.jobs, self.device, self.precision))

    def _attempt(self, stack: Stacked, action: Callable[[], T]) -> T | None:
        """Does something to a stack; None if it turns out that its networks cannot be stacked."""
        try:
            return action()
        except RuntimeError as error:
            if out_of_memory(error):
                raise
            # Nothing was written to these networks yet, so the same jobs can be answered alone.
            self._unstackable.add(stack.like)
            kind = type(stack.jobs[0].learner.model).__name__
            log.warning("Networks of %s cannot be stacked and run one by one: %s", kind, error)
            return None
