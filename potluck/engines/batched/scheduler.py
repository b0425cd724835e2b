"""Whose turn it is: the steps of many networks, put into groups that can be taken together.

A network's own steps keep their order; between networks any order gives the same result. So those whose next batches
have one size go together, the largest group first: whoever has an odd batch waits until others come to one like it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from potluck.learners.schedule import Step

Shape = tuple[int, int]


@dataclass(frozen=True)
class JointStep:
    """One step of some networks, whose batches have one size."""

    members: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def abreast(self) -> bool:
        """Whether all are at the same step, at the same rate."""
        return len({(step.number, step.lr) for step in self.steps}) == 1

    @property
    def shape(self) -> Shape:
        """How many networks, and how many samples each."""
        return len(self.members), len(self.steps[0].rows)


def in_lockstep(courses: Sequence[Sequence[Step]], whole: int | None = None) -> Iterator[JointStep]:
    """All steps of all networks.

    With ``whole`` a group of another size than this is cut into powers of two, so that few shapes occur in all and a
    graph captured for one of them is used often.
    """
    taken = [0] * len(courses)
    while True:
        groups: dict[int, list[int]] = defaultdict(list)
        for member, course in enumerate(courses):
            if taken[member] < len(course):
                groups[len(course[taken[member]].rows)].append(member)
        if not groups:
            return
        members = max(groups.values(), key=len)
        for piece in [members] if whole in (None, len(members)) else _powers_of_two(members):
            yield JointStep(tuple(piece), tuple(courses[member][taken[member]] for member in piece))
        for member in members:
            taken[member] += 1


def _powers_of_two(members: list[int]) -> Iterator[list[int]]:
    while members:
        size = 1 << (len(members).bit_length() - 1)
        yield members[:size]
        members = members[size:]
