"""Stacks: the tensors of many networks and of what they were given, one slice for each network.

A stack stays where it is: the next training writes into the same memory, so that a graph captured over it still holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from potluck.core.job import Job
from potluck.core.model_view import FrozenModel, ModelView
from potluck.engines.batched.optimizers import OptimizerMoments
from potluck.learners.network import Network, skeleton

Stack = dict[str, Tensor]
"""Tensors of many networks by name, one slice of the first dimension for each."""

Slots = list[tuple[Tensor, ...]]
"""The tensors of each network of a stack."""


class StackState(NamedTuple):
    """All that a step of a stack's networks reads; the first three are what it changes.

    Args:
        parameters: those that are trained.
        buffers: the buffers.
        moments: what optimizers remember.
        frozen: the parameters that stay as they are.
        mask: where parameters may change.
        context: what objectives read besides the batch.
    """

    parameters: Stack
    buffers: Stack
    moments: dict[str, OptimizerMoments]
    frozen: Stack
    mask: Stack
    context: list[Stack]


@dataclass(frozen=True)
class Capacity:
    """How much there is room for, in all.

    Args:
        networks: for how many networks.
        samples: for how many samples of all of them together.
    """

    networks: int
    samples: int

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> Capacity:
        """What these jobs need."""
        return cls(len(jobs), sum(len(job.samples) for job in jobs))

    def covers(self, other: Capacity) -> bool:
        return self.networks >= other.networks and self.samples >= other.samples

    def grown(self, need: Capacity) -> Capacity:
        """Capacity for more: twice as much of what is short, so that it is seldom short again."""
        pairs = ((self.networks, need.networks), (self.samples, need.samples))
        return Capacity(*(have if have >= wanted else max(wanted, 2 * have) for have, wanted in pairs))


def networks(jobs: Sequence[Job]) -> list[Network]:
    """The jobs' learners, all of them networks."""
    return [job.learner for job in jobs if isinstance(job.learner, Network)]


def held_once(members: Sequence[Network]) -> frozenset[str]:
    """The frozen parameters that are equal in all of these networks: a stack holds them once."""
    first, *others = members
    if not (frozen := first.frozen()):
        return frozenset()
    each = [network.frozen() for network in others]
    return frozenset(n for n, own in frozen.items() if all(_same(own, other[n]) for other in each))


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape are the same memory, or equal."""
    if one.device != other.device:
        return False
    return (one.data_ptr(), one.stride()) == (other.data_ptr(), other.stride()) or torch.equal(one, other)


def empty_stack(tensors: Mapping[str, Tensor], slots: int, device: torch.device) -> Stack:
    """A stack of tensors of these shapes, to be filled. On a GPU of zeros, since steps are captured before it is."""
    make = torch.zeros if device.type == "cuda" else torch.empty
    return {n: make(slots, *t.shape, dtype=t.dtype, device=device) for n, t in tensors.items()}


def fill(stack: Stack, each: Sequence[Mapping[str, Tensor]]) -> None:
    """Writes tensors into the first slices of a stack."""
    for name, whole in stack.items():
        parts = [tensors[name].detach() for tensors in each]
        if all(part.device == whole.device for part in parts):
            torch.stack(parts, out=whole[: len(parts)])
        else:  # through memory that the device reads by itself, while the next ones are gathered
            together = torch.empty(len(parts), *whole.shape[1:], dtype=whole.dtype, pin_memory=whole.is_cuda)
            parts = [part.cpu() for part in parts]  # a network that was asked something alone may be on the device
            whole[: len(parts)].copy_(torch.stack(parts, out=together), non_blocking=True)


def on_host(stack: Stack, count: int) -> Stack:
    """The first slices of a stack, where the networks are at rest."""
    if not any(whole.is_cuda for whole in stack.values()):
        return stack
    copies = {n: torch.empty(count, *t.shape[1:], dtype=t.dtype, pin_memory=True) for n, t in stack.items()}
    for name, copy in copies.items():
        copy.copy_(stack[name][:count], non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return copies


def stack_weights(members: Sequence[Network], device: torch.device, without: Collection[str] = ()) -> Stack:
    """All parameters and buffers of networks of one architecture, but for those that are held once."""
    each = [network.tensors() for network in members]
    stack = empty_stack({name: tensor for name, tensor in each[0].items() if name not in without}, len(each), device)
    fill(stack, each)
    return stack


def copy_all(targets: Sequence[Sequence[Tensor]], sources: Sequence[Sequence[Tensor]]) -> None:
    """Copies many tensors at once, one type after the other: on a GPU in a few kernels."""
    pairs: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for some, others in zip(targets, sources, strict=True):
        for target, source in zip(some, others, strict=True):
            to, of = pairs.setdefault(target.dtype, ([], []))
            to.append(target)
            of.append(source)
    for to, of in pairs.values():
        torch._foreach_copy_(to, of)


class StackedContext:
    """What the participants were given, stacked: tensors and frozen models' weights by slice, the rest as it is.

    Args:
        context: one participant's.
        own: its network, whose code frozen models without a module of their own run.
        slots: for how many participants there is room.
        device: where they are.
    """

    def __init__(self, context: Mapping[str, Any], own: nn.Module, slots: int, device: torch.device) -> None:
        self._plain, self._structure = tree_flatten(dict(context))
        self._stacks: list[Stack | None] = []
        self._bodies: list[nn.Module | None] = []
        for leaf in self._plain:
            self._stacks.append(
                empty_stack(tensors, slots, device) if (tensors := _tensors(leaf)) is not None else None
            )
            self._bodies.append(skeleton(leaf, own).to(device) if isinstance(leaf, FrozenModel) else None)
        self._plain = [
            None if stack is not None else leaf for leaf, stack in zip(self._plain, self._stacks, strict=True)
        ]

    def load(self, contexts: Sequence[Mapping[str, Any]]) -> None:
        """Takes over what these participants were given."""
        columns = zip(*(tree_flatten(dict(one))[0] for one in contexts), strict=True)
        for stack, leaves in zip(self._stacks, columns, strict=True):
            if stack is not None:
                fill(stack, [tensors for leaf in leaves if (tensors := _tensors(leaf)) is not None])

    def slices(self) -> list[Stack]:
        """The stacks: what vmap runs over."""
        return [stack for stack in self._stacks if stack is not None]

    def rebuild(self, slices: list[Stack]) -> dict[str, Any]:
        """What one participant was given, from its slices, in the shape the objective expects."""
        remaining = iter(slices)
        leaves = []
        for plain, stack, body in zip(self._plain, self._stacks, self._bodies, strict=True):
            found = plain if stack is None else next(remaining)
            if stack is not None:
                found = found[""] if body is None else ModelView(body, found)
            leaves.append(found)
        rebuilt: dict[str, Any] = tree_unflatten(leaves, self._structure)
        return rebuilt


def _tensors(leaf: Any) -> Mapping[str, Tensor] | None:
    """What is to be stacked of something given: a companion's weights, a tensor under no name, or nothing."""
    if isinstance(leaf, FrozenModel):
        return leaf.weights
    return {"": leaf} if isinstance(leaf, Tensor) else None


class SubStack:
    """Some of a stack's networks in a small stack of their own, where they take their steps together.

    Networks with unequal data do not all take part in every step. Those who do would have to be looked up in their
    stack, and put back, at each. They move into a sub-stack instead, and stay as long as the same ones go on together.

    Args:
        whole: the stack's tensors.
        slots: the same, network by network.
        count: for how many networks it has room.
    """

    def __init__(self, whole: StackState, slots: Slots, count: int) -> None:
        self.state: StackState = tree_map(lambda stack: empty_like(stack, count), whole)
        self.members: tuple[int, ...] = ()
        """Who is here, while their slices of the whole stack are out of date."""
        self._whole, self._mine = slots, slots_of(self.state)
        self._changing = len(tree_leaves(whole[:3]))

    def enter(self, members: tuple[int, ...]) -> None:
        """Brings these networks in."""
        self.members = members
        copy_all(self._mine, [self._whole[member] for member in members])

    def leave(self) -> None:
        """Writes everyone's changes back."""
        mine = self._mine[: len(self.members)]
        copy_all(
            [self._whole[member][: self._changing] for member in self.members],
            [slot[: self._changing] for slot in mine],
        )
        self.members = ()


class SubStacks:
    """The sub-stacks of a stack, by how many networks they have room for.

    Args:
        whole: the stack's tensors.
        kept: whether each stays for good, with the graphs that were captured over it; otherwise there is one at a time.
    """

    def __init__(self, whole: StackState, kept: bool) -> None:
        self._whole, self._kept = whole, kept
        self._by_count: dict[int, SubStack] = {}

    def of(self, count: int) -> SubStack:
        """The sub-stack for so many."""
        if count not in self._by_count:
            if not self._kept:
                self.dissolve()
                self._by_count.clear()
            self._by_count[count] = SubStack(self._whole, self._slots, count)
        return self._by_count[count]

    def gather(self, members: tuple[int, ...]) -> None:
        """Has these networks together in their sub-stack."""
        one = self.of(len(members))
        if one.members != members:
            self.dissolve({*members, *one.members})
            one.enter(members)

    def dissolve(self, members: Collection[int] | None = None) -> None:
        """Has everyone leave, or the sub-stacks of these networks."""
        for one in self._by_count.values():
            if members is None or not set(members).isdisjoint(one.members):
                one.leave()

    def abandon(self) -> None:
        """Leaves it at that: nobody's changes are wanted any more."""
        for one in self._by_count.values():
            one.members = ()

    @cached_property
    def _slots(self) -> Slots:
        return slots_of(self._whole)


def empty_like(stack: Tensor, count: int) -> Tensor:
    """A stack for so many of what a stack holds."""
    return empty_stack({"": stack[0]}, count, stack.device)[""]


def slots_of(state: StackState) -> Slots:
    """A stack's tensors, network by network."""
    return list(zip(*(stack.unbind() for stack in tree_leaves(state)), strict=True))
