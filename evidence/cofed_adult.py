"""CoFED on Adult (section 5.7): 100 participants, 25 each of trees, SVMs, additive models and shallow networks.

Everyone has 200 samples of its own; 5,000 public rows are made of valid values. The paper does not say α, how columns
are coded, or how the classifiers are set: see ``tune`` for α, and docs/evidence/cofed.md for what the rest changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import potluck
from evidence.experiment import Data, Maker, Setup, run
from potluck.methods import CoFED, Local

NUMBERS = (0, 2, 4, 10, 11, 12)
"""The columns of adult.data that hold numbers; 2 is the weight of a row in the census, which says nothing of it."""
CHOICES = (1, 3, 5, 6, 7, 8, 9, 13)
INCOME = 14


@dataclass(frozen=True)
class Table:
    """Numbers first, then a one-hot code for each choice; ``groups`` are the columns of each code."""

    x: NDArray[Any]
    y: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    groups: list[list[int]]


@cache
def adult(folder: Path, weight: bool = False) -> Table:
    """UCI's text files. A missing value ("?") is a choice of its own."""
    train, test = _rows(folder / "adult" / "adult.data"), _rows(folder / "adult" / "adult.test")
    numbers = [column for column in NUMBERS if weight or column != 2]
    parts = [[rows[:, numbers].astype(np.float32)] for rows in (train, test)]
    groups: list[list[int]] = []
    width = len(numbers)
    for column in CHOICES:
        names = np.unique(train[:, column])
        for part, rows in zip(parts, (train, test), strict=True):
            part.append((rows[:, [column]] == names).astype(np.float32))
        groups.append(list(range(width, width + len(names))))
        width += len(names)
    x, x_test = (np.hstack(part) for part in parts)
    rich, rich_test = (np.char.startswith(rows[:, INCOME], ">").astype(int) for rows in (train, test))
    return Table(x, rich, x_test, rich_test, groups)


def _rows(path: Path) -> NDArray[Any]:
    lines = [[cell.strip() for cell in line.split(",")] for line in path.read_text().splitlines()]
    return np.array([line for line in lines if len(line) == INCOME + 1])


def network(input_shape: tuple[int, ...], classes: int) -> Any:
    """A shallow network: one hidden layer."""
    return potluck.models.mlp(input_shape, classes, hidden=(32,), activation="relu")


KINDS: dict[str, Any] = {"tree": DecisionTreeClassifier, "svm": SVC, "additive": "additive", "network": network}
THEIRS: dict[str, Any] = {
    "tree": DecisionTreeClassifier,
    "svm": partial(SVC, gamma=1.0),
    "additive": partial(GradientBoostingClassifier, max_depth=1),
    "network": partial(MLPClassifier, (10,), solver="lbfgs", alpha=0.0, max_iter=1000),
}
"""As the authors' code has them: SVMs with a kernel of scale 1 and networks of ten units, on columns that each
standardises by its own rows, and additive models of boosted stumps."""
PLAN = potluck.Plan(lr=1e-3, epochs=40, batch_size=50)
"""Of the networks; what validation data chose (``python -m evidence.tune adult``)."""
ALPHA = 0.5
"""Likewise."""


def distinct(census: Table, count: int, seed: int) -> NDArray[Any]:
    """Public rows whose columns take each value that occurs equally often."""
    return np.asarray(potluck.data.valid_values(census.x, count, seed, census.groups))


def permuted(census: Table, count: int, seed: int) -> NDArray[Any]:
    """Public rows as the authors' code makes them: each column of real rows permuted by itself, a code's together."""
    rng = np.random.default_rng(seed)
    rows = census.x[rng.choice(len(census.x), count, replace=False)]
    coded = {column for group in census.groups for column in group}
    for columns in [*([column] for column in range(rows.shape[1]) if column not in coded), *census.groups]:
        rows[:, columns] = rows[rng.permutation(count)][:, columns]
    return rows


def table(
    data: Data,
    seed: int,
    method: potluck.Method,
    scaled: bool = True,
    rows: Callable[[Table, int, int], NDArray[Any]] = distinct,
    kinds: dict[str, Any] = KINDS,
    each: int = 25,
    samples: int = 200,
    public: int = 5000,
    plan: potluck.Plan = PLAN,
    validating: bool = False,
) -> Setup:
    """``each`` of every kind, with public ``rows``. ``scaled``: columns run from 0 to 1 on the public rows, which
    everyone can see; else all is as in the census, its weights included. ``validating``: measure on training rows that
    nobody has instead.
    """
    census = adult(data.folder, weight=not scaled)
    made = rows(census, public, seed)
    low, span = made.min(axis=0), np.ptp(made, axis=0)
    shift, factor = (low, np.where(span == 0, 1, span)) if scaled else (np.zeros_like(low), np.ones_like(low))

    def fit(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray((x - shift) / factor, dtype=np.float32)

    order = np.random.default_rng(seed).permutation(len(census.y))
    held, unused = order[: len(kinds) * each * samples], order[len(kinds) * each * samples :]
    own_scale = {"preprocess": StandardScaler()} if kinds is THEIRS else {}
    people = [
        potluck.Participant(
            f"{kind}-{i:02d}", model, (fit(census.x[own]), census.y[own]), labels=(0, 1), plan=plan, **own_scale
        )
        for (kind, model), shares in zip(kinds.items(), np.reshape(held, (len(kinds), each, samples)), strict=True)
        for i, own in enumerate(shares)
    ]
    test = (census.x[unused], census.y[unused]) if validating else (census.x_test, census.y_test)
    federation = potluck.Federation(people, method, public=fit(made), seed=seed)
    about = {"public": public, "private": samples, "plan": repr(plan), "scaled": scaled, "rows": rows.__name__}
    return Setup(federation, 1, (fit(test[0]), test[1]), about=about, saving=None)


def cofed(**settings: Any) -> CoFED:
    """Section 5.7 has no batches of 1,000: the networks keep their own."""
    return CoFED(**{"alpha": ALPHA, "update_batch_size": None, "class_weighted": False} | settings)


SETTINGS: dict[str, Maker] = {
    "local": partial(table, method=Local()),
    "cofed": partial(table, method=cofed()),
    "cofed-weighted": partial(table, method=cofed(class_weighted=True)),
    "cofed-alpha-0.3": partial(table, method=cofed(alpha=0.3)),
    "raw-local": partial(table, method=Local(), scaled=False),
    "raw-cofed": partial(table, method=cofed(), scaled=False),
    "permuted-local": partial(table, method=Local(), rows=permuted),
    "permuted-cofed": partial(table, method=cofed(), rows=permuted),
    "theirs-local": partial(table, method=Local(), kinds=THEIRS),
    "theirs-cofed": partial(table, method=cofed(), kinds=THEIRS),
    "theirs-permuted-local": partial(table, method=Local(), rows=permuted, kinds=THEIRS),
    "theirs-permuted-cofed": partial(table, method=cofed(), rows=permuted, kinds=THEIRS),
}

if __name__ == "__main__":
    run("cofed_adult", SETTINGS)
