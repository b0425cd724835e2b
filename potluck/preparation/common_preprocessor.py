"""A preprocessor in common: tables with columns and codes of their own become the same columns of numbers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from potluck.core.errors import DataError, SettingsError
from potluck.methods.column_statistics import categories_in, column, column_names, numbers_in

Scale = Literal["standard", "range", "none"]

SCALED_BY: dict[str, str] = {"standard": "variance", "range": "low"}
"""What a scale is made of."""


class CommonPreprocessor(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer that was made of what all participants disclosed, and learns nothing from one of them.

    Numbers are scaled, and what is missing becomes the common mean; a category becomes a column of zeros and ones for
    each value that was told, all zeros where the value is missing or was not told. A column that a table lacks is
    missing in all its rows.

    Args:
        columns: name → what is known of it, as in ``Description.columns``; by default none.
        scale: "standard" (the default), so that all values together have mean 0 and variance 1; "range", from 0 to 1;
            or "none".
        indicate_missing: whether each column of numbers is followed by one that says where it is missing; by default
            False.
    """

    def __init__(
        self,
        columns: Mapping[str, Mapping[str, Any]] | None = None,
        scale: Scale = "standard",
        indicate_missing: bool = False,
    ) -> None:
        self.columns = columns
        self.scale = scale
        self.indicate_missing = indicate_missing

    def fit(self, X: Any, y: Any = None) -> CommonPreprocessor:  # noqa: N803, scikit-learn's name
        """Checks the settings; there is nothing to learn."""
        if not self.columns:
            raise SettingsError("A CommonPreprocessor has no columns; make it with Description.preprocessor().")
        if self.scale not in ("standard", "range", "none"):
            raise SettingsError(f"scale is {self.scale!r}; expected 'standard', 'range' or 'none'.")
        needed = SCALED_BY.get(self.scale)
        for name, about in self.columns.items():
            if needed is not None and about["kind"] == "number" and about[needed] is None:
                what = "range" if needed == "low" else needed
                raise SettingsError(
                    f"scale is {self.scale!r}, and nobody told the {what} of {name!r}; choose another scale, or have "
                    f"somebody tell it (Disclosure)."
                )
        return self

    def transform(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803, scikit-learn's name
        """The table as numbers, a row for each of its rows."""
        here, made = set(column_names(X)), []
        if here.isdisjoint(self.columns or {}):
            raise DataError(
                f"The table has none of the common columns, so that nothing of it would be left. It has "
                f"{', '.join(sorted(here))}; they are {', '.join(self.columns or {})}."
            )
        for name, about in (self.columns or {}).items():
            values = column(X, name) if name in here else None
            part = self._numbers if about["kind"] == "number" else self._categories
            made.append(part(name, about, values, len(X)))
        return np.concatenate(made, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """The names of the columns that it makes."""
        names: list[str] = []
        for name, about in (self.columns or {}).items():
            if about["kind"] == "number":
                names += [name, f"{name} is missing"] if self.indicate_missing else [name]
            else:
                names += [f"{name}={value}" for value in about["categories"]]
        return np.asarray(names, dtype=object)

    def _numbers(self, name: str, about: Mapping[str, Any], values: Any, rows: int) -> np.ndarray[Any, Any]:
        numbers = np.full(rows, math.nan) if values is None else numbers_in(values)
        if numbers is None:
            raise DataError(f"Column {name!r} holds something that is no number; expected numbers, as at the others.")
        missing = ~np.isfinite(numbers)
        filled = np.where(missing, about["mean"], numbers)
        if self.scale == "standard":
            filled = (filled - about["mean"]) / (math.sqrt(about["variance"]) or 1.0)
        elif self.scale == "range":
            filled = (filled - about["low"]) / ((about["high"] - about["low"]) or 1.0)
        return np.stack([filled, missing] if self.indicate_missing else [filled], axis=1).astype(np.float64)

    def _categories(self, name: str, about: Mapping[str, Any], values: Any, rows: int) -> np.ndarray[Any, Any]:
        known = list(about["categories"])
        texts = np.asarray([None] * rows if values is None else categories_in(values), dtype=object)
        return (
            np.stack([texts == value for value in known], axis=1).astype(np.float64) if known else np.zeros((rows, 0))
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON, which every participant can read."""
        content = {"format": 1, **self.get_params()}
        Path(path).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CommonPreprocessor:
        """Reads what ``save`` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content.pop("format") != 1:
                raise ValueError("it is of another format")
            return cls(**content).fit(None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} holds no common preprocessor: {error}.") from error


READ_PREPROCESSOR = f"{__name__}:read_preprocessor"
"""How a file names what reads one."""


def read_preprocessor(path: str | os.PathLike[str]) -> CommonPreprocessor:
    """Reads what ``CommonPreprocessor.save`` wrote."""
    return CommonPreprocessor.load(path)
