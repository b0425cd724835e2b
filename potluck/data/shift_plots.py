"""A plot of a feature shift: what each participant sees of the same images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, PotluckError, how_to_install
from potluck.data.plots import plot_path
from potluck.data.shifts import shift


def plot_shift(
    kind: str, x: Any, participants: int, path: str | Path, seed: int = 0, images: int = 6, **settings: Any
) -> Path:
    """Plots the first images as every participant sees them, a row for each, to a PDF, PNG or SVG.

    Args:
        kind: the name of a shift.
        x: images: (rows, channels, height, width), with one channel or three.
        participants: how many participants there are.
        path: the file.
        seed: as for ``shift``; by default 0.
        images: how many images; by default 6.
        settings: the shift's own settings.
    """
    path, some = plot_path(path), np.asarray(x)[:images]
    if some.ndim != 4 or some.shape[1] not in (1, 3):
        raise DataError(f"x has shape {np.asarray(x).shape}; expected images of one or three channels.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PotluckError(f"Plots need matplotlib: {how_to_install('plots')}") from error

    seen = [shift(kind, some, number, participants, seed, **settings) for number in range(participants)]
    figure = Figure(figsize=(len(some) * 0.9 + 0.6, participants * 0.9 + 0.4), layout="constrained")
    axes = figure.subplots(participants, len(some), squeeze=False)
    low, high = min(float(one.min()) for one in seen), max(float(one.max()) for one in seen)
    for number, (row, own) in enumerate(zip(axes, seen, strict=True)):
        for axis, image in zip(row, own, strict=True):
            axis.imshow(_pixels(image, low, high), cmap="gray", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(str(number), rotation=0, ha="right", va="center", fontsize=8)
    figure.suptitle(f"What {participants} participants see under {kind}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


def _pixels(image: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    """An image with its channels last, in 0 to 1."""
    scaled: NDArray[Any] = (np.moveaxis(image, 0, -1) - low) / max(high - low, 1e-12)
    return scaled[..., 0] if scaled.shape[-1] == 1 else scaled
