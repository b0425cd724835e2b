"""The results of the demo, as a table and a few sentences, a picture, a page, and the numbers behind them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from potluck.core.history import readable_bytes
from potluck.report import html
from potluck.report.charts import pairs
from potluck.report.comparison import Compared, overall, percent, spread
from potluck.report.rendering import ReportFigure, can_draw
from potluck.report.tables import Table

PICTURE, PAGE, RESULTS = "alone-and-together", "index.html", "results.json"

HOW = (
    "How votes become a gain: each one first trains alone, and says of every public image which digit it sees, if it "
    "is sure. Where more than half of those who know a digit see it, the image gets that digit as its label. Each one "
    "receives the labels of the digits it knows and trains on those images beside its own. Mistakes of one model are "
    "outvoted by models of other kinds, so that the labels are better than each one's own answers, and there are many "
    "more of them than anybody has labelled."
)

GO_ON = """
import potluck

# The model is a torch module, or anything that can fit and predict.
mine = potluck.Participant("mine", my_model, (x, y))
federation = potluck.Federation([mine, *others], potluck.methods.CoFED(), public=x_public, test=(x_test, y_test))
print(federation.run(rounds=1).table())
"""


@dataclass(frozen=True)
class Outcome(Compared):
    """A participant's accuracies, how many samples it held, and for every seed what it sent and received.

    Args:
        samples: how many samples it held.
        labels_received: how many labels it received, for every seed.
        bytes_up: what it sent, for every seed.
        bytes_down: what it received, for every seed.
    """

    samples: int
    labels_received: tuple[int, ...]
    bytes_up: tuple[int, ...]
    bytes_down: tuple[int, ...]


@dataclass(frozen=True)
class DemoResults:
    """What the demo found, and what with.

    Args:
        outcomes: what each participant reached.
        settings: what was run.
        seeds: the seeds.
        seconds: how long it took.
    """

    outcomes: Sequence[Outcome]
    settings: dict[str, Any]
    seeds: Sequence[int]
    seconds: float

    @property
    def mean(self) -> Compared:
        return overall(self.outcomes)

    @property
    def title(self) -> str:
        """The finding, in a line."""
        alone, together = (100 * spread(values)[0] for values in (self.mean.alone, self.mean.together))
        better = f"{self.better} of {len(self.outcomes)} models do better together"
        return f"{better}: {alone:.0f}% → {together:.0f}% on average"

    @property
    def subtitle(self) -> str:
        """What was compared, in a line."""
        seeds = f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}"
        return f"Each brings a different model and knows different digits. Mean ± standard deviation over {seeds}."

    @property
    def better(self) -> int:
        """How many gain, on the mean over the seeds."""
        return sum(spread(outcome.gain)[0] > 0 for outcome in self.outcomes)

    @property
    def sentences(self) -> list[str]:
        """What happened, in plain words."""
        up, down = (fmean(fmean(sent) for sent in sides) for sides in self._bytes())
        labels = fmean(fmean(outcome.labels_received) for outcome in self.outcomes)
        gains = [gain for outcome in self.outcomes for gain in outcome.gain]
        return [
            f"Together, {self.better} of {len(self.outcomes)} read digits better than alone, on average: "
            f"{percent(self.mean.together)}% instead of {percent(self.mean.alone)}%, "
            f"a gain of {percent(self.mean.gain)} points. Seed by seed, {sum(gain > 0 for gain in gains)} of "
            f"{len(gains)} results are better.",
            f"No model and no private image left its owner. Each one sent {readable_bytes(up)} of votes on the "
            f"{self.settings['public images']:,} public images, and received {readable_bytes(down)}: labels for "
            f"{labels:.0f} of them.",
        ]

    @property
    def ordered(self) -> list[Outcome]:
        """The participants, whoever gains most first."""
        return sorted(self.outcomes, key=lambda outcome: -spread(outcome.gain)[0])

    def figure(self, *, titled: bool = False) -> ReportFigure:
        """Each participant's accuracy alone and together; a title inside is for a picture that stands by itself."""
        rows = [
            {
                "who": " · ".join(filter(None, (row.name, row.brings))),
                "alone": 100 * spread(row.alone)[0],
                "alone deviation": 100 * spread(row.alone)[1],
                "together": 100 * spread(row.together)[0],
                "together deviation": 100 * spread(row.together)[1],
            }
            for row in (*self.ordered, self.mean)
        ]
        titles = (self.title, self.subtitle) if titled else ("", "")
        chart = pairs(rows, "alone", "together", "test accuracy in %, on the digits each one knows", *titles)
        return ReportFigure(PICTURE, self.title, self.subtitle, rows, chart)

    def table(self, *, wide: bool = False) -> Table:
        """One row for each participant and one for their mean; ``wide`` adds what each one sent and received."""
        headings = ["who", "brings", "knows", "images", "alone %", "together %", "gain"]
        more = ["labels got", "sent", "received"]
        up, down = self._bytes()
        rows = [
            [
                outcome.name,
                outcome.brings,
                outcome.knows,
                str(outcome.samples),
                *_scores(outcome),
            ]
            + [f"{fmean(outcome.labels_received):.0f}", *_sent(outcome)] * wide
            for outcome in self.ordered
        ]
        means = [f"{fmean(fmean(o.labels_received) for o in self.outcomes):.0f}"]
        means += [readable_bytes(fmean(map(fmean, side))) for side in (up, down)]
        total = ["mean", "", "", f"{fmean(o.samples for o in self.outcomes):.0f}", *_scores(self.mean)]
        return Table(headings + more * wide, rows, total + means * wide, texts=3, even=2, strong=6)

    def numbers(self) -> dict[str, Any]:
        """The numbers, as plain values."""
        return {
            "seeds": list(self.seeds),
            "settings": self.settings,
            "versions": versions(),
            "seconds": round(self.seconds, 1),
            "mean": _numbers(self.mean),
            "participants": [asdict(outcome) | _numbers(outcome) for outcome in self.outcomes],
        }

    def _bytes(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        return [outcome.bytes_up for outcome in self.outcomes], [outcome.bytes_down for outcome in self.outcomes]


def print_results(results: DemoResults, console: Console) -> None:
    """The table and the sentences, in the terminal."""
    console.print()
    console.print(results.table().to_rich())
    for sentence in results.sentences:
        console.print()
        console.print(sentence, highlight=False)
    console.print()


def write_results(results: DemoResults, out: Path) -> list[Path]:
    """The picture, if it can be drawn, the page and the numbers, in a folder. Returns where they are."""
    pictures = results.figure(titled=True).write(out, ["png"]) if can_draw() else []
    drawn = [results.figure()] if can_draw() else []
    numbers = json.dumps(results.numbers(), indent=1, allow_nan=False, ensure_ascii=False)
    (out / RESULTS).write_text(numbers + "\n", encoding="utf-8")
    first, *others = results.sentences
    blocks = [
        html.paragraph(first, lead=True),
        *map(html.paragraph, others),
        *(html.figure(figure.svg(), figure.title, figure.caption) for figure in drawn),
        html.paragraph(HOW),
        html.table(results.table(wide=True), "What each one reached, sent and received"),
        html.paragraph(
            "Accuracy in percent on test images of the digits each one knows; gain in points; mean ± standard "
            "deviation over the seeds. Nothing was chosen on test images."
        ),
        html.section("Settings"),
        html.table(
            Table(["setting", "value"], [[name, str(value)] for name, value in results.settings.items()], texts=2),
            "Settings",
        ),
        html.paragraph(
            f"Seeds {', '.join(map(str, results.seeds))}; {results.seconds:.0f} seconds; "
            + ", ".join(f"{name} {number}" for name, number in versions().items())
            + "."
        ),
        html.section("Your turn"),
        html.paragraph(
            "Bring a model of your own. The demo itself is one short file to learn from: potluck/demo/play.py."
        ),
        html.code(GO_ON),
        html.paragraph("Or without any code: potluck new, then potluck run. potluck methods lists what can be played."),
    ]
    (out / PAGE).write_text(html.page("Potluck demo: everyone brings their own model", blocks), encoding="utf-8")
    return [out / PAGE, *pictures, out / RESULTS]


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    packages = ("potluck-fl", "torch", "scikit-learn", "numpy")
    return {"python": platform.python_version(), **{package: version(package) for package in packages}}


def _scores(row: Compared) -> list[str]:
    return [percent(row.alone), percent(row.together), percent(row.gain, "+")]


def _sent(row: Outcome) -> list[str]:
    """What it sent and received, on average over seeds."""
    return [readable_bytes(fmean(side)) for side in (row.bytes_up, row.bytes_down)]


def _numbers(row: Compared) -> dict[str, Any]:
    columns = {"alone": row.alone, "together": row.together, "gain": row.gain}
    means = {f"{name}_mean": spread(values)[0] for name, values in columns.items()}
    deviations = {f"{name}_deviation": spread(values)[1] for name, values in columns.items()}
    return {**{name: list(values) for name, values in columns.items()}, **means, **deviations}
