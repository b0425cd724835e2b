"""Gets a data set from the Hugging Face hub, and keeps it as a file of arrays."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from potluck.core.errors import DataError, SettingsError, how_to_install
from potluck.data.sets.catalog import HubSet, PublishedSet
from potluck.data.sets.download import RECORD, UnreachableError, offline

TEST_EVERY = 10
"""Of a set without test rows every tenth row of each group is one, as in LEAF: 90% and 10%."""


def download_from_hub(published: PublishedSet, folder: Path) -> Path:
    """The file of arrays that a data set's columns on the hub make, in that folder; made if it is not there.

    Beside it is written down which files came, of which commit, and the checksum of what was made of them.
    """
    place = folder / f"{published.name}.npz"
    if place.is_file():
        return place
    if offline():
        raise UnreachableError("POTLUCK_OFFLINE or HF_HUB_OFFLINE is set, so nothing is downloaded")
    hub = published.hub
    assert hub is not None, "who asks for a data set of the hub knows that it is there"
    splits = _splits(hub)
    parts = [_columns(split, hub, published.name) for split in splits]
    train, test = parts if len(parts) == 2 else _parted(parts[0])
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{place.name}.unfinished"
    with draft.open("wb") as written:
        np.savez(written, **_named(train, "train"), **_named(test, "test"))
        written.flush()
        os.fsync(written.fileno())
    with draft.open("rb") as made:
        checksum = hashlib.file_digest(made, "sha256").hexdigest()
    draft.replace(place)
    entry = {
        "files": sorted({path for split in splits for path in split.info.download_checksums or ()}),
        "sha256": checksum,
        "bytes": place.stat().st_size,
        "checksum": "of what came: none of all is published",
    }
    (folder / f"hub-{RECORD}").write_text(json.dumps({place.name: entry}, indent=1) + "\n", encoding="utf-8")
    return place


def _splits(hub: HubSet) -> list[Any]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise SettingsError(f"The hub is asked with datasets: {how_to_install('hub')}") from error
    try:
        return [load_dataset(hub.repository, hub.configuration, split=split) for split in hub.splits]
    except Exception as error:  # of its own, of the hub's client, of the network
        reason = str(error).partition("\n")[0]
        raise UnreachableError(f"the hub's {hub.repository} cannot be had: {type(error).__name__}: {reason}") from error


def _columns(rows: Any, hub: HubSet, name: str) -> dict[str, Any]:
    if missing := sorted(set(hub.columns.values()) - set(rows.column_names)):
        raise DataError(f"{name} on the hub has no column {missing[0]!r}; it has {', '.join(rows.column_names)}.")
    found = {ours: rows[theirs] for ours, theirs in hub.columns.items()}
    found["x"] = np.stack([np.asarray(image) for image in found["x"]])
    return {ours: np.asarray(column) for ours, column in found.items()}


def _parted(rows: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of each group every tenth row, for tests, and the others."""
    place = np.empty(len(rows["y"]), dtype=np.int64)
    for group in np.unique(rows["groups"]):
        own = rows["groups"] == group
        place[own] = np.arange(own.sum())
    test = place % TEST_EVERY == TEST_EVERY - 1
    return {name: column[~test] for name, column in rows.items()}, {name: column[test] for name, column in rows.items()}


_ARRAYS = {"x": "x", "y": "y", "coarse": "y_coarse", "groups": "w"}
"""What a file of arrays calls our columns."""


def _named(columns: dict[str, Any], part: str) -> dict[str, Any]:
    return {f"{_ARRAYS[name]}_{part}": column for name, column in columns.items()}
