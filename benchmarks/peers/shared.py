"""What every contestant reads and writes, so that all train one model on one set of data.

A folder holds ``federation.json`` (the settings), ``x.npy`` and ``y.npy`` (participants × samples × …) and
``start.npz`` (the weights to start from). This file needs torch and numpy alone: it runs beside any library.
"""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shared:
    """A federation: its settings, everybody's data, and the weights that all start from."""

    settings: dict[str, Any]
    x: Tensor
    y: Tensor
    start: dict[str, Tensor]

    @staticmethod
    def read(folder: Path) -> Shared:
        settings = json.loads((folder / "federation.json").read_text())
        start = {name: torch.from_numpy(entry) for name, entry in np.load(folder / "start.npz").items()}
        x, y = (torch.from_numpy(np.load(folder / f"{name}.npy")) for name in "xy")
        return Shared(settings, x, y, start)

    def model(self) -> nn.Module:
        """The model with its first weights."""
        model = {"MLP": mlp, "CNN": cnn}[self.settings["model"]]()
        model.load_state_dict(self.start)
        return model

    def optimizer(self) -> type[torch.optim.Optimizer]:
        return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[self.settings["optimizer"]]


def mlp() -> nn.Module:
    """784-256-64-10 with tanh."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 10))


def cnn() -> nn.Module:
    """Convolutions of 24 and 40 channels, each with max-pooling, and a linear layer, for images of 3×32×32."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 24, 3, padding=1),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(24, 40, 3, padding=1),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc=nn.Linear(40 * 8 * 8, 10),
        )
    )


def arguments(about: str) -> argparse.ArgumentParser:
    """The options of every contestant: where the federation is, how many rounds, and where to write the results."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    return parser


def write(out: Path, seconds: list[float], weights: dict[str, Any]) -> None:
    """The seconds of each round, and the weights after the last."""
    np.savez(out.with_suffix(".npz"), **{name: np.asarray(entry) for name, entry in weights.items()})
    out.write_text(json.dumps({"seconds": seconds}))
