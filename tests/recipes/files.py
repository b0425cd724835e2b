"""Small run files for tests, and a module of one's own beside them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from potluck.core.registry import USER_MODULES
from potluck.recipes import Recipe, read

SMALL = """\
rounds = 2
seed = 3

[method]
name = "CoFED"
alpha = 0.4

[data]
source = { name = "generated", samples = 200, features = 6, classes = 3 }
partition = { name = "dirichlet", alpha = 5.0, minimum = 5 }

[data.public]
take = 40

[plan]
lr = 0.01
batch_size = 16

[[participants]]
name = "net"
model = { name = "mlp", hidden = [8] }
count = 2

[[participants]]
name = "tree"
model = { name = "sklearn.tree:DecisionTreeClassifier", max_depth = 3 }
weight = 2.0

[participants.plan]
epochs = 1
"""

NETS = """\
rounds = 2
method = "FedAvg"

[data]
source = { name = "generated", samples = 120, features = 6, classes = 3 }

[plan]
lr = 0.05
batch_size = 16

[[participants]]
name = "net"
model = { name = "mlp", hidden = [8] }
count = 3
"""

MODULE = """\
import numpy as np
from torch import nn

import potluck
from potluck.data import Partition, arrays


def build(input_shape, classes, width: int = 4):
    inputs = int(np.prod(input_shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes))


def load(rows: int = 30, labels=(0, 1, 2)):
    random = np.random.default_rng(1)
    y = random.choice(labels, rows)
    return (random.normal(size=(rows, 6)) + y[:, None]).astype("float32"), y


def source(rows: int = 90):
    return arrays(*load(rows))


def halves(y, participants, seed):
    rows = np.array_split(np.arange(len(y)), participants)
    return Partition(list(rows), [tuple(np.unique(y).tolist())] * participants)


class Alone(potluck.Method):
    often: int = 1

    def round(self, me):
        for _ in range(self.often):
            yield potluck.Fit()


number = 3
"""


def write(folder: Path, text: str = SMALL, name: str = "small.toml") -> Path:
    """A run file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(USER_MODULES, "folders", [])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def read_text(folder: Path, text: str, *changes: str, **settings: Any) -> Recipe:
    """What a run file with this text says, beside the module; perhaps changed as by a command."""
    (folder / "mine.py").write_text(MODULE)
    return read(write(folder, text), changes, settings)
