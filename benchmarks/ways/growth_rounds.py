"""Rounds of FedAvg with so many participants, each with a small CNN and a few samples; seconds and memory as JSON.

Everybody's samples are a window of one pool, so that what grows with the participants is Potluck's own.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from typing import Any

import numpy as np
import torch

import potluck
from potluck.bench.memory import peak_memory
from potluck.bench.rounds import check_options
from potluck.history import Row
from potluck.models import cnn

POOL, SHAPE = 10_000, (3, 16, 16)


def people(count: int, samples: int) -> list[potluck.Participant]:
    """Participants with a CNN of 8 and 16 channels each. It is built when they join."""
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.integers(256, size=(POOL, *SHAPE), dtype=np.uint8))
    y = random.integers(10, size=POOL)
    plan = potluck.Plan(optimizer="adam", batch_size=16)
    windows = ((index * samples) % (POOL - samples) for index in range(count))
    return [
        potluck.Participant(
            f"p{index:05d}",
            partial(cnn, channels=(8, 16)),
            (x[begin : begin + samples], y[begin : begin + samples]),
            plan=plan,
            labels=range(10),
        )
        for index, begin in enumerate(windows)
    ]


def play(
    count: int, samples: int, rounds: int, engine: str, device: str, wave: int | None
) -> dict[str, float | list[float]]:
    """Seconds of setting up and of each round, and the most memory held until then, in bytes."""
    began = time.perf_counter()
    options: dict[str, Any] = {} if wave is None else {"wave": wave}
    check_options(options)
    federation = potluck.Federation(
        people(count, samples), potluck.methods.FedAvg(), engine=engine, device=device, **options
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("participants", type=int)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--wave", type=int)
    told = parser.parse_args()
    print(json.dumps(play(told.participants, told.samples, told.rounds, told.engine, told.device, told.wave)))


if __name__ == "__main__":
    main()
