"""Which participant, or which round, has how many rows of each class: a table of counts, and a plot of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, PotluckError, SettingsError, how_to_install
from potluck.core.labels import LabelSpace, label_space
from potluck.core.window import Window
from potluck.data.partition import Partition
from potluck.data.sampling import as_labels

KINDS = (".pdf", ".png", ".svg")
_KINDS = ".pdf, .png or .svg"

_PALE, _BLUE, _DARK, _GREY = "#d6e6f4", "#4a98c9", "#12447a", "#eeeeee"


@dataclass(frozen=True, eq=False)
class Holdings:
    """How many rows of each class each participant has.

    Args:
        names: the participants.
        classes: the classes, sorted.
        counts: ``counts[i, j]`` rows of ``classes[j]`` belong to participant ``names[i]``.
    """

    names: tuple[str, ...]
    classes: LabelSpace
    counts: NDArray[Any]


def holdings(partition: Partition, y: Any, names: Sequence[str] | None = None) -> Holdings:
    """Counts the rows of each class that each participant has. Without names they are numbered from 0.

    Args:
        partition: who has which rows.
        y: the labels of all rows that the partition was made from.
        names: the participants' names; by default they are numbered from 0.
    """
    y = as_labels(y, "y")
    people = len(partition.indices)
    names = [str(number) for number in range(people)] if names is None else names
    if len(names) != people:
        raise DataError(f"{len(names)} names for {people} participants; expected one for each.")
    last = max((int(share.max()) for share in partition.indices if len(share)), default=-1)
    if last >= len(y):
        raise DataError(
            f"The partition has row {last}, y has {len(y)} rows; expected the y that the partition was made from."
        )
    classes, codes = np.unique(y, return_inverse=True)
    counts = [np.bincount(codes[share], minlength=len(classes)) for share in partition.indices]
    return Holdings(tuple(names), label_space(classes, "y"), np.array(counts))


def plot_partition(partition: Partition, y: Any, path: str | Path, names: Sequence[str] | None = None) -> Path:
    """Plots a partition to a PDF, PNG or SVG: a tile for each participant and class, bars for the totals.

    Args:
        partition: who has which rows.
        y: the labels of all rows that the partition was made from.
        path: where the picture goes; its ending says the format.
        names: the participants' names; by default they are numbered from 0.
    """
    held = holdings(partition, y, names)
    own = np.array([[label in space for label in held.classes] for space in partition.labels])
    title = f"Who holds what: {len(held.names)} participants, {len(held.classes)} classes, {held.counts.sum():,} rows"
    below = "participant" if own.all() else "participant (grey: not among its classes)"
    return _saved(path, held, own, title, below)


def plot_window(window: Window, y: Any, rounds: int, path: str | Path) -> Path:
    """Plots to a PDF, PNG or SVG how many rows of each class a participant with a ``Window`` trains on in each round.

    Args:
        window: which of its rows it has in a round.
        y: the labels of all its rows, in the order of time.
        rounds: how many rounds are shown.
        path: the file.
    """
    classes, codes = np.unique(as_labels(y, "y"), return_inverse=True)
    numbers = range(1, rounds + 1)
    counts = [np.bincount(codes[window.rows(number, len(codes)).numpy()], minlength=len(classes)) for number in numbers]
    held = Holdings(tuple(map(str, numbers)), label_space(classes, "y"), np.array(counts))
    title = f"What it trains on: {window.size} rows, {window.step} further on in each of {rounds} rounds"
    return _saved(path, held, np.ones(held.counts.shape, dtype=bool), title, "round")


def plot_path(path: str | Path) -> Path:
    """Where a plot goes, once it is known that the file's name says one of the kinds there are."""
    path = Path(path)
    if path.suffix.lower() not in KINDS:
        raise SettingsError(f"The file of a plot is named {path.name!r}; expected a name that ends in {_KINDS}.")
    return path


def _saved(path: str | Path, held: Holdings, own: NDArray[Any], title: str, below: str) -> Path:
    path = plot_path(path)
    figure = _draw(held, own, title, below)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return path


def _draw(held: Holdings, own: NDArray[Any], title: str, below: str) -> Any:
    try:
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PotluckError(f"Plots need matplotlib: {how_to_install('plots')}") from error

    people, kinds = held.counts.shape
    wide, high = max(0.15, min(9 / people, 0.9)), max(0.2, min(5 / kinds, 0.45))  # inches of a tile
    figure = Figure(figsize=(max(people * wide, 2) + 2.8, kinds * high + 2.4), layout="constrained")
    bars, tiles = figure.subplots(2, 1, sharex=True, height_ratios=[0.8, kinds * high])
    middles, totals, most = np.arange(people) + 0.5, held.counts.sum(axis=1), max(held.counts.max(), 1)

    bars.bar(middles, totals, width=0.8, color=_BLUE)
    bars.set_ylabel("rows")
    bars.tick_params(bottom=False, labelbottom=False, labelsize=7)
    bars.spines[["top", "right", "bottom"]].set_visible(False)
    bars.set_title(title, loc="left", fontsize=11)

    line = {"edgecolors": "white", "linewidth": 0.6}
    tiles.pcolormesh(np.ma.masked_where(own, own).T, cmap=ListedColormap([_GREY]), **line)
    blues = LinearSegmentedColormap.from_list("rows", [_PALE, _BLUE, _DARK])
    shown = tiles.pcolormesh(np.ma.masked_equal(held.counts, 0).T, cmap=blues, vmin=0, vmax=most, **line)
    if wide >= 0.3:
        for person, kind in np.argwhere(held.counts):
            count = held.counts[person, kind]
            colour = "white" if count > 0.45 * most else _DARK
            tiles.text(person + 0.5, kind + 0.5, f"{count}", ha="center", va="center", fontsize=7, color=colour)
    fitting = max(len(name) + 1 for name in held.names) * 0.065 < wide
    tiles.set_xticks(middles, held.names, rotation=0 if fitting else 90, fontsize=7)
    tiles.set_yticks(np.arange(kinds) + 0.5, [str(label) for label in held.classes], fontsize=8)
    tiles.set_xlabel(below)
    tiles.set_ylabel("class")
    tiles.tick_params(length=0)
    tiles.spines[:].set_visible(False)
    tiles.invert_yaxis()
    scale = figure.colorbar(shown, ax=tiles, label="rows of the class", pad=0.01, aspect=30)
    scale.ax.tick_params(labelsize=7)
    scale.outline.set_visible(False)
    return figure
