"""The short benchmarks: what ``potluck bench`` runs on anyone's machine."""

from __future__ import annotations

from collections.abc import Callable

import torch

from potluck.bench.merging import merging
from potluck.bench.overhead import overhead
from potluck.bench.results import Figure
from potluck.bench.rounds import serial_and_auto
from potluck.bench.scenarios import CNN, COFED, FEDIN, MLP
from potluck.bench.steps import eager_and_engine
from potluck.core.errors import SettingsError, nearest

Part = Callable[[], list[Figure]]

PARTS: dict[str, Part] = {
    "mlp": lambda: serial_and_auto(MLP, repeats=5, goal=1.5),
    "cnn": lambda: serial_and_auto(CNN, repeats=5, goal=1.2),
    "overhead": lambda: overhead(repeats=5),
    "merging": lambda: merging(repeats=2),
}
"""What every machine can do, by name."""

GPU_PARTS: dict[str, Part] = {
    "fedin": lambda: eager_and_engine(FEDIN.replace(count=25, samples=256), "cuda", repeats=3),
    "cofed": lambda: eager_and_engine(COFED, "cuda", repeats=3, goal=8.0),
}
"""What a machine with a GPU can do besides."""


def chosen(only: list[str]) -> dict[str, Part]:
    """The parts asked for; all that this machine can do, if none is."""
    able = PARTS | GPU_PARTS if torch.cuda.is_available() else PARTS
    for name in only:
        if name not in PARTS | GPU_PARTS:
            raise SettingsError(f"There is no benchmark {name!r}.{nearest(name, PARTS | GPU_PARTS)}")
        if name not in able:
            raise SettingsError(f"The benchmark {name!r} needs a GPU, and torch finds none here.")
    return {name: part for name, part in able.items() if not only or name in only}
