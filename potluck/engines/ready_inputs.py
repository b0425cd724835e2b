"""Inputs as models read them, made once of whole data where a transform allows it, and kept while there is room."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from potluck.core.input_changes import InputChanges, TransformKind
from potluck.core.inputs import flat
from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.learners.network import Network
from potluck.learners.schedule import rows_at_once

READY_BYTES = 2**30
"""How many bytes of inputs are kept as models read them, in all. What does not fit is transformed at each step."""


@dataclass(frozen=True)
class Kept:
    """Inputs as models read them, and what they were made of.

    Args:
        sources: the stored columns, which may be gone.
        versions: how often each of them had been written to.
        columns: the columns as models read them.
    """

    sources: tuple[weakref.ref[Tensor], ...]
    versions: tuple[int, ...]
    columns: dict[str, Tensor]

    def of(self, stored: Sequence[Tensor]) -> bool:
        """Whether they were made of these columns, as they are now."""
        return len(self.sources) == len(stored) and all(
            source() is column and version == column._version
            for source, version, column in zip(self.sources, self.versions, stored, strict=True)
        )

    @property
    def gone(self) -> bool:
        """Whether nobody holds any more what they were made of."""
        return any(source() is None for source in self.sources)

    @property
    def bytes(self) -> int:
        return _bytes(self.columns)


@dataclass(frozen=True)
class Ready:
    """Samples that are ready, as they were handed out last.

    Args:
        plan: the plan whose transform made them.
        changes: what was known of that transform.
        dtype: what the network computes in.
        versions: how often each of the stored columns had been written to.
        samples: the samples.
        ready_plan: the plan for them.
    """

    plan: Plan
    changes: InputChanges
    dtype: torch.dtype
    versions: tuple[int, ...]
    samples: Samples
    ready_plan: Plan

    def suits(self, job: Job, dtype: torch.dtype) -> bool:
        """Whether a job about the same samples would get the same."""
        return (
            self.plan is job.plan
            and self.changes is job.plan.changes
            and self.dtype == dtype
            and self.versions == _versions(job.samples)
        )


class ReadyInputs:
    """Jobs whose inputs were put through their plans' transforms before, for all engines alike.

    A transform that makes the same of each sample, whatever others come with it, is applied once to all samples. Those
    whose transforms are equal by value share what was made of data that they share.

    Args:
        budget: how many bytes are kept; by default 1 GiB.
    """

    def __init__(self, budget: int = READY_BYTES) -> None:
        self._budget, self._held = budget, 0
        self._kept: dict[Hashable, Kept] = {}
        self._last: weakref.WeakKeyDictionary[Samples, Ready] = weakref.WeakKeyDictionary()

    def of(self, jobs: Sequence[Job]) -> list[Job]:
        """The same jobs; those whose inputs are ready with plans that leave them as they are."""
        self._drop_gone()
        return [self._of(job) if _may_be_ready(job) else job for job in jobs]

    def _of(self, job: Job) -> Job:
        assert isinstance(job.learner, Network)
        dtype, last = job.learner.dtype, self._last.get(job.samples)
        if last is None or not last.suits(job, dtype):
            plan = job.plan
            if plan.kind_of_transform(job.samples) is not TransformKind.EACH:
                return job
            columns = self._columns(job, dtype)
            if columns is None:
                return job
            ready = job.samples.with_inputs(Samples(columns))
            last = Ready(plan, plan.changes, dtype, _versions(job.samples), ready, plan.with_inputs_ready())
            self._last[job.samples] = last
        return replace(job, samples=last.samples, plan=last.ready_plan)

    def _columns(self, job: Job, dtype: torch.dtype) -> dict[str, Tensor] | None:
        """Inputs as the network reads them; None where there is no room to keep them."""
        stored = job.samples.input_columns
        key = tuple(map(id, stored.values())), tuple(stored), dtype, job.plan.changes.value
        kept = self._kept.get(key)
        if kept is None or not kept.of(list(stored.values())):
            if kept is not None:
                self._drop(key)
            found = self._made(job, dtype)
            if found is None:
                return None
            sources = tuple(weakref.ref(column) for column in stored.values())
            kept = Kept(sources, _versions(job.samples), found)
            self._kept[key] = kept
            self._held += kept.bytes
        return kept.columns

    def _made(self, job: Job, dtype: torch.dtype) -> dict[str, Tensor] | None:
        """What the transform makes of all samples, some at a time."""
        count, size = len(job.samples), rows_at_once(job.samples)
        parts: list[Any] = []
        for start in range(0, count, size):
            parts.append(job.plan.inputs(job.samples.at(slice(start, start + size)), dtype))
            if start == 0 and self._held + _bytes(flat(parts[0])) * count / min(size, count) > self._budget:
                return None
        return flat(tree_map(lambda *each: torch.cat(each), *parts)) if parts else None

    def _drop_gone(self) -> None:
        for key in [key for key, kept in self._kept.items() if kept.gone]:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        self._held -= self._kept.pop(key).bytes


def _may_be_ready(job: Job) -> bool:
    """Whether a job's inputs are transformed and nothing else is done to them before, at each step anew."""
    plan, samples = job.plan, job.samples
    if plan.transform is None or samples.source is not None or not isinstance(job.learner, Network):
        return False
    if job.work.writes:
        return plan.augment is None and samples.reader is None
    return not job.reading.of_features


def _versions(samples: Samples) -> tuple[int, ...]:
    return tuple(column._version for column in samples.input_columns.values())


def _bytes(columns: dict[str, Tensor]) -> int:
    return sum(column.numel() * column.element_size() for column in columns.values())
