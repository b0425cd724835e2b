"""Participants after a small federation, whose models are exported in tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import potluck
from potluck.models import build
from tests.tables import SHAPE, made_data, mlp

LABELS = ("ill", "unclear", "well")
TEST = made_data(40, 91, dtype="float32")


def named(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures whose labels are text."""
    x, y = made_data(rows, seed, dtype="float32")
    return x, np.asarray(LABELS)[y]


def after_a_run(method: potluck.Method, *models: Any, rounds: int = 1, **settings: Any) -> list[potluck.Participant]:
    """Participants with these models, by default three small networks, after some rounds."""
    people = [
        potluck.Participant(f"p{place}", model, named(24 + place, place), test=named(30, 90), labels=LABELS, **settings)
        for place, model in enumerate(models or (own_mlp, own_mlp, own_mlp))
    ]
    public = made_data(20, 92, dtype="float32")[0]
    needs = method.requires().public != "nothing"
    potluck.Federation(people, method, public=public if needs else None, engine="serial", device="cpu").run(rounds)
    return people


def own_mlp(input_shape: tuple[int, ...], classes: int) -> Any:
    """A network with names that an owner could give."""
    assert input_shape == SHAPE
    return mlp(None, classes=classes).float()


def wide_mlp(input_shape: tuple[int, ...], classes: int) -> Any:
    """A network whose feature is as wide as that of a common model."""
    return build("mlp", input_shape, classes, hidden=[128, 128])


def patients(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """A table with numbers, a category and a column of labels that follow from them."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": random.normal(50, 10, rows), "pressure": random.normal(120, 15, rows)})
    frame["ward"] = pd.Categorical(random.choice(["north", "south"], rows))
    frame["state"] = np.where(frame["age"] + 20 * (frame["ward"] == "north") > 60, "ill", "well")
    return frame
