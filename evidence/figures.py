"""Draws the figures of the evidence's pages from the results."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evidence.outcomes import Outcome, Results, gains, measured
from evidence.result_files import RESULTS
from evidence.titles import FEDIN_TITLES, NAMES

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PAPER, INK, SOFT, LINE = "#fbfaf7", "#22303a", "#6c7780", "#e4dfd5"
COLOURS = {
    "local": "#a8b3b9",
    "fd": "#3f6f8c",
    "mhat": "#d9593a",
    "fedavg": "#3f6f8c",
    "without-prox": "#d9a441",
    "fedin": "#d9593a",
}
TITLES = NAMES | FEDIN_TITLES


def panels(count: int, height: float = 2.7) -> tuple[Figure, list[Any]]:
    """Plain axes side by side."""
    figure = Figure(figsize=(2.6 * count + 0.6, height), dpi=150, facecolor=PAPER, layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(1, count)))
    for one in axes:
        one.set_facecolor(PAPER)
        one.grid(color=LINE, lw=0.8)
        one.tick_params(length=0, labelsize=8, labelcolor=SOFT)
        for side in one.spines.values():
            side.set_visible(False)
    return figure, axes


def curves(axes: Any, name: str, outcomes: list[Outcome]) -> None:
    """One line for each seed."""
    for number, outcome in enumerate(outcomes):
        scores = measured(outcome)
        label = TITLES[name] if number == 0 else None
        axes.plot(list(scores), [100 * score for score in scores.values()], color=COLOURS[name], lw=1.1, label=label)


def finish(axes: Any, title: str, across: str, up: str = "") -> None:
    axes.set_title(title, size=9, color=INK)
    axes.set_xlabel(across, size=8, color=SOFT)
    axes.set_ylabel(up, size=8, color=SOFT)


def mhat(results: Results) -> Figure:
    """Accuracy by rounds, for each part of MHAT's Table 1."""
    figure, axes = panels(4)
    places = [(labels, participants) for labels in ("labelled", "unlabelled") for participants in (3, 20)]
    for one, (labels, participants) in zip(axes, places, strict=True):
        for name in ("local", "fd", "mhat"):
            curves(one, name, results.of("mhat_mnist", f"{name}-{labels}-{participants}"))
        one.set_ylim(89, 96)
        finish(one, f"{labels}, {participants} participants", "round", "test accuracy, %" if one is axes[0] else "")
    axes[0].legend(fontsize=8, frameon=False, labelcolor=INK)
    return figure


def fedin(results: Results) -> Figure:
    """Accuracy by rounds with 100 participants, and with ten for as many rounds as the paper has."""
    figure, axes = panels(4)
    places = {
        "CIFAR-10, full scale": "",
        "the same, own BatchNorm statistics": "parameters-",
        "CIFAR-10, 100 narrow networks": "narrow-whole-",
        "Fashion-MNIST, 10 narrow networks": "narrow-long-",
    }
    for one, (title, kind) in zip(axes, places.items(), strict=True):
        for name in ("fedavg", "without-prox", "fedin"):
            curves(one, name, results.of("fedin_cifar", f"{kind}{name}"))
        finish(one, title, "round", "test accuracy, %" if one is axes[0] else "")
    axes[0].legend(fontsize=8, frameon=False, labelcolor=INK)
    return figure


def cofed(results: Results) -> Figure:
    """Every participant's gain, from the least to the most, under the first seed."""
    shown = {
        "CIFAR-100, non-IID": ("cofed_cifar", "non-iid-local", "non-iid-cofed"),
        "Adult, scaled columns": ("cofed_adult", "local", "cofed"),
        "Adult, columns as in the census": ("cofed_adult", "raw-local", "raw-cofed"),
    }
    figure, axes = panels(len(shown))
    for one, (title, (experiment, alone, together)) in zip(axes, shown.items(), strict=True):
        reference, outcome = results.of(experiment, alone)[0], results.of(experiment, together)[0]
        found = 100 * np.sort(list(gains(outcome, reference).values()))
        one.bar(range(len(found)), found, width=0.85, color=["#7f97a3" if gain <= 0 else "#d9593a" for gain in found])
        one.axhline(found.mean(), color=INK, lw=1, ls="--")
        finish(one, title, "participants", "gain over Local, %" if one is axes[0] else "")
    return figure


FIGURES: dict[str, Callable[[Results], Figure]] = {"mhat-and-fd": mhat, "cofed-gains": cofed, "fedin-and-fedavg": fedin}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.figures", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--images", type=Path, default=IMAGES)
    chosen = parser.parse_args()
    chosen.images.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        draw(Results(chosen.results)).savefig(chosen.images / f"evidence-{name}.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
