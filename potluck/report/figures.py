"""Figures. They need matplotlib, which is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from potluck.core.errors import PotluckError, how_to_install
from potluck.report.comparison import Compared, overall, spread

PAPER, INK, SOFT, LINE = "#fbfaf7", "#22303a", "#6c7780", "#e4dfd5"
ALONE, TOGETHER = "#7f97a3", "#d9593a"
WIDTH, ROW, HEAD, FOOT, DPI = 9.0, 0.41, 1.3, 0.65, 200  # in inches
NAME, BRINGS, KNOWS, LEFT, RIGHT, GAIN = 0.03, 0.125, 0.29, 0.42, 0.9, 0.97  # places across the picture
APART = 0.1  # so that whiskers do not cover each other


NO_MATPLOTLIB = f"Pictures need matplotlib, which is not installed: {how_to_install('plots')}"


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    return find_spec("matplotlib") is not None


def need_matplotlib() -> None:
    """Raises PotluckError where matplotlib is missing, before any work is done in vain."""
    if not has_matplotlib():
        raise PotluckError(NO_MATPLOTLIB)


def alone_and_together(rows: Sequence[Compared], path: Path, title: str, subtitle: str = "") -> None:
    """A PNG with each participant's accuracy alone and together, connected by a line.

    The largest gain is at the top, the mean at the bottom; whiskers are the deviation over seeds.

    Args:
        rows: the participants.
        path: where the PNG goes.
        title: the title.
        subtitle: a line under it; by default none.
    """
    need_matplotlib()
    from matplotlib.figure import Figure

    ordered = [overall(rows), *sorted(rows, key=lambda row: spread(row.gain)[0])]
    height = ROW * len(ordered) + HEAD + FOOT
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=PAPER)
    axes = figure.add_axes((LEFT, FOOT / height, RIGHT - LEFT, 1 - (HEAD + FOOT) / height), facecolor=PAPER)
    _frame(axes, ordered)
    for place, row in enumerate(ordered):
        _dumbbell(axes, place, row)
        _words(figure, axes, place, row)
    _headings(figure, axes, ordered[-1], len(ordered) - 0.42)
    figure.text(NAME, 1 - 0.42 / height, title, size=15, weight="bold", color=INK, va="center")
    figure.text(NAME, 1 - 0.74 / height, subtitle, size=9.5, color=SOFT, va="center")
    figure.savefig(path, metadata={"Software": None})


def _frame(axes: Any, rows: Sequence[Compared]) -> None:
    from matplotlib.ticker import MultipleLocator

    lows = [100 * (mean - deviation) for row in rows for mean, deviation in (spread(row.alone), spread(row.together))]
    axes.set_xlim(max(0, min(lows) // 10 * 10) - 1, 101)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0, labelsize=9, labelcolor=SOFT)
    axes.xaxis.set_major_locator(MultipleLocator(10))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")
    axes.set_xlabel("test accuracy on the classes each one knows", size=9, color=SOFT)
    axes.grid(axis="x", color=LINE, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _dumbbell(axes: Any, place: int, row: Compared) -> None:
    ends = ((row.alone, place - APART, ALONE), (row.together, place + APART, TOGETHER))
    means = [100 * spread(values)[0] for values, _, _ in ends]
    axes.plot(means, [height for _, height, _ in ends], color=TOGETHER, alpha=0.22, lw=4.5, zorder=1)
    for values, height, color in ends:
        mean, deviation = (100 * number for number in spread(values))
        axes.plot([mean - deviation, mean + deviation], [height, height], color=color, lw=1.5, zorder=2)
        axes.scatter([mean], [height], s=70, color=color, edgecolor=PAPER, lw=0.8, zorder=3)


def _words(figure: Any, axes: Any, place: int, row: Compared) -> None:
    across = _across(figure, axes)

    def say(x: float, text: str, **looks: Any) -> None:
        axes.text(x, place, text, transform=across, va="center", **looks)

    say(NAME, row.name, size=10.5, weight="bold", color=INK)
    say(BRINGS, row.brings, size=9.5, color=SOFT)
    say(KNOWS, row.knows, size=9, color=SOFT, family="monospace")
    say(GAIN, f"{100 * spread(row.gain)[0]:+.1f}", size=11, weight="bold", color=TOGETHER, ha="right")


def _headings(figure: Any, axes: Any, first: Compared, height: float) -> None:
    """Headings for the dots of the top row and for the columns. A line separates the mean."""
    across = _across(figure, axes)
    for x, text, side in ((BRINGS, "brings", "left"), (KNOWS, "knows", "left"), (GAIN, "gain", "right")):
        axes.text(x, height, text, transform=across, size=9, color=SOFT, ha=side, va="bottom")
    axes.plot([NAME, GAIN], [0.5, 0.5], transform=across, color=LINE, lw=1.5, clip_on=False, zorder=0)
    for values, text, color in ((first.alone, "alone", ALONE), (first.together, "together", TOGETHER)):
        axes.text(100 * spread(values)[0], height, text, size=9.5, weight="bold", color=color, ha="center", va="bottom")


def _across(figure: Any, axes: Any) -> Any:
    """Coordinates across the whole figure, at the height of a row."""
    from matplotlib.transforms import blended_transform_factory

    return blended_transform_factory(figure.transFigure, axes.transData)
