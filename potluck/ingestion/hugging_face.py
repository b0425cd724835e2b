"""Hugging Face datasets: rows of tensors and pictures, or a table where all columns are plain values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from potluck.ingestion.tables import is_text


def is_hugging_face(data: Any) -> bool:
    """Whether data are a Hugging Face dataset, or a dict of several."""
    return all(hasattr(data, name) for name in ("column_names", "with_format", "num_rows"))


class HuggingFaceRows:
    """A Hugging Face dataset's rows as arrays, pictures with their channels first, unless its owner chose a format.

    Args:
        data: the dataset.
    """

    def __init__(self, data: Any) -> None:
        chosen = data.format["type"] in ("torch", "numpy", "custom")
        self._rows = data if chosen else data.with_format("numpy", columns=data.format["columns"])
        self._pictures = {name for name, kind in data.features.items() if type(kind).__name__ == "Image"}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: self._part(name, part) for name, part in self._rows[index].items()}

    def _part(self, name: str, part: Any) -> Any:
        last = name in self._pictures and isinstance(part, np.ndarray) and part.ndim == 3
        return np.moveaxis(part, 2, 0) if last else part


def is_table(data: Any, without: Collection[Any] = ()) -> bool:
    """Whether all of a dataset's inputs are plain values: numbers, texts, categories.

    Args:
        data: anything; what is no single Hugging Face dataset is no such table.
        without: the names of columns that are no inputs.
    """
    if not is_hugging_face(data) or isinstance(data, dict) or data.num_rows is None:
        return False
    kinds = [data.features[name] for name in data.format["columns"] if name not in without]
    return bool(kinds) and all(type(kind).__name__ in ("Value", "ClassLabel") for kind in kinds)


def as_frame(data: Any) -> Any:
    """A dataset of plain values as a DataFrame of pandas."""
    return data.select_columns(data.format["columns"]).to_pandas()


def texts_alone(frame: Any) -> Any:
    """Of a frame with nothing but texts in one column these texts, as an estimator reads them; or else the frame."""
    column = frame.iloc[:, 0].to_numpy(dtype=object)
    return column if len(frame.columns) == 1 and is_text(column) else frame
