"""FEMNIST by writer, from the JSON files that LEAF makes, or from the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from potluck.core.errors import DataError
from potluck.data.sets.catalog import FEMNIST
from potluck.data.sets.published import Download, Files, open_set
from potluck.data.sets.subset import some_groups
from potluck.data.source import Source

_SIDE = 28


def femnist(
    writers: int | None = None,
    min_samples: int = 1,
    seed: int = 0,
    data_dir: str | Path | None = None,
    download: Download = False,
) -> Source:
    """FEMNIST: handwritten digits and letters, 28×28 bytes, 62 classes, in groups by writer.

    The labels are LEAF's: 0 to 9, then A to Z, then a to z. Ink is dark on white.

    Args:
        writers: how many writers, drawn; by default all.
        min_samples: how many training images a writer has at least; by default 1.
        seed: what the choice of writers derives from; by default 0.
        data_dir: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: whether it is downloaded if it is not there, from the Hugging Face hub; by default False.
    """
    return some_groups(open_set(FEMNIST, _leaf, data_dir, download), writers, min_samples, seed, "writers")


def _leaf(files: Files) -> Source:
    """From ``train/*.json`` and ``test/*.json``, which LEAF's ``preprocess.sh`` writes."""
    parts = []
    for half in ("train", "test"):
        contents = {path: content for path, content in files.items() if _half(path) == half}
        if not contents:
            raise DataError(
                f"femnist has no {half} files among {', '.join(sorted(files)[:5])}; expected train/all_data….json and "
                f"test/all_data….json, as LEAF's preprocess.sh writes them with -t sample."
            )
        parts.append([np.concatenate(column) for column in zip(*map(_writers, contents.items()), strict=True)])
    (x, y, groups), (x_test, y_test, groups_test) = parts
    return Source("femnist", x, y, x_test, y_test, groups=groups, groups_test=groups_test)


def _half(path: str) -> str:
    """ "train" or "test", by the folder that a file is in, or by its name; "" where neither says it."""
    *folders, name = path.split("/")
    said = [half for half in ("train", "test") if half in folders] or [h for h in ("train", "test") if f"_{h}_" in name]
    return said[0] if said else ""


def _writers(file: tuple[str, bytes]) -> tuple[Any, Any, Any]:
    """Images as bytes, labels, and whose each is, of one file."""
    path, content = file
    try:
        found = json.loads(content)
        data = [(name, found["user_data"][name]) for name in found["users"]]
        x = np.concatenate([np.array(own["x"], dtype=np.float64).reshape(-1, 1, _SIDE, _SIDE) for _, own in data])
        y = np.concatenate([np.array(own["y"], dtype=np.int64) for _, own in data])
        groups = np.repeat([name for name, _ in data], [len(own["y"]) for _, own in data])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no file of LEAF's: {type(error).__name__}: {error}.") from error
    if len(x) != len(y) or x.min() < 0 or x.max() > 1:
        raise DataError(f"{path} holds {len(x)} images from {x.min():g} to {x.max():g} and {len(y)} labels.")
    return np.rint(255 * x).astype(np.uint8), y, groups
