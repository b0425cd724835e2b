"""The batched engine: networks of one architecture are stacked and answered together.

Parameters, buffers and what optimizers remember are stacked along a first dimension, one slice for each participant.
Everything that cannot be stacked is answered alone, as the serial engine would.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch

from potluck.core.job import Job
from potluck.core.party import Party
from potluck.core.randomness import derive, seeded
from potluck.engines.base import Engine, Timed, suiting
from potluck.engines.batched.inference import read_together
from potluck.engines.batched.optimizers import STACKABLE_OPTIMIZERS
from potluck.engines.batched.stacked_jobs import JobKey, JobStack, changes_of_inputs, made_alone
from potluck.engines.batched.stacking import Capacity
from potluck.engines.batched.trainer import Training
from potluck.engines.hardware import let_go, out_of_memory
from potluck.learners.network import Network

log = logging.getLogger(__name__)

STACK_BYTES = {"cpu": 128 * 2**20}
"""How large a stack's parameters may be: on a CPU there is nothing to win beyond, and its gradients need as much."""

BLOCK = 8
"""Networks that draw random numbers, as Dropout does, are stacked in blocks of so many participants, who stand next to
each other by name. A block draws from a seed of its own, and always runs as a whole, so that a result does not depend
on how many run together; unless those are fewer than this: then they are the block."""


class Batched(Engine):
    """Answers all jobs that can be stacked together, in stacks of a size that suits the device.

    Args:
        device: where networks are trained and read.
        precision: what they compute in; by default "torch", PyTorch's own choice.
    """

    def __init__(self, device: torch.device, precision: str = "torch") -> None:
        super().__init__(device, precision)
        self._side_by_side = device.type == "cuda"
        """Whether trainings of several stacks run at the same time."""

    def _begin(self) -> None:
        super()._begin()
        self._unstackable: set[str] = set()
        self._most: dict[str, int] = {}
        """How many of a kind fit into memory at once, where that was found out the hard way."""
        self._uncaptured: set[JobKey] = set()
        """Trainings of which no graph can be captured."""
        self._trainings: dict[tuple[JobKey | None, int], Training] = {}
        """On a GPU: stacks that stay, with the graphs captured over them."""

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "unstackable": sorted(self._unstackable), "most": dict(self._most)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._unstackable, self._most = set(snapshot.get("unstackable", ())), dict(snapshot.get("most", {}))

    def decisions(self) -> dict[str, Any]:
        found = {"one by one": sorted(self._unstackable), "at most together": dict(self._most)}
        return {**super().decisions(), **{name: value for name, value in found.items() if value}}

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        """Stack by stack, while a CPU's caches hold it; on a GPU all trainings run side by side."""
        answers: dict[int, Timed] = {}
        stacks = self._stacks(self.made_ready(jobs))
        # Graphs that are replayed at once share one place in memory for the state of the generator they draw from.
        at_once = [
            stack
            for stack in stacks
            if stack.key is not None and stack.writes and self._side_by_side and not stack.draws
        ]
        with self.computing():
            for group in ([at_once] if at_once else []) + [[stack] for stack in stacks if stack not in at_once]:
                for stack, found in zip(group, self._answer(group), strict=True):
                    answers.update(zip(stack.at, found, strict=True))
        return [answers[index] for index in range(len(jobs))]

    def stacks(self, job: Job) -> bool:
        """Whether a job may be stacked with others like it."""
        return True

    def _stacks(self, jobs: Sequence[Job]) -> list[JobStack]:
        """Cuts jobs into stacks, those that are like no other into stacks of one."""
        groups: dict[JobKey, JobStack] = {}
        alone: list[JobStack] = []
        for index, job in enumerate(jobs):
            key = self._key(job, index)
            if key is None:
                alone.append(JobStack(None, [job], [index]))
            else:
                stack = groups.setdefault(key, JobStack(key, [], []))
                stack.jobs.append(job)
                stack.at.append(index)
        self._tell_incomparable(groups)
        pieces = [piece for stack in groups.values() for piece in stack.cut(self._size(stack))]
        # A single network gains nothing on a CPU; on a GPU its training still becomes a graph, beside others.
        on_gpu = self.device.type == "cuda"
        pays = [
            (len(p.jobs) > 1 or (p.writes and on_gpu)) and not (p.small and p.key in self._uncaptured) for p in pieces
        ]
        return [p if paid else JobStack(None, p.jobs, p.at) for p, paid in zip(pieces, pays, strict=True)] + alone

    def changes_itself(self, job: Job) -> bool:
        """Whether a network's own code changes more of it than its tensors. Said once."""
        network = job.learner
        if not isinstance(network, Network) or not network.probe(job.samples, job.plan).changes_itself:
            return False
        self._tell(
            f"Networks of {type(network.model).__name__} change their own attributes when they run, and so run one by "
            f"one. No checkpoint holds such attributes; a buffer (register_buffer) would be in it."
        )
        return True

    def _key(self, job: Job, index: int) -> JobKey | None:
        """Jobs of equal keys are answered together. None: this one is answered alone."""
        network = job.learner
        if not isinstance(network, Network) or not self.stacks(job):
            return None
        if job.work.writes and any(plan.optimizer not in STACKABLE_OPTIMIZERS for plan in job.plans):
            return None
        if self._unstackable and _name(job) in self._unstackable:
            return None
        if self.changes_itself(job):
            return None
        mine: Hashable = None
        if job.work.writes:
            draws = network.probe(job.samples, job.plan).draws
            block = self._block(job, index) if draws else None
            mine = block, made_alone(job), tuple(sorted(network.remembered(job)))
        inputs = tuple(changes_of_inputs(job))
        return JobKey(type(job.work), network.architecture, job.work.stack_key(job), mine, job.plan.scale, inputs)

    def _tell_incomparable(self, groups: Mapping[JobKey, JobStack]) -> None:
        """Says once which functions cannot be compared, where networks are not stacked for no other reason."""
        for key, stack in groups.items():
            odd = [name for value in changes_of_inputs(stack.jobs[0]) for name in value.odd]
            if odd and any(other[:-1] == key[:-1] for other in groups if other != key):
                self._tell(
                    f"What some plans do to inputs cannot be compared, since it holds a {odd[0]}, so these networks "
                    f"are not stacked. Give all of them the same function."
                )

    def _block(self, job: Job, index: int) -> int:
        """Which block of names a job belongs to; of a party that does not take part in a phase, by its number."""
        if job.owner not in self._places:
            return index // BLOCK
        return self._places[job.owner] // min(BLOCK, self._together)

    def _how_many(self, parties: Sequence[Party]) -> int:
        """Whole blocks, where there is room for one: a block's networks draw their numbers together."""
        room = super()._how_many(parties)
        return max(room - room % BLOCK, min(room, BLOCK))

    def _size(self, stack: JobStack) -> int:
        """How many of them make the best stack, and fit."""
        job = stack.jobs[0]
        size = self._stack_size(job, stack.common)
        return min(size, self._most.get(_name(job), size)) if self._most else size

    def _stack_size(self, job: Job, common: Collection[str] = ()) -> int:
        """How many networks like a job's make a stack, where these of their parameters are held once."""
        limit = STACK_BYTES.get(self.device.type)
        if limit is None or not isinstance(job.learner, Network):
            return 2**31
        own = [tensor for name, tensor in job.learner.tensors().items() if name not in common]
        size = sum(tensor.numel() * tensor.element_size() for tensor in own) * job.work.gradients_held(job)
        return max(1, limit // max(1, size))

    def _answer(self, stacks: list[JobStack]) -> list[list[Timed]]:
        """Answers these at the same time, or with less at a time where memory does not suffice."""
        if stacks[0].key is None:
            return [[self._alone(job) for job in stack.jobs] for stack in stacks]
        began = time.perf_counter()
        try:
            with suiting(self._threads, [job for stack in stacks for job in stack.jobs], self.device):
                found = self._train(stacks) if stacks[0].writes else [self._read(stacks[0])]
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            let_go(error)
            failed = error
        else:
            # Not before: if memory ran out when some results were written, those networks would be trained twice.
            answers = [self._written(one) if isinstance(one, Training) else one for one in found]
            share = (time.perf_counter() - began) / sum(len(stack.jobs) for stack in stacks)
            return [
                [self._alone(job) for job in stack.jobs] if mine is None else [(answer, share) for answer in mine]
                for stack, mine in zip(stacks, answers, strict=True)
            ]
        return self._answer_with_less(stacks, failed)

    def _alone(self, job: Job) -> Timed:
        """One network by itself; if memory does not suffice, without what is kept for later trainings."""
        try:
            return self.alone(job)
        except (RuntimeError, MemoryError) as error:
            # A training that has begun has changed the network, so it cannot simply be begun again.
            if job.work.writes or not self._trainings or not out_of_memory(error):
                raise
            let_go(error)
        self._free()
        return self.alone(job)

    def _answer_with_less(self, stacks: list[JobStack], error: Exception) -> list[list[Timed]]:
        """Without what is kept of others; if that was not it, half of the stacks at a time, then halves of a stack."""
        in_the_way = {key for key, _ in self._trainings} - {stack.key for stack in stacks}
        self._free()
        if in_the_way:
            return self._answer(stacks)
        if len(stacks) > 1:
            self._tell(f"{len(stacks)} stacks do not fit into memory side by side; going on with half of them.")
            half = len(stacks) // 2
            return [*self._answer(stacks[:half]), *self._answer(stacks[half:])]
        stack = stacks[0]
        if len(stack.jobs) == 1:
            error.add_note(
                f"The network of {stack.jobs[0].owner} does not fit into what is free of the memory of {self.device}, "
                f"even alone. Smaller batches would help, and so would ending what else has taken memory there."
            )
            raise error
        half = -(-len(stack.jobs) // 2)
        self._tell(f"{len(stack.jobs)} networks of {stack.kind} do not fit into memory at once; going on with {half}.")
        self._most[_name(stack.jobs[0])] = half
        return [[timed for piece in stack.cut(half) for timed in self._answer([piece])[0]]]

    def _free(self) -> None:
        """Gives up the stacks that are kept, and reference cycles, which hold what their networks hold."""
        self._trainings.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _train(self, stacks: list[JobStack]) -> list[Training | None]:
        """Trains all stacks side by side. None for one that cannot be stacked. Nothing has happened to networks yet."""
        with seeded(derive(stacks[0].jobs[0].seed, "model")):
            trainings: list[Training | None] = [None] * len(stacks)
            going: dict[int, Iterator[bool]] = {}
            waiting, failed = list(range(len(stacks))), dict[int, str]()
            while waiting or going:
                for n in [*waiting, *going]:
                    try:
                        if n in waiting:
                            waiting.remove(n)
                            training = self._loaded(stacks[n], stacks[:n])
                            if self._cheaper_alone(stacks[n], training.uncaptured):
                                self._trainings.pop(_kept_as(stacks[n], stacks[:n]), None)
                            else:
                                trainings[n], going[n] = training, training.steps()
                        elif not next(going[n], False):
                            del going[n]
                    except RuntimeError as error:
                        trainings[n] = None
                        going.pop(n, None)
                        self._trainings.pop(_kept_as(stacks[n], stacks[:n]), None)
                        if self._once_more(stacks[n], error, first=n not in failed):
                            waiting.append(n)
                        failed[n] = str(error)
        for n, trained in enumerate(trainings):
            if trained is not None:
                trained.fetch_losses()
                if n in failed:
                    self._tell_passing(stacks[n], failed[n])
        return trainings

    def _cheaper_alone(self, stack: JobStack, failed: str | None) -> bool:
        """Whether networks whose steps cannot be captured are so few that one by one they take less time. Said."""
        if failed is None or stack.key is None:
            return False
        self._uncaptured.add(stack.key)
        how = "one by one, since they are few" if stack.small else "together, step by step"
        self._tell(f"Trainings of {stack.kind} cannot be captured in a CUDA graph, and run {how}: {failed}")
        return stack.small

    def _written(self, training: Training) -> list[Any]:
        with self.timing["copy"]:
            return training.finish()

    def _loaded(self, stack: JobStack, before: list[JobStack]) -> Training:
        """A training with these jobs in it; on a GPU the one used last time, if they still fit in."""
        capacity = Capacity.of(stack.jobs)
        if self.device.type != "cuda":
            training = Training(stack.jobs, capacity, self.device, self.precision, stack.common)
        else:
            key = _kept_as(stack, before)
            kept = self._trainings.get(key)
            if kept is None or not kept.capacity.covers(capacity) or kept.common != stack.common:
                if kept is not None:  # its memory first
                    capacity = self._trainings.pop(key).capacity.grown(capacity)
                    del kept
                self._trainings[key] = Training(stack.jobs, capacity, self.device, self.precision, stack.common)
            training = self._trainings[key]
        with self.timing["copy"]:
            training.load(stack.jobs)
        return training

    def _read(self, stack: JobStack) -> list[Any] | None:
        failed = ""
        for first in (True, False):
            try:
                found = read_together(stack.jobs, self.device, stack.common)
            except RuntimeError as error:
                self._once_more(stack, error, first)
                failed = str(error)
            else:
                if failed:
                    self._tell_passing(stack, failed)
                return found
        return None

    def _once_more(self, stack: JobStack, error: RuntimeError, first: bool) -> bool:
        """Whether a stack that failed is tried again, as it is once: a library may fail in passing.

        Nothing was written to its networks yet. If it fails twice, networks like these run one by one from now on.
        """
        if out_of_memory(error):
            raise error
        if first:
            log.info("A stack of %s failed and is tried again: %s", stack.kind, error)
            return True
        self._unstackable.add(_name(stack.jobs[0]))
        self._tell(f"Networks of {stack.kind} cannot be stacked and run one by one: {error}")
        return False

    def _tell_passing(self, stack: JobStack, error: str) -> None:
        self._tell(f"A stack of {stack.kind} failed, and succeeded when it was tried again: {error}")


def _kept_as(stack: JobStack, before: list[JobStack]) -> tuple[JobKey | None, int]:
    """Under which name a GPU keeps the training of a stack: equal stacks that run beside each other are numbered."""
    return stack.key, sum(other.key == stack.key for other in before)


def _name(job: Job) -> str:
    """A kind of work on one architecture, by a name that outlives the process."""
    network = job.learner
    assert isinstance(network, Network)
    return f"{type(job.work).__name__} of {type(network.model).__name__} {network.architecture.digest[:12]}"
