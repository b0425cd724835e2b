"""Small federations for tests: data made on the spot, networks that train in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn

import potluck
from potluck import models
from potluck.core.history import Row
from potluck.core.metrics import OF_VALUES
from potluck.models.exits import ExitNetwork

SHAPE = (1, 6, 6)


def made_data(
    rows: int, seed: int, classes: Iterable[int] = range(3), dtype: str = "float64"
) -> tuple[np.ndarray, np.ndarray]:
    """Images whose class shows as a bright row, under noise."""
    random = np.random.default_rng(seed)
    y = random.choice(list(classes), rows)
    x = random.normal(size=(rows, *SHAPE))
    x[np.arange(rows), 0, y % SHAPE[1]] += 2.0
    return x.astype(dtype), y


def cnn(seed: int | None, width: int = 4, classes: int = 3, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A convolutional network with BatchNorm, whose statistics every engine must keep right."""
    _seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width * 36, classes),
    ).to(dtype)


def deep_cnn(seed: int | None, blocks: int = 1, classes: int = 3, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A convolutional network with inner layers, whose features have one shape at any depth."""
    _seed(seed)
    layers: list[nn.Module] = []
    for channels in (1, *[4] * blocks):
        layers += [nn.Conv2d(channels, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, classes)).to(dtype)


def headed_cnn(seed: int | None, classes: int = 3, dtype: torch.dtype = torch.float64) -> nn.Module:
    """A convolutional network with as many features before its head as ``mlp`` has."""
    _seed(seed)
    body = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(body, nn.Linear(108, 8), nn.Tanh(), nn.Linear(8, classes)).to(dtype)


def mlp(seed: int | None, hidden: int = 8, classes: int = 3, dtype: torch.dtype = torch.float64) -> nn.Module:
    _seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, hidden), nn.Tanh(), nn.Linear(hidden, classes)).to(dtype)


def slim_cnn(rate: float = 1.0) -> nn.Module:
    """A convolutional network of one family of any width, as HeteroFL has them."""
    return models.cnn(SHAPE, 3, channels=(4,), norm=True, rate=rate, scale=True)


def exit_mlp(seed: int | None, exits: int, width: int) -> nn.Module:
    """Linear layers of one width with an exit after each, as ScaleFL has them."""
    _seed(seed)
    inputs = [36] + [width] * (exits - 1)
    steps = {f"step{j}": nn.Sequential(nn.Flatten(), nn.Linear(n, width), nn.Tanh()) for j, n in enumerate(inputs)}
    return ExitNetwork(steps, {name: nn.Linear(width, 3) for name in steps}).double()


def narrow_mlp() -> nn.Module:
    """A common model with a feature that is narrower than everybody's."""
    return mlp(None, 4)


def narrow_cnn() -> nn.Module:
    """A convolutional network without settings, which a server can be told of by its name."""
    return cnn(None, 2)


def narrow_regressor() -> nn.Module:
    """The same for one number."""
    return mlp(None, 4, 1)


def _seed(seed: int | None) -> None:
    """None leaves it to who draws the first weights from another seed."""
    if seed is not None:
        torch.manual_seed(seed)


PLAN = potluck.Plan(optimizer="sgd", lr=0.05, momentum=0.9, epochs=2, batch_size=8)


def participants(
    models: Iterable[Any], *, sizes: Iterable[int] = (24, 31, 17, 40, 9), plan: potluck.Plan = PLAN, **settings: Any
) -> list[potluck.Participant]:
    """One participant for each model, with unequal amounts of data and one label space."""
    dtype = settings.pop("dtype", "float64")
    return [
        potluck.Participant(f"p{i}", model, made_data(size, i, dtype=dtype), plan=plan, labels=range(3), **settings)
        for i, (model, size) in enumerate(zip(models, sizes, strict=False))
    ]


def agree(ours: list[Row], theirs: list[Row], tolerance: float) -> None:
    """Two histories are the same but for the seconds."""
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for key, value in mine.items():
            if key in ("loss", *OF_VALUES) and value is not None:
                np.testing.assert_allclose(value, other[key], rtol=tolerance, atol=tolerance)
            elif key != "seconds":
                assert value == other[key], (key, value, other[key])


def weights_agree(ours: Iterable[potluck.Participant], theirs: Iterable[potluck.Participant], tolerance: float) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        for (name, entry), (_, same) in zip(mine.weights().items(), other.weights().items(), strict=True):
            torch.testing.assert_close(entry, same, rtol=tolerance, atol=tolerance, msg=name)


def row(round: Any, participant: Any, accuracy: float | None, up: Any = 0, down: Any = 0, **more: Any) -> Row:
    """A row of a history."""
    loss = None if accuracy is None else 1 - accuracy
    sent = {"bytes_up": up, "bytes_down": down, "seconds": 0.25}
    return {"round": round, "participant": participant, "accuracy": accuracy, "loss": loss, **sent, **more}


def cells(table: str, name: str) -> list[str]:
    """The cells of the line that begins with a name."""
    line = next(line for line in table.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")]
