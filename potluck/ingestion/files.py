"""Files as data: tables (.csv, .parquet), arrays (.npz), folders of images; in the forms that participants take."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from potluck.core.errors import DataError, SettingsError, how_to_install, nearest
from potluck.ingestion.images import ImageFolder

TABLES = (".csv", ".parquet")
ARRAYS = (".npz",)


def reader_of(path: Path) -> str | None:
    """The name of the function here that reads such a file, or a folder; None for what is neither."""
    suffix = path.suffix.lower()
    if suffix in TABLES:
        return "read_table"
    if suffix in ARRAYS:
        return "read_arrays"
    return "read_images" if path.is_dir() else None


def read_table(
    path: str | Path,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> Any:
    """A table of a file, as a DataFrame, and which of its columns is the target.

    Args:
        path: a .csv or a .parquet file.
        target: the column that holds the targets; by default none does.
        weight: the column that holds the samples' weights; by default none does.
        drop: columns that are left out, such as names.
        categories: columns that are categories, for estimators that ask for it; by default text stays text.
        missing: texts that stand for a missing value, such as "?", beside an empty cell, "NA" and the like.
    """
    frame = _frame(Path(path).expanduser(), list(missing))
    for name in (*drop, *categories, *filter(None, (target, weight))):
        if name not in frame.columns:
            raise DataError(f"{path} has no column {name!r}.{nearest(name, map(str, frame.columns))}")
    frame = frame.drop(columns=list(drop)).astype(dict.fromkeys(categories, "category"))
    return (frame, target) if weight is None else (frame, target, weight)


def read_arrays(path: str | Path, target: str | None = None, weight: str | None = None) -> Any:
    """Arrays of an .npz file: the inputs ``x``, or several inputs by their names; the targets. Nothing is unpickled.

    Args:
        path: the file.
        target: the array that holds the targets; by default "y", if there is one.
        weight: the array that holds the samples' weights; by default none does.
    """
    path = Path(path).expanduser()
    found = npz_arrays(path)
    for name in filter(None, (target, weight)):
        if name not in found:
            raise DataError(f"{path} holds no array {name!r}.{nearest(name, found)}")
    y = found.pop(target or "y", None)
    weights = None if weight is None else found.pop(weight)
    if not found:
        raise DataError(f"{path} holds nothing but {target or 'y'!r}; expected the inputs, too, as 'x'.")
    x = found["x"] if set(found) == {"x"} else found
    return (x, y) if weights is None else (x, y, weights)


def read_images(path: str | Path, size: tuple[int, int] | None = None, mode: str = "RGB") -> ImageFolder:
    """A folder of images, one folder for each label: ``path/cat/1.png``.

    Args:
        path: the folder.
        size: height and width that all images are brought to; by default None, for those they have.
        mode: "RGB" (the default), "L" for shades of grey, or another of Pillow's modes.
    """
    return ImageFolder(path, size, mode)


def _frame(path: Path, missing: list[str]) -> Any:
    parquet = path.suffix.lower() == ".parquet"
    try:
        import pandas as pd

        if parquet:
            import pyarrow  # noqa: F401
    except ImportError as error:
        extra = "parquet" if parquet else "pandas"
        raise SettingsError(f"{path} is read with {error.name}: {how_to_install(extra)}") from error
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r} (looked for {path.absolute()}).")
    try:
        if not parquet:
            return pd.read_csv(path, na_values=missing)
        frame = pd.read_parquet(path)
        return frame.mask(frame.isin(missing)) if missing else frame
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a table: {error}") from error


def npz_arrays(path: Path, wanted: Container[str] | None = None) -> dict[str, Any]:
    """Every key of an .npz file, with its array; of those that are not wanted, None: a file may hold much else."""
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r} (looked for {path.absolute()}).")
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds a single array")
        with file:
            return {name: file[name] if wanted is None or name in wanted else None for name in file.files}
    except Exception as error:  # whatever numpy meets in a damaged file, down to its tokenizer
        raise DataError(f"{path} cannot be read as an .npz file of plain arrays: {error}") from error
