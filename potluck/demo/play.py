"""The demo: eight offices, eight kinds of models, and handwritten digits that nobody knows all of.

Every office has labelled three images of each digit it knows, brings a model of its own kind, and keeps both to
itself. All of them see the same images without labels. First everyone trains alone (Local). Then, from the
same start, they vote on the public images and learn from what enough of them agree on (CoFED).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from potluck import data
from potluck.core.errors import SettingsError
from potluck.core.history import History
from potluck.core.plan import Plan
from potluck.core.randomness import derive, seeded
from potluck.demo.page import DemoResults, Outcome, print_results, write_results
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.methods import CoFED, Local
from potluck.report.rendering import NO_CHARTS, can_draw

EXAMPLES = 3
"""How many images of each digit it knows an office has labelled."""

ALONE = Local()
TOGETHER = CoFED(alpha=0.5, margin=0.3, update_batch_size=32, update_epochs=10)
"""More than half of those who know a digit must have said it; whoever is unsure keeps silent."""

# How the settings were chosen: never on test images. A quarter of the training images served as validation data
# (`data.arrays(source.x, source.y)` in the place of `source`), with seeds 100 to 104, which the demo does not show.
# First each model's settings, among a few usual values, for its accuracy ALONE, so that nobody starts handicapped.
# Then CoFED's: alpha of 0.3, 0.5, 0.6, 0.75; margin of 0, 0.3; batches of 32, 128, 1000; 5, 10, 20, 40 epochs.
# EXAMPLES is given, not chosen: offices with little data. 3, 4, 5 and 8 of them gain 11.5, 8.9, 7.4 and 4.5 points on
# the validation images. A second training alone gains nothing there, so what is gained comes from the others.


def one_hidden_layer(classes: int) -> nn.Module:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes))


def small_cnn(classes: int) -> nn.Module:
    """A network with one convolution."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 4 * 4, classes)
    )


def deeper_cnn(classes: int) -> nn.Module:
    """A network with three convolutions, each with BatchNorm."""

    def block(before: int, after: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, stride, padding=1), nn.BatchNorm2d(after), nn.ReLU()]

    layers = [*block(1, 16), *block(16, 32, stride=2), *block(32, 32), nn.AdaptiveAvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 2 * 2, classes))


def boosted_trees(_: int) -> GradientBoostingClassifier:
    """Each tree of it sees some of the pixels."""
    return GradientBoostingClassifier(max_features="sqrt")


@dataclass(frozen=True)
class Office:
    """A participant: its name, its model (a function that makes one for so many classes), the digits it knows.

    Args:
        name: its name.
        brings: its model, in words.
        model: makes its model, for so many classes.
        digits: the digits it knows.
        plan: how its network trains; by default None, for other models, which train in their own way.
    """

    name: str
    brings: str
    model: Callable[[int], Any]
    digits: tuple[int, ...]
    plan: Plan | None = None  # how a network trains; other models train in their own way


# Every digit is known to four or five of them, and no two know the same digits.
OFFICES = (
    Office("bank", "decision tree", lambda _: DecisionTreeClassifier(), (0, 1, 2, 3, 4, 5)),
    Office("post", "SVM", lambda _: SVC(), (2, 3, 4, 5, 6, 7, 8)),
    Office("school", "MLP", one_hidden_layer, (0, 3, 4, 6, 8), Plan(lr=0.003, epochs=50, batch_size=16)),
    Office("library", "small CNN", small_cnn, (1, 3, 5, 7, 9), Plan(lr=0.003, epochs=100, batch_size=16)),
    Office("court", "deeper CNN", deeper_cnn, (0, 1, 5, 6, 7, 8, 9), Plan(lr=0.01, epochs=25, batch_size=16)),
    Office("clinic", "gradient boosting", boosted_trees, (0, 2, 6, 7, 8, 9)),
    Office("museum", "nearest neighbour", lambda _: KNeighborsClassifier(1), (1, 2, 4, 7, 9)),
    Office("harbour", "logistic model", lambda _: LogisticRegression(max_iter=1000), (0, 1, 2, 5, 8, 9)),
)


def participants_of(source: data.Source, seed: int) -> tuple[list[Participant], Any]:
    """The participants, with their labelled images, and the public images: all others, without their labels."""
    rng = np.random.default_rng(seed)
    unused = {digit: rng.permutation(np.flatnonzero(source.y == digit)).tolist() for digit in source.labels}
    participants = []
    for office in OFFICES:
        rows = [unused[digit].pop() for digit in office.digits for _ in range(EXAMPLES)]
        with seeded(derive(seed, office.name)):  # a network's first weights are random, too
            model = office.model(len(office.digits))
        data_of = (source.x[rows], source.y[rows])
        participants.append(Participant(office.name, model, data_of, plan=office.plan, metrics=["accuracy"]))
    public = source.x[sorted(row for rows in unused.values() for row in rows)]
    return participants, public


def run_federation(method: Method, source: data.Source, seed: int) -> History:
    """The history of one federation. The test images only test, each participant on the digits it knows."""
    participants, public = participants_of(source, seed)
    test = (source.x_test, source.y_test)
    return Federation(participants, method, public=public, test=test, seed=seed, device="cpu").run(rounds=1)


def run_demo(out: Path, seeds: int = 5, console: Console | None = None) -> DemoResults:
    """Runs both methods with seeds 0, 1, …, prints the results, and writes them to the folder ``out``."""
    if seeds < 1:
        raise SettingsError(f"seeds is {seeds}; expected at least 1.")
    out.mkdir(parents=True, exist_ok=True)
    console = console or Console()
    began = perf_counter()
    source = data.digits()
    alone: list[History] = []
    together: list[History] = []
    with one_thread(), Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("Alone, then together", total=2 * seeds)
        for seed in range(seeds):
            for method, histories in ((ALONE, alone), (TOGETHER, together)):
                histories.append(run_federation(method, source, seed))
                progress.advance(task)
    outcomes = [outcome(office, alone, together) for office in OFFICES]
    results = DemoResults(outcomes, settings(source), range(seeds), perf_counter() - began)
    print_results(results, console)
    for path in write_results(results, out):
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    if not can_draw():
        console.print(f"drew no picture. {NO_CHARTS}", highlight=False, markup=False, soft_wrap=True)
    return results


def outcome(office: Office, alone: list[History], together: list[History]) -> Outcome:
    """What the histories say of one participant."""

    def column(histories: list[History], name: str) -> tuple[Any, ...]:
        return tuple(row[name] for history in histories for row in history.rows() if row["participant"] == office.name)

    return Outcome(
        office.name,
        office.brings,
        "".join(str(digit) if digit in office.digits else "·" for digit in range(10)),
        alone=column(alone, "accuracy"),
        together=column(together, "accuracy"),
        samples=EXAMPLES * len(office.digits),
        labels_received=column(together, "received"),
        bytes_up=column(together, "bytes_up"),
        bytes_down=column(together, "bytes_down"),
    )


def settings(source: data.Source) -> dict[str, Any]:
    """The settings of the demo, for the reader."""
    held = EXAMPLES * sum(len(office.digits) for office in OFFICES)
    return {
        "data": source.name,
        "labelled images of each known digit": EXAMPLES,
        "public images": len(source.x) - held,
        "test images": len(source.x_test),
        "alone": repr(ALONE),
        "together": repr(TOGETHER),
        **{f"{office.name} brings": described(office) for office in OFFICES},
    }


def described(office: Office) -> str:
    """A participant's model, with its settings."""
    plan = office.plan
    if plan is None:
        return repr(office.model(len(office.digits)))
    return f"{office.brings}: {plan.optimizer}, rate {plan.lr}, {plan.epochs} epochs, batches of {plan.batch_size}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Models this small train faster on one core: with more, the cores mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
