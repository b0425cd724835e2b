"""A picture of a history: one metric, round by round."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.core.errors import DataError, PotluckError, SettingsError, how_to_install, nearest
from potluck.report.colours import LIGHT, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from potluck.core.history import History

KINDS = (".pdf", ".png", ".svg")
PAPER, INK, SOFT, LINE, COLOUR = LIGHT["paper"], LIGHT["ink"], LIGHT["soft"], LIGHT["line"], SERIES[0]
DPI = 200


BY = {"round": "round", "bytes": "bytes sent and received by all", "simulated": "simulated seconds"}
"""What a metric may be drawn by."""


def need_matplotlib() -> None:
    """Raises PotluckError where matplotlib is missing, before any work is done in vain."""
    if find_spec("matplotlib") is None:
        raise PotluckError(f"Pictures need matplotlib, which is not installed: {how_to_install('plots')}")


def draw_progress(history: History, metric: str, path: Path | None, by: str = "round") -> Figure:
    """A line for the mean over participants, in a band from the lowest to the highest."""
    if by not in BY:
        raise SettingsError(f"by is {by!r}.{nearest(by, BY)}")
    if path is not None and path.suffix.lower() not in KINDS:
        raise SettingsError(f"A picture named {path.name!r}; expected a name that ends in {', '.join(KINDS)}.")
    need_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    places = _places(history, by)
    found = [(places[number], values) for number, values in history.values(metric) if values]
    rounds = [place for place, _ in found]
    means = [sum(values) / len(values) for _, values in found]
    lowest, highest = [min(values) for _, values in found], [max(values) for _, values in found]

    figure = Figure(figsize=(7, 4), dpi=DPI, facecolor=PAPER, layout="constrained")
    axes = figure.add_subplot(facecolor=PAPER)
    axes.fill_between(rounds, lowest, highest, color=COLOUR, alpha=0.18, lw=0, label="lowest to highest")
    axes.plot(rounds, means, color=COLOUR, lw=2, marker="o" if len(rounds) < 2 else None, label="mean")
    axes.set_xlabel(BY[by], color=SOFT)
    axes.set_ylabel(metric.replace("_", " "), color=SOFT)
    axes.set_title(f"{len(found[-1][1])} participants", loc="left", color=INK, fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=by != "simulated"))
    axes.tick_params(length=0, labelcolor=SOFT)
    axes.grid(axis="y", color=LINE, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, labelcolor=SOFT)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    return figure


def _places(history: History, by: str) -> dict[int, float]:
    """Where each round stands on the axis."""
    if by == "simulated":
        late = dict(history.simulated_seconds())
        if len(late) < history.rounds:
            raise DataError("No time was simulated; give the federation a `clock`, or draw by round or bytes.")
        return dict(late)
    places, sent = dict[int, float](), 0
    for row in history.recorded():
        sent += row["bytes_up"] + row["bytes_down"]
        places[row["round"]] = sent if by == "bytes" else row["round"]
    return places
