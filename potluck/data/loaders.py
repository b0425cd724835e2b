"""Where data comes from: sets found by name, files, and arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, SettingsError, nearest
from potluck.core.registry import Registry, call
from potluck.data.sampling import as_labels
from potluck.data.source import Source, held_out
from potluck.data.synthetic import generated, generated_images
from potluck.ingestion.files import TABLES, npz_arrays, read_table

__all__ = ["SOURCES", "Source", "arrays", "digits", "generated", "generated_images", "load", "npz", "table"]

_PLAIN = ("x_train", "y_train", "x_test", "y_test")
_COARSE = ("y_coarse_train", "y_coarse_test")


def digits(test_share: float = 0.25, seed: int = 0) -> Source:
    """The 1,797 handwritten digits that come with scikit-learn: 8×8 pixels, float32 in [0, 1]."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = (found.images[:, None] / 16).astype(np.float32)
    return held_out("digits", images, found.target, test_share, seed)


def arrays(x: Any, y: Any, x_test: Any = None, y_test: Any = None, test_share: float = 0.25, seed: int = 0) -> Source:
    """Arrays in memory. Without test rows a share is split off, every class in proportion."""
    if (x_test is None) != (y_test is None):
        given, missing = ("y_test", "x_test") if x_test is None else ("x_test", "y_test")
        raise DataError(f"{given} is given but {missing} is not; expected both or none.")
    if x_test is None:
        return held_out("arrays", np.asarray(x), as_labels(y, "y"), test_share, seed)
    return Source("arrays", x, y, x_test, y_test)


def npz(path: str | Path) -> Source:
    """A file of arrays ``x_train, y_train, x_test, y_test``; images of bytes get their channels first.

    ``y_coarse_train, y_coarse_test``, if present, are the labels, and ``y_*`` the finer ones; ``w_train`` are
    groups. Other arrays are ignored, and nothing is unpickled.
    """
    path = Path(path).expanduser()
    found = npz_arrays(path, {*_PLAIN, *_COARSE, "w_train"})
    coarse = any(key in found for key in _COARSE)
    missing = [key for key in (*_PLAIN, *(_COARSE if coarse else ())) if key not in found]
    if missing:
        held = ", ".join(sorted(found)) or "nothing"
        raise DataError(f"{path} lacks {', '.join(missing)}; it holds {held}.")
    x, x_test = _channels_first(found["x_train"]), _channels_first(found["x_test"])
    y, y_test, groups = found["y_train"], found["y_test"], found.get("w_train")
    if not coarse:
        return Source(path.stem, x, y, x_test, y_test, groups=groups)
    y_coarse, y_coarse_test = found["y_coarse_train"], found["y_coarse_test"]
    return Source(path.stem, x, y_coarse, x_test, y_coarse_test, fine=y, fine_test=y_test, groups=groups)


def table(
    path: str | Path,
    target: str,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    missing: Sequence[str] = (),
    group: str | None = None,
    test_share: float = 0.25,
    seed: int = 0,
) -> Source:
    """A table in a .csv or .parquet file, of which a share is split off for tests; ``target`` is its column of labels.

    ``drop`` are columns that are left out, ``categories`` those that are categories, ``missing`` texts that stand for a
    missing value. ``group`` is the column that says whose a row is, such as its hospital, for the partition "by-group";
    it is no input.
    """
    frame, _ = read_table(path, target, None, drop, categories, missing)
    if group is not None and group not in frame.columns:
        raise DataError(f"{path} has no column {group!r}.{nearest(group, map(str, frame.columns))}")
    groups = None if group is None else as_labels(frame.pop(group), group)
    y = as_labels(frame.pop(target), target)
    return held_out(Path(path).stem, frame, y, test_share, seed, groups=groups)


SOURCES = Registry(
    "data", {"digits": digits, "npz": npz, "table": table, "generated": generated, "generated-images": generated_images}
)
"""Data sources by name; another package adds one under the entry point group ``potluck.data``."""


def load(name: str, **settings: Any) -> Source:
    """A source by its name, by a file (``"folder/mine.npz"``, ``"mine.csv"``) or by ``"package.module:callable"``."""
    kind = file_kind(name)
    source = call(name, SOURCES[name], settings) if kind is None else call(kind, SOURCES[kind], settings, path=name)
    if not isinstance(source, Source):
        raise SettingsError(f"{name!r} gave a {type(source).__name__}; expected a potluck.data.Source.")
    return source


def file_kind(name: str) -> str | None:
    """Which source reads a file of that name; None where it names no file."""
    if name.endswith(".npz"):
        return "npz"
    return "table" if name.endswith(TABLES) else None


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    if x.dtype == np.uint8 and x.ndim == 3:
        return x[:, None]
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(np.moveaxis(x, 3, 1))
    return x
