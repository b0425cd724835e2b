"""Allocation under limits: the arithmetic that several partitions share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def evenly(total: int, room: NDArray[Any]) -> NDArray[Any]:
    """Splits ``total`` into parts as even as ``room`` allows: no part is larger than its limit there."""
    parts = np.zeros(len(room), dtype=int)
    # The smallest first: what exceeds its limit is shared by all that follow.
    for done, place in enumerate(np.argsort(room, kind="stable")):
        parts[place] = min(room[place], total // (len(room) - done))
        total -= parts[place]
    return parts


def deal(
    sizes: NDArray[Any], slots: NDArray[Any], rng: np.random.Generator, *, fullest_first: bool
) -> list[NDArray[Any]] | None:
    """Gives participant i ``sizes[i]`` different classes, and class j to at most ``slots[j]`` participants.

    Args:
        sizes: how many classes each participant gets.
        slots: how many participants may get each class.
        rng: draws the classes.
        fullest_first: whether only classes with most free slots are drawn. Then it fails only where there is no
            solution; otherwise any class with a free slot may be drawn, which can fail near the end.

    Returns:
        For each participant its classes; None if it failed.
    """
    left = slots.copy()
    hands = []
    for size in sizes:
        wish = rng.random(len(left)) + (left if fullest_first else left > 0)
        hand = np.argsort(-wish)[:size]
        if len(hand) < size or not left[hand].all():
            return None
        left[hand] -= 1
        hands.append(hand)
    return hands
