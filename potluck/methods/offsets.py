"""Offsets: where in a wider global layer each participant's filters begin (PerHeFed, section 3.2.2; HFL)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from potluck.federation.server import Server


def zero(filters: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Everybody's begin with the global layer's first.

    Args:
        filters: participant → how many filters each of its layers has.
    """
    return {name: [0] * len(own) for name, own in filters.items()}


def drawn(filters: Mapping[str, Sequence[int]], sizes: Sequence[int], server: Server) -> dict[str, list[int]]:
    """Each anywhere where there is room.

    Args:
        filters: participant → how many filters each of its layers has.
        sizes: how many the global layers have.
        server: gives the random numbers.
    """
    found = {}
    for name, own in filters.items():
        draw = server.generator(f"offsets of {name}")
        room = [whole - count for whole, count in zip(sizes, own, strict=False)]
        found[name] = [int(torch.randint(most + 1, (), generator=draw)) for most in room]
    return found


def even(filters: Mapping[str, Sequence[int]], sizes: Sequence[int]) -> dict[str, list[int]]:
    """So that about as many cover each global filter: one after the other, by name, where the fewest others are so far.

    Args:
        filters: participant → how many filters each of its layers has.
        sizes: how many the global layers have.
    """
    covered = [torch.zeros(size, dtype=torch.int64) for size in sizes]
    found: dict[str, list[int]] = {}
    for name in sorted(filters):
        found[name] = []
        for layer, count in zip(covered, filters[name], strict=False):
            first = int(layer.unfold(0, count, 1).sum(dim=1).argmin())
            layer[first : first + count] += 1
            found[name].append(first)
    return found
