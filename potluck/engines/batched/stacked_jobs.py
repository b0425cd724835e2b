"""Jobs that are answered together: what must be equal of them for that, and their samples in one set of tensors.

What their plans do to samples before a step decides both: what is done to all at once must be equal, and what is done
to each participant's own need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from potluck.core.architecture import Architecture
from potluck.core.by_value import Value
from potluck.core.input_changes import TransformKind
from potluck.core.inputs import Batch, as_model_reads, flat, is_input, nested
from potluck.core.job import Job
from potluck.engines.batched.stacking import Stack, held_once, networks
from potluck.learners.network import Network
from potluck.learners.schedule import JointStep, augmenting, batch_of

UNCAPTURED = 10
"""From how many networks on a step of the whole stack is cheaper than a step of each, where none can be captured."""


class JobKey(NamedTuple):
    """What must be equal of jobs for them to be answered together.

    Args:
        work: what kind of work it is.
        architecture: the network's.
        asked: what the request says must be equal.
        course: of a training, how its batches are made and what its optimizers remember.
        scale: which bytes are scaled.
        inputs: what else is done to the inputs of a whole stack.
    """

    work: type
    architecture: Architecture
    asked: Hashable
    course: Hashable
    scale: str
    inputs: tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class JobStack:
    """Jobs to be answered together, and where they stand among all jobs.

    Args:
        key: what they have in common; None for one that is answered alone.
        jobs: the jobs.
        at: where they stand among all jobs.
    """

    key: JobKey | None
    jobs: list[Job]
    at: list[int]

    @property
    def writes(self) -> bool:
        return self.jobs[0].work.writes

    @property
    def small(self) -> bool:
        """Whether its networks are so few that without a graph they are better trained one by one."""
        return len(self.jobs) < UNCAPTURED

    @property
    def draws(self) -> bool:
        """Whether its networks draw random numbers while they train."""
        first = self.jobs[0]
        return isinstance(first.learner, Network) and first.learner.probe(first.samples, first.plan).draws

    @property
    def kind(self) -> str:
        """The class of the networks, for people."""
        return type(self.jobs[0].learner.model).__name__

    @cached_property
    def common(self) -> frozenset[str]:
        """The frozen parameters that its networks have in common."""
        return held_once(networks(self.jobs))

    def cut(self, size: int) -> list[JobStack]:
        """The stack in pieces of at most that size."""
        if size >= len(self.jobs):
            return [self]
        starts = range(0, len(self.jobs), size)
        return [JobStack(self.key, self.jobs[i : i + size], self.at[i : i + size]) for i in starts]


def made_alone(job: Job) -> bool:
    """Whether a participant's batches are made by itself: numbers are drawn for them, or they are read anew."""
    augmenter = job.plan.changes.augmenter
    augments = augmenter is not None and augmenter.halves is None
    read = job.samples.reader is not None or job.samples.source is not None
    return augments or job.plan.draws(job.samples) or bool(job.fit.noise) or job.fit.gradient_noise or read


def changes_of_inputs(job: Job) -> list[Value]:
    """What is done to the inputs of a whole stack at once, and so must be equal in it; else each job has its own."""
    found, halves = [], job.plan.changes.value_of_halves if job.work.writes else None
    if halves is not None:
        found.append(halves)
    if job.plan.transform is not None and job.plan.kind_of_transform(job.samples) is TransformKind.EACH:
        found.append(job.plan.changes.value)
    return found


def made_by_turn(job: Job, device: torch.device) -> bool:
    """Whether batches are made turn by turn: where numbers are drawn for them, and where samples need not move."""
    return made_alone(job) or device.type == "cpu"


class StackedData:
    """Everybody's samples; on another device one after the other, so that a step's batches are one look-up.

    What a plan does to inputs happens here, outside of the step: augmentation and the transform look at no parameter.

    Args:
        first: one of the jobs.
        capacity: for how many samples there is room.
        dtype: what networks compute in.
        device: where they are.
    """

    def __init__(self, first: Job, capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device, self._scale = dtype, device, first.plan.scale
        self._alone, self.by_turn = made_alone(first), made_by_turn(first, device)
        augmenter = first.plan.changes.augmenter
        self._halves = None if self._alone or augmenter is None else augmenter.halves
        self._transform = None if first.plan.transform is None else first.plan.kind_of_transform(first.samples)
        self._held: list[tuple[Tensor, int]] = []
        if not self.by_turn:
            self._columns = {
                name: torch.zeros(capacity, *column.shape[1:], dtype=column.dtype, device=device)
                for name, column in first.samples.columns.items()
            }

    def load(self, jobs: Sequence[Job], turns: Sequence[JointStep]) -> None:
        """Brings these jobs' samples onto the device, unless they are there already, and all rows at once."""
        self._jobs, self._turns = jobs, turns
        if self.by_turn:
            return
        # A tensor that was written to since is another one: torch counts how often each was.
        held = [(column, column._version) for job in jobs for column in job.samples.columns.values()]
        if len(held) != len(self._held) or not all(
            column is other and version == then
            for (column, version), (other, then) in zip(held, self._held, strict=True)
        ):
            for name, column in self._columns.items():
                together = torch.cat([job.samples.columns[name] for job in jobs])
                column[: len(together)].copy_(together)
            self._held = held
        self._rows = self._rows_of(turns)

    def _rows_of(self, turns: Sequence[JointStep]) -> list[Tensor]:
        """Which of the samples on the device each turn looks at, all brought over at once."""
        if not turns:
            return []
        first = torch.tensor([0, *(len(job.samples) for job in self._jobs[:-1])]).cumsum(0)
        flat = torch.cat([s.rows + first[m] for t in turns for m, s in zip(t.members, t.steps, strict=True)])
        cut = torch.split(flat.to(self._device), [count * size for count, size in (turn.shape for turn in turns)])
        return [rows.view(turn.shape) for rows, turn in zip(cut, turns, strict=True)]

    def of_turn(self, number: int) -> Stack | Tensor:
        """What a turn's step reads of its samples: the rows to look up, or batches, where more is done to them."""
        turn = self._turns[number]
        if self._alone or self._halves or self._transform:
            found = self._drawn_alone(turn) if self._alone else self._stored(number)
            found = self._augmented(found, turn) if self._halves else found
            return self._transformed(found, turn) if self._transform else found
        return self._stored(number) if self.by_turn else self._rows[number]

    def batch(self, samples: Stack | Tensor) -> Batch:
        """What the objectives see at one step: the batches, or what is in the rows. This is captured in a graph."""
        batch = nested(samples if isinstance(samples, dict) else self._looked_up(samples))
        if self._transform is not None:
            return batch
        return {**batch, "x": of_all(lambda x: as_model_reads(x, self._dtype, self._scale), batch["x"])}

    def _looked_up(self, rows: Tensor) -> Stack:
        return {name: column[rows] for name, column in self._columns.items()}

    def _stored(self, number: int) -> Stack:
        """A turn's batches as they are stored."""
        turn = self._turns[number]
        if not self.by_turn:
            return self._looked_up(self._rows[number])
        each = [(self._jobs[member], step) for member, step in zip(turn.members, turn.steps, strict=True)]
        found = {}
        for name, column in each[0][0].samples.columns.items():
            found[name] = torch.empty(*turn.shape, *column.shape[1:], dtype=column.dtype)
            for (job, step), batch in zip(each, found[name].unbind(), strict=True):
                torch.index_select(job.samples.columns[name], 0, step.rows, out=batch)
        return found

    def _drawn_alone(self, turn: JointStep) -> Stack:
        """A turn's batches where each participant's own are made: read anew, augmented, with the numbers drawn."""
        batches = [
            batch_of(self._jobs[member], step, self._dtype)
            for member, step in zip(turn.members, turn.steps, strict=True)
        ]
        return {name: torch.stack([batch[name] for batch in batches]).to(self._device) for name in batches[0]}

    def _augmented(self, stored: Stack, turn: JointStep) -> Stack:
        """Numbers are drawn for each participant, and applied to the samples of all at once."""
        halves = self._halves
        assert halves is not None
        drawn = [
            halves.draw(len(step.rows), augmenting(self._jobs[member], step))
            for member, step in zip(turn.members, turn.steps, strict=True)
        ]
        together = tree_map(lambda *parts: torch.cat(parts).to(self._device), *drawn)
        x = of_all(lambda x: halves.apply(x, together), nested(stored)["x"])
        return {**stored, **flat(x)}

    def _transformed(self, stored: Stack, turn: JointStep) -> Stack:
        """Inputs as the model reads them: of all participants at once, or of each where their batches matter."""
        x, rest = nested(stored)["x"], {name: column for name, column in stored.items() if not is_input(name)}
        if self._transform is TransformKind.EACH:
            read = of_all(lambda x: self._jobs[0].plan.inputs(x, self._dtype), x)
        elif self._transform is TransformKind.BATCH:
            each = [
                self._jobs[member].plan.inputs(tree_map(lambda part, place=place: part[place], x), self._dtype)
                for place, member in enumerate(turn.members)
            ]
            read = tree_map(lambda *parts: torch.stack(parts), *each)
        else:  # it drew each participant's own numbers, and is done
            return stored
        return {**flat(read), **rest}


def of_all(change: Callable[[Any], Any], x: Any) -> Any:
    """What is made of the samples of all networks of a stack (networks × samples), as of one batch."""
    if not (leaves := tree_leaves(x)):
        return x  # samples may have no inputs
    shape = leaves[0].shape[:2]
    made = change(tree_map(lambda part: part.flatten(0, 1), x))
    return tree_map(lambda part: part.unflatten(0, shape), made)
