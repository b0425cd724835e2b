"""A published data set from this machine's files, downloaded before where that is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from potluck.core.errors import DataError, nearest
from potluck.data.loaders import npz
from potluck.data.sets.catalog import CATALOG, PublishedSet
from potluck.data.sets.download import Progress, UnreachableError, download
from potluck.data.sets.folders import VARIABLE, array_file, data_dir, files_in, folders_of, holds
from potluck.data.sets.hub import download_from_hub
from potluck.data.source import Source

Files = dict[str, bytes]
"""The path of each file inside its folder, and its content."""
Download = bool | Literal["hub"]
"""Whether a data set that is not here is downloaded, and whether from the hub."""
SetOrigin = Literal["original", "hub"]

_log = logging.getLogger(__name__)


def open_set(
    published: PublishedSet,
    read: Callable[[Files], Source],
    folder: str | Path | None = None,
    download: Download = False,
) -> Source:
    """The source that a data set's files make.

    Args:
        published: the data set.
        read: makes a source of its files, as they were published.
        folder: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        download: True to download it if it is not here, from its original address or, if it has none, from the hub;
            "hub" to take it from there. By default False.
    """
    root = data_dir(folder)
    if (found := _from_here(published, read, root)) is not None:
        return found
    if not download:
        raise DataError(f"{_missing(published, root)} {_how(published)}")
    _log.warning("Downloading %s (%s). Licence: %s.", published.title, published.home, published.licence)
    get_set(published, folder, "hub" if download == "hub" or not published.files else "original")
    if (found := _from_here(published, read, root)) is None:
        raise DataError(f"{published.name} was downloaded, and yet {_missing(published, root)}")
    return found


def get_set(
    published: PublishedSet,
    folder: str | Path | None = None,
    origin: SetOrigin = "original",
    progress: Progress | None = None,
) -> Path:
    """Downloads a data set, unless it is here; returns its folder.

    Args:
        published: the data set.
        folder: where data sets are; by default ``$POTLUCK_DATA``, or the user's cache.
        origin: from where.
        progress: is called with how far it is; by default nobody is.
    """
    root = data_dir(folder)
    place = next(iter(folders_of(published.names, root)), root / published.name)
    if origin == "hub" and published.hub is None:
        raise DataError(f"{published.name} is not taken from the hub; leave out the hub: {published.home}.")
    if origin == "original" and not published.files:
        raise DataError(f"{published.name} is taken from the hub alone: potluck download {published.name} --from hub.")
    try:
        if origin == "hub":
            download_from_hub(published, place)
        else:
            for file in published.files:
                download(file, place, progress)
    except UnreachableError as error:
        addresses = published.home if origin == "hub" else ", ".join(file.url for file in published.files)
        raise DataError(
            f"{published.name} cannot be downloaded: {error}. Without a network, get it elsewhere, by `potluck "
            f"download {published.name} --data-dir FOLDER` or from {addresses}; then bring it here as {place}, or "
            f"name the folder around it by --data-dir or {VARIABLE}."
        ) from error
    return place


def is_here(published: PublishedSet, folder: str | Path | None = None) -> bool:
    """Whether files of a data set are on this machine, plain, packed or as arrays."""
    root = data_dir(folder)
    return array_file(published.names, root) is not None or holds(folders_of(published.names, root), published.patterns)


def set_named(name: str) -> PublishedSet:
    """A data set by its name, however spelt."""
    asked = name.lower().replace("_", "-").replace(" ", "-")
    for published in CATALOG.values():
        if asked.replace("-", "") in (known.replace("-", "") for known in published.names):
            return published
    raise DataError(f"There is no published data set {name!r}.{nearest(asked, CATALOG)}")


def _from_here(published: PublishedSet, read: Callable[[Files], Source], root: Path) -> Source | None:
    """From the files as they were published; else from a file of arrays; None where there is neither."""
    files = dict(files_in(folders_of(published.names, root), published.patterns))
    if files:
        return read(files)
    arrays = array_file(published.names, root)
    return None if arrays is None else npz(arrays)


def _missing(published: PublishedSet, root: Path) -> str:
    return (
        f"{published.name} is not here: there is no folder {str(root / published.name)!r} with {published.expected}; "
        f"and no {published.name}.npz beside it."
    )


def _how(published: PublishedSet) -> str:
    size = "" if published.size is None else f"{published.size / 1e6:.0f} MB, "
    origin = "" if published.files else " --from hub"
    return (
        f"`potluck download {published.name}{origin}` gets it ({size}licence: {published.licence}); if the files are "
        f"elsewhere, name the folder around them by --data-dir or {VARIABLE}."
    )


def need(files: Files, *names: str, owner: PublishedSet) -> list[bytes]:
    """The contents of files by their names; DataError with those that are missing."""
    by_name = {path.rpartition("/")[2]: content for path, content in files.items()}
    if missing := [name for name in names if name not in by_name]:
        raise DataError(
            f"{owner.name}: {', '.join(missing)} is missing beside {', '.join(sorted(by_name))}. {_how(owner)}"
        )
    return [by_name[name] for name in names]
