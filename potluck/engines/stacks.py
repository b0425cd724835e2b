"""Stacks: the tensors of many networks, of their data and of what they were given, one slice for each network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from potluck.learners.net import Companion, Net
from potluck.learners.network import Network, frozen
from potluck.learners.steps import Step, batch_of
from potluck.requests import Fit, Job

Stack = dict[str, Tensor]
"""Tensors of many networks by name, one slice of the first dimension for each."""


def networks(jobs: Sequence[Job]) -> list[Network]:
    """The jobs' learners, all of them networks."""
    return [job.learner for job in jobs if isinstance(job.learner, Network)]


def stack_weights(members: Sequence[Network], device: torch.device) -> Stack:
    """All parameters and buffers of networks of one architecture."""
    each = [network.tensors() for network in members]
    return {name: torch.stack([tensors[name].detach() for tensors in each]).to(device) for name in each[0]}


def some(stacks: Any, members: list[int], of: int) -> Any:
    """The slices of some networks out of ``of``; no copy if these are all of them."""
    if len(members) == of:
        return stacks
    return tree_map(lambda stack: stack[torch.tensor(members, device=stack.device)], stacks)


class StackedData:
    """Everybody's samples on the device, one after the other, so that a step's batches are one look-up."""

    def __init__(self, jobs: list[Job], dtype: torch.dtype, device: torch.device) -> None:
        self._jobs, self._dtype, self._device = jobs, dtype, device
        work = jobs[0].work
        self.drawn = jobs[0].plan.augment is not None or (isinstance(work, Fit) and bool(work.draws))
        """Whether steps see more than stored samples: augmented ones, or numbers drawn for them."""
        self._first = torch.tensor([0, *(len(job.samples) for job in jobs[:-1])]).cumsum(0)
        names = jobs[0].samples.columns
        self._columns = {n: torch.cat([job.samples.columns[n] for job in jobs]).to(device) for n in names}

    def batch(self, members: list[int], steps: list[Step]) -> Stack:
        """What the objectives see at one step, before the plan's transform."""
        if self.drawn:
            each = [batch_of(self._jobs[m], step, self._dtype) for m, step in zip(members, steps, strict=True)]
            return {name: torch.stack([batch[name] for batch in each]).to(self._device) for name in each[0]}
        return self.look_up(self.rows(members, steps))

    def rows(self, members: list[int], steps: list[Step]) -> Tensor:
        """Where the samples of one step stand, a row of them for each network."""
        each = [step.rows + self._first[m] for m, step in zip(members, steps, strict=True)]
        return torch.stack(each).to(self._device)

    def look_up(self, rows: Tensor) -> Stack:
        """The samples that stand there."""
        return {name: column[rows] for name, column in self._columns.items()}


class StackedGiven:
    """What the participants were given, stacked: tensors and companions' weights by slice, the rest as it is."""

    def __init__(self, given: Sequence[Mapping[str, Any]], own: nn.Module, device: torch.device) -> None:
        flat = [tree_flatten(dict(one)) for one in given]
        self._structure = flat[0][1]
        self._plain = flat[0][0]
        self._stacks: list[Any] = []
        self._bodies: list[nn.Module | None] = []
        for leaves in zip(*(leaves for leaves, _ in flat), strict=True):
            if isinstance(leaves[0], Companion):
                self._bodies.append(frozen(leaves[0], own).to(device))
                names = leaves[0].weights
                self._stacks.append({n: torch.stack([leaf.weights[n] for leaf in leaves]).to(device) for n in names})
            else:
                self._bodies.append(None)
                tensor = isinstance(leaves[0], Tensor)
                self._stacks.append(torch.stack(leaves).to(device) if tensor else None)

    def slices(self) -> list[Any]:
        """The stacks: what vmap runs over."""
        return [stack for stack in self._stacks if stack is not None]

    def rebuild(self, slices: list[Any]) -> dict[str, Any]:
        """What one participant was given, from its slices, in the shape the objective expects."""
        remaining = iter(slices)
        leaves = []
        for plain, stack, body in zip(self._plain, self._stacks, self._bodies, strict=True):
            found = plain if stack is None else next(remaining)
            leaves.append(found if body is None else Net(body, found))
        rebuilt: dict[str, Any] = tree_unflatten(leaves, self._structure)
        return rebuilt
