"""What the participants of these tests bring: named in their files as ``tests.flower.things:…``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import potluck
from tests import tables

SHAPE = tables.SHAPE


def data(seed: int, rows: int = 24) -> Any:
    """Some images of three classes."""
    return tables.made_data(rows, seed)


def test() -> Any:
    """Everybody's test images."""
    return tables.made_data(40, 91)


test.__test__ = False  # type: ignore[attr-defined]


def public(rows: int = 30) -> potluck.data.Source:
    """Images that all may see."""
    x, y = tables.made_data(rows, 90)
    x_test, y_test = tables.made_data(10, 92)
    return potluck.data.Source("made", x, y, x_test, y_test)


# The first weights of these are drawn from the federation's seed.


def cnn(input_shape: tuple[int, ...], classes: int, width: int = 4) -> nn.Module:
    return tables.cnn(None, width, classes)


def deep_cnn(input_shape: tuple[int, ...], classes: int, blocks: int = 1) -> nn.Module:
    return tables.deep_cnn(None, blocks, classes)


def mlp(input_shape: tuple[int, ...], classes: int, hidden: int = 8) -> nn.Module:
    return tables.mlp(None, hidden, classes)


class Marked(nn.Module):
    """Leaves a mark in a folder at every forward pass in training, and waits while a file of that name is there.

    So a test knows that a participant is at work, and can hold it there.
    """

    def __init__(self, folder: str, classes: int) -> None:
        super().__init__()
        self.inner = mlp((), classes)
        self.folder = Path(folder)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and torch.is_grad_enabled():  # not where its code is only tried out
            (self.folder / f"at-work-{os.getpid()}").touch()
            while (self.folder / "hold").exists():
                time.sleep(0.05)
            if (self.folder / "raise").exists():
                raise RuntimeError("a secret of the participant's")
        logits: torch.Tensor = self.inner(x)
        return logits


def marked(input_shape: tuple[int, ...], classes: int, folder: str) -> nn.Module:
    """A model that a test can hold up."""
    return Marked(folder, classes).double()


class Nan(potluck.methods.FedAvg):
    """FedAvg at which one participant sends what is not finite."""

    def shared(self, me: potluck.Participant) -> dict[str, torch.Tensor]:
        spoilt = me.name == "p1" and me.round == 1
        return {n: e * float("nan") if spoilt and e.is_floating_point() else e for n, e in super().shared(me).items()}


class Endless(potluck.Method):
    """A participant that never comes to an end."""

    def round(self, me: potluck.Participant) -> Any:
        while True:
            yield potluck.Exchange("again", potluck.Payload({"x": torch.zeros(2)}))

    @potluck.exchange(lambda self, server, sender: potluck.Schema({"x": potluck.TensorSpec((2,))}), repeats=True)
    def again(self, server: Any, answers: Iterator[Any]) -> potluck.Payload:
        list(answers)
        return potluck.Payload()
