"""SubStacks: some of a stack's networks in a small stack of their own, where they take their steps together.

Networks with unequal data do not all take part in every step. Those who do would have to be looked up in their stack,
and put back, at each. They move into a group instead, and stay as long as the same ones go on together.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from potluck.engines.batched.stacking import State, copy_all, room_for

Slots = list[tuple[Tensor, ...]]
"""The tensors of each network of a stack."""


class SubStack:
    """Capacity for so many of a stack's networks."""

    def __init__(self, whole: State, slots: Slots, count: int) -> None:
        self.state: State = tree_map(lambda stack: _room_like(stack, count), whole)
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
    """The groups of a stack, by how many networks they have room for.

    ``kept``: each stays for good, with the graphs that were captured over it; otherwise there is one at a time.
    """

    def __init__(self, whole: State, kept: bool) -> None:
        self._whole, self._kept = whole, kept
        self._groups: dict[int, SubStack] = {}

    def of(self, count: int) -> SubStack:
        """The group of so many."""
        if count not in self._groups:
            if not self._kept:
                self.dissolve()
                self._groups.clear()
            self._groups[count] = SubStack(self._whole, self._slots, count)
        return self._groups[count]

    def gather(self, members: tuple[int, ...]) -> None:
        """Has these networks together in their group."""
        group = self.of(len(members))
        if group.members != members:
            self.dissolve({*members, *group.members})
            group.enter(members)

    def dissolve(self, members: Collection[int] | None = None) -> None:
        """Has everyone leave, or the groups of these networks."""
        for group in self._groups.values():
            if members is None or not set(members).isdisjoint(group.members):
                group.leave()

    def abandon(self) -> None:
        """Leaves it at that: nobody's changes are wanted any more."""
        for group in self._groups.values():
            group.members = ()

    @cached_property
    def _slots(self) -> Slots:
        return slots_of(self._whole)


def _room_like(stack: Tensor, count: int) -> Tensor:
    return room_for({"": stack[0]}, count, stack.device)[""]


def slots_of(state: State) -> Slots:
    """A stack's tensors, network by network."""
    return list(zip(*(stack.unbind() for stack in tree_leaves(state)), strict=True))
