"""A picture of a history: one metric, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from potluck.core.errors import SettingsError
from potluck.report.figures import DPI, INK, LINE, PAPER, SOFT, TOGETHER, need_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from potluck.core.history import History

KINDS = (".pdf", ".png", ".svg")


def draw_progress(history: History, metric: str, path: Path | None) -> Figure:
    """A line for the mean over participants, in a band from the lowest to the highest."""
    if path is not None and path.suffix.lower() not in KINDS:
        raise SettingsError(f"A picture named {path.name!r}; expected a name that ends in {', '.join(KINDS)}.")
    need_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    found = [(number, values) for number, values in history.values(metric) if values]
    rounds = [number for number, _ in found]
    means = [sum(values) / len(values) for _, values in found]
    lowest, highest = [min(values) for _, values in found], [max(values) for _, values in found]

    figure = Figure(figsize=(7, 4), dpi=DPI, facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot(facecolor=PAPER)
    axes.fill_between(rounds, lowest, highest, color=TOGETHER, alpha=0.18, lw=0, label="lowest to highest")
    axes.plot(rounds, means, color=TOGETHER, lw=2, marker="o" if len(rounds) < 2 else None, label="mean")
    axes.set_xlabel("round", color=SOFT)
    axes.set_ylabel(metric.replace("_", " "), color=SOFT)
    axes.set_title(f"{len(found[-1][1])} participants", loc="left", color=INK, fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(length=0, labelcolor=SOFT)
    axes.grid(axis="y", color=LINE, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=SOFT)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    return figure
