"""Adult: incomes by a census, from UCI's text files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, SettingsError, how_to_install
from potluck.data.sets.catalog import ADULT
from potluck.data.sets.published import Download, Files, need, open_set
from potluck.data.sets.subset import some_rows
from potluck.data.source import Source

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
"""The columns of numbers, but for fnlwgt: how many people a row stands for, which says nothing about it."""


def adult(
    encoded: bool = True,
    train: int | None = None,
    test: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: Download = False,
) -> Source:
    """Adult: who earns more than 50,000 dollars a year ("<=50K", ">50K"), 32,561 and 16,281 rows of a census.

    Args:
        encoded: True for numbers as they are, then a column of 0 and 1 for each choice of the others, where "?" is a
            choice, too; without fnlwgt. False for all columns as a DataFrame (the extra pandas). By default True.
        train: how many training rows, both classes in proportion; by default all.
        test: how many test rows; by default all.
        seed: what the choice of rows derives from; by default 0.
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether it is downloaded if it is not there; by default False.
    """

    def read(files: Files) -> Source:
        contents = need(files, *ADULT.patterns, owner=ADULT)
        (x, y), (x_test, y_test) = map(_rows, contents, ADULT.patterns)
        if encoded:
            choices = {name: np.unique(x[name]) for name in COLUMNS if name not in (*NUMBERS, "fnlwgt")}
            return Source("adult", _encoded(x, choices), y, _encoded(x_test, choices), y_test)
        return Source("adult", _frame(x), y, _frame(x_test), y_test)

    return some_rows(open_set(ADULT, read, data_dir, download), train, test, seed)


def _rows(content: bytes, name: str) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """The columns as text, and the incomes; adult.test begins with a remark, and ends incomes with a dot."""
    lines = [[cell.strip() for cell in line.split(",")] for line in content.decode("ascii", "replace").splitlines()]
    rows = np.array([line for line in lines if len(line) == len(COLUMNS) + 1])
    if not len(rows):
        raise DataError(f"{name} has no row of {len(COLUMNS) + 1} cells with commas between them.")
    incomes = np.char.rstrip(rows[:, -1], ".")
    if strange := sorted(set(incomes.tolist()) - {"<=50K", ">50K"}):
        raise DataError(f"{name}: the income {strange[0]!r}; expected '<=50K' or '>50K'.")
    return dict(zip(COLUMNS, rows.T, strict=False)), incomes


def _encoded(columns: dict[str, NDArray[Any]], choices: dict[str, NDArray[Any]]) -> NDArray[Any]:
    numbers = [columns[name].astype(np.float32)[:, None] for name in NUMBERS]
    return np.hstack(
        [*numbers, *((columns[name][:, None] == known).astype(np.float32) for name, known in choices.items())]
    )


def _frame(columns: dict[str, NDArray[Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise SettingsError(f"A table is made with pandas: {how_to_install('pandas')}") from error
    numbers = (*NUMBERS, "fnlwgt")
    return pd.DataFrame(
        {name: column.astype(np.int64) if name in numbers else column for name, column in columns.items()}
    )
