"""Heart Disease by hospital, from UCI's text files, prepared and split as FLamby's Fed-Heart-Disease."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.sets.catalog import HEART_DISEASE, HOSPITALS
from potluck.data.sets.published import Download, Files, need, open_set
from potluck.data.source import Source

NUMBERS, PAIN, ECG, ILLNESS = (0, 1, 3, 4, 5, 7, 8, 9), 2, 6, 13
"""The columns that are used: numbers, two choices, and how ill somebody is; 10 to 12 are mostly unknown."""
_CELLS = 14


def heart_disease(data_dir: str | Path | None = None, download: Download = False) -> Source:
    """Heart Disease: who is ill (1) or not (0), by 13 findings, in groups by hospital: 303, 261, 46 and 130 patients.

    As FLamby prepares it (https://github.com/owkin/FLamby): three columns that are mostly unknown, and patients with
    gaps in others, are left out; kinds of chest pain and of electrocardiograms are columns of 0 and 1; 66% of each
    hospital's patients are for training. Numbers are as they were measured, so that a network needs a scale:
    ``preprocess = "sklearn.preprocessing:StandardScaler"``, by which each hospital has its own.

    Args:
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether it is downloaded if it is not there; by default False.
    """
    return open_set(HEART_DISEASE, _hospitals, data_dir, download)


def _hospitals(files: Files) -> Source:
    contents = zip(HOSPITALS, need(files, *HEART_DISEASE.patterns, owner=HEART_DISEASE), strict=True)
    tables = {hospital: _patients(content, f"processed.{hospital}.data") for hospital, content in contents}
    rows = np.concatenate(list(tables.values()))
    hospitals = np.repeat(list(tables), [len(table) for table in tables.values()])
    choices = [rows[:, [column]] == np.unique(rows[:, column])[1:] for column in (PAIN, ECG)]
    x, y = np.hstack([rows[:, NUMBERS], *choices]).astype(np.float32), (rows[:, ILLNESS] != 0).astype(np.int64)
    test = np.concatenate([_held_out((table[:, ILLNESS] != 0).astype(int)) for table in tables.values()])
    return Source(
        "heart-disease", x[~test], y[~test], x[test], y[test], groups=hospitals[~test], groups_test=hospitals[test]
    )


def _patients(content: bytes, name: str) -> NDArray[Any]:
    """The patients of a hospital of whom all columns that are used are known."""
    lines = [line for line in csv.reader(content.decode("ascii", "replace").splitlines()) if line]
    if not lines or any(len(line) != _CELLS for line in lines):
        raise DataError(f"{name}: expected rows of {_CELLS} cells with commas between them.")
    used = [*range(10), ILLNESS]
    whole = [line for line in lines if not any(line[column].strip() == "?" for column in used)]
    try:
        return np.array([[float(cell) if cell.strip() != "?" else np.nan for cell in line] for line in whole])
    except ValueError as error:
        raise DataError(f"{name}: {error}; expected numbers, and ? for what is not known.") from error


def _held_out(ill: NDArray[Any]) -> NDArray[Any]:
    """Which patients FLamby holds out: 34%, as ill as the others where both kinds are more than two."""
    from sklearn.model_selection import train_test_split

    both = np.bincount(ill, minlength=2).min() > 2
    _, test = train_test_split(
        np.arange(len(ill)), test_size=1 - 0.66, train_size=0.66, random_state=43, stratify=ill if both else None
    )
    return np.isin(np.arange(len(ill)), test)
