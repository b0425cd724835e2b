"""Data that are read batch by batch give the same history as data in memory, and need little of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from potluck import Federation, Participant, Plan
from potluck.methods import CoFED, FedAvg
from tests.tables import agree, made_data, mlp

ROOT = Path(__file__).parents[2]


class Pairs(Dataset[Any]):
    """Items of made data, shaken or not."""

    def __init__(self, seed, shaken):
        (self.x, self.y), self.shaken = made_data(20, seed), shaken

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        x = torch.from_numpy(self.x[index])
        return x + 0.1 * torch.rand(x.shape) if self.shaken else x, self.y[index]


def mapped(folder, seed):
    x, y = made_data(20, seed)
    np.save(folder / f"{seed}.npy", x)
    return np.load(folder / f"{seed}.npy", mmap_mode="r"), y


SOURCES = {
    "dataset": lambda folder, seed: Pairs(seed, shaken=False),
    "random dataset": lambda folder, seed: Pairs(seed, shaken=True),
    "memory map": mapped,
}


def run(folder, source, preload, engine, method, **settings):
    people = [
        Participant(
            f"p{seed}",
            mlp(seed),
            SOURCES[source](folder, seed),
            plan=Plan(batch_size=6, epochs=2),
            labels=range(3),
            validation=0.2,
            test=SOURCES[source](folder, 10 + seed),
            preload=preload,
        )
        for seed in range(3)
    ]
    federation = Federation(people, method, public=made_data(10, 99)[0], engine=engine, seed=2)
    return federation.run(2, **settings).rows()


@pytest.mark.parametrize("method", [FedAvg(), CoFED()], ids=["FedAvg", "CoFED"])
@pytest.mark.parametrize("source", SOURCES)
def test_read_when_needed_or_at_the_start_the_history_is_the_same(source, method, tmp_path):
    early = run(tmp_path, source, True, "serial", method)
    agree(run(tmp_path, source, False, "serial", method), early, 0)
    agree(run(tmp_path, source, False, "batched", method), early, 1e-9)


def test_a_run_on_lazy_data_is_resumed(tmp_path):
    unbroken = run(tmp_path, "memory map", False, "serial", FedAvg())
    run(tmp_path, "memory map", False, "serial", FedAvg(), run_dir=tmp_path / "run")
    again = run(tmp_path, "memory map", False, "serial", FedAvg(), run_dir=tmp_path / "run", resume=True)
    agree(again, unbroken, 0)


TRAINING = r"""
import json, re, sys
from pathlib import Path
import numpy as np
from torch import nn
from potluck import Federation, Participant, Plan
from potluck.methods import FedAvg

x = np.load(sys.argv[1], mmap_mode="r")
y = np.arange(len(x)) % 2
people = [
    Participant(
        name,
        nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(192, 2)),
        (x, y),
        plan=Plan(batch_size=16),
        validation=0.01,
    )
    for name in ("a", "b")
]
history = Federation(people, FedAvg(), test=(x[:64], y[:64]), engine=sys.argv[2], device="cpu").run(1)
peak = 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps({"rows": len(x), "steps": len(history.rows()), "peak": peak}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_three_gigabytes_are_trained_on_in_one(engine, tmp_path):
    """Two participants train on 3 GB on disk; all of the process together needs less than 1 GB.

    The peak is that of the new process alone: getrusage would count the one that started it, too.
    """
    path, rows = tmp_path / "x.npy", 20_000
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        form = {"descr": "|u1", "fortran_order": False, "shape": (rows, 3, 224, 224)}
        np.lib.format.write_array_header_1_0(file, form)
        for _ in range(rows // 100):
            file.write(random.integers(0, 256, (100, 3, 224, 224), dtype=np.uint8).tobytes())
    assert path.stat().st_size > 3e9
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, str(path), engine],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peak"] < 1e9
