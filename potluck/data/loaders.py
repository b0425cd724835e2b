"""Where data comes from: the digits that are always there, files, and arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, nearest
from potluck.data.sampling import as_labels, as_values
from potluck.data.source import Source, held_out
from potluck.ingestion.files import npz_arrays, read_table

_PLAIN = ("x_train", "y_train", "x_test", "y_test")
_COARSE = ("y_coarse_train", "y_coarse_test")


def digits(test_share: float = 0.25, seed: int = 0) -> Source:
    """The 1,797 handwritten digits that come with scikit-learn: 8×8 pixels, float32 in [0, 1].

    Args:
        test_share: which share of the images is for tests; by default a quarter.
        seed: what decides which these are; by default 0.
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    images = (found.images[:, None] / 16).astype(np.float32)
    return held_out("digits", images, found.target, test_share, seed)


def arrays(
    x: Any,
    y: Any,
    x_test: Any = None,
    y_test: Any = None,
    test_share: float = 0.25,
    seed: int = 0,
    values: bool = False,
) -> Source:
    """Arrays in memory. Without test rows a share is split off, every class in proportion.

    Args:
        x: the inputs.
        y: their targets.
        x_test: the test inputs; by default None.
        y_test: their targets; by default None.
        test_share: the share of test rows, where none are given; by default a quarter.
        seed: what the draws derive from; by default 0.
        values: whether the targets are values, as regression has them, and no labels; by default False.
    """
    if (x_test is None) != (y_test is None):
        given, missing = ("y_test", "x_test") if x_test is None else ("x_test", "y_test")
        raise DataError(f"{given} is given but {missing} is not; expected both or none.")
    if x_test is None:
        targets = as_values(y, "y") if values else as_labels(y, "y")
        return held_out("arrays", np.asarray(x), targets, test_share, seed, values=values)
    return Source("arrays", x, y, x_test, y_test, values=values)


def npz(path: str | Path, values: bool = False) -> Source:
    """A file of arrays ``x_train, y_train, x_test, y_test``; images of bytes get their channels first.

    ``y_coarse_train, y_coarse_test``, if present, are the labels, and ``y_*`` the finer ones; ``w_train, w_test`` are
    groups. Other arrays are ignored, and nothing is unpickled.

    Args:
        path: the file.
        values: whether the targets are values, as regression has them, and no labels; by default False.
    """
    path = Path(path).expanduser()
    found = npz_arrays(path, {*_PLAIN, *_COARSE, "w_train", "w_test"})
    coarse = any(key in found for key in _COARSE)
    missing = [key for key in (*_PLAIN, *(_COARSE if coarse else ())) if key not in found]
    if missing:
        held = ", ".join(sorted(found)) or "nothing"
        raise DataError(f"{path} lacks {', '.join(missing)}; it holds {held}.")
    x, x_test = _channels_first(found["x_train"]), _channels_first(found["x_test"])
    y, y_test, groups, groups_test = found["y_train"], found["y_test"], found.get("w_train"), found.get("w_test")
    if not coarse:
        return Source(path.stem, x, y, x_test, y_test, groups=groups, groups_test=groups_test, values=values)
    y_coarse, y_coarse_test = found["y_coarse_train"], found["y_coarse_test"]
    return Source(path.stem, x, y_coarse, x_test, y_coarse_test, y, y_test, groups, groups_test)


def table(
    path: str | Path,
    target: str,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
    group: str | None = None,
    test_share: float = 0.25,
    seed: int = 0,
    values: bool = False,
) -> Source:
    """A table in a .csv or .parquet file, of which a share is split off for tests.

    Args:
        path: the file.
        target: the column of labels, or of values.
        drop: columns that are left out; by default none.
        categories: columns that are categories; by default none.
        missing: texts that stand for a missing value; by default none but the usual ones.
        group: the column that says whose a row is, such as its hospital, for the partition "by-group"; it is no input.
            By default none does.
        test_share: the share of test rows; by default a quarter.
        seed: what the draws derive from; by default 0.
        values: whether the targets are values, as regression has them, and no labels; by default False.
    """
    frame, _ = read_table(path, target, None, drop, categories, missing)
    if group is not None and group not in frame.columns:
        raise DataError(f"{path} has no column {group!r}.{nearest(group, map(str, frame.columns))}")
    groups = None if group is None else as_labels(frame.pop(group), group)
    y = (as_values if values else as_labels)(frame.pop(target), target)
    return held_out(Path(path).stem, frame, y, test_share, seed, groups=groups, values=values)


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype == np.uint8 and x.ndim == 3:
        return x[:, None]
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(np.moveaxis(x, 3, 1))
    return x
