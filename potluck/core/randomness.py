"""Every random draw comes from (seed, and what it is for): never from order, engine or time."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

Found = TypeVar("Found")


def derive(seed: int, *purpose: str | int) -> int:
    """A seed of its own for each purpose, e.g. ``derive(0, "clinic", 3, "fit", 1)``. Fits in 63 bits."""
    text = "\x1f".join([str(seed), *(f"{type(part).__name__}:{part}" for part in purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose; drawn on the CPU so that every device sees the same numbers."""
    return torch.Generator().manual_seed(derive(seed, *purpose))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global generators inside, and leaves them as they were outside.

    For code that draws without asking for a generator: a model's own initialisation, Dropout.
    """
    if torch.cuda.is_available():
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            torch.manual_seed(seed)
            yield
        return
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)  # a tenth of a millisecond less than seeding devices that are not there
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


@contextmanager
def all_seeded(seed: int) -> Iterator[None]:
    """Seeds the global generators of torch (on the CPU), numpy and Python inside, and leaves them as they were outside.

    For an owner's own code on data, which may draw from any of them.
    """
    before = torch.default_generator.get_state(), np.random.get_state(), random.getstate()
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])


def drawing(call: Callable[[], Found]) -> tuple[Found, bool]:
    """What a call returns, under a seed that is always the same, and whether it drew from a global generator."""
    with all_seeded(0):
        before = _states()
        found = call()
        return found, _states() != before


def _states() -> Hashable:
    legacy = np.random.get_state(legacy=False)["state"]
    torchs = torch.default_generator.get_state().numpy().tobytes()
    return torchs, legacy["key"].tobytes(), legacy["pos"], random.getstate()
