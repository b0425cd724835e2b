"""Rounds of FedAvg with so many participants, each with a small CNN and a few samples; seconds and memory as JSON.

So many of them as `--max-concurrent` says are in memory at a time, the others on disk.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

import potluck
from benchmarks.memory import peak_memory
from potluck.core.history import Row
from potluck.engines import keep_freed_memory
from potluck.models import cnn

POOL, SHAPE = 10_000, (3, 16, 16)


def participants(count: int, samples: int) -> Iterator[potluck.Participant]:
    """Participants with a CNN of 8 and 16 channels each, one after the other. It is built when they join."""
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.integers(256, size=(POOL, *SHAPE), dtype=np.uint8))
    y = random.integers(10, size=POOL)
    plan = potluck.Plan(optimizer="adam", batch_size=16)
    windows = ((index * samples) % (POOL - samples) for index in range(count))
    for index, begin in enumerate(windows):
        own = (x[begin : begin + samples], y[begin : begin + samples])
        yield potluck.Participant(f"p{index:05d}", partial(cnn, channels=(8, 16)), own, plan=plan, labels=range(10))


def measure(
    count: int, samples: int, rounds: int, engine: str, device: str, max_concurrent: int
) -> dict[str, float | list[float]]:
    """Seconds of setting up and of each round, and the most memory held until then, in bytes."""
    began = time.perf_counter()
    federation = potluck.Federation(
        participants(count, samples),
        potluck.methods.FedAvg(),
        engine=engine,
        device=device,
        max_concurrent=max_concurrent,
        storage="disk",
    )
    federation.run(0)
    ready = time.perf_counter()
    seconds: list[float] = []
    peaks: list[float] = []

    def note(_: potluck.Federation, rows: list[Row]) -> None:
        seconds.append(time.perf_counter() - ready - sum(seconds))
        peaks.append(peak_memory())

    first = peak_memory()
    federation.run(rounds, callbacks=[note])
    return {"setting_up": ready - began, "seconds": seconds, "memory_before": first, "memory": peaks}


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", metavar="participants", type=int)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--max-concurrent", type=int, required=True)
    print(json.dumps(measure(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
