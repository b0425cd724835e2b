"""Finds the files of a data set on this machine, as they were published: plain, packed with gzip, or in archives."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from potluck.core.errors import DataError

VARIABLE = "POTLUCK_DATA"
_TARS, _ZIPS = (".tar", ".tar.gz", ".tgz"), (".zip",)


def data_dir(given: str | Path | None = None) -> Path:
    """Where data sets are: as given, else ``$POTLUCK_DATA``, else a folder of the user's cache."""
    chosen = given or os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "potluck" / "data"


def folders_of(names: Sequence[str], root: Path) -> list[Path]:
    """The folders of a data set: ``root`` and those in it, where they bear one of its names, however spelt."""
    known = {_plain(name) for name in names}
    inner = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [path for path in (root, *inner) if path.is_dir() and _plain(path.resolve().name) in known]


def array_file(names: Sequence[str], root: Path) -> Path | None:
    """The .npz file that bears one of a data set's names, in ``root`` or in its folder."""
    known = {_plain(name) for name in names}
    for folder in (root, *folders_of(names, root)):
        for path in sorted(folder.glob("*.npz")) if folder.is_dir() else []:
            if _plain(path.stem) in known:
                return path
    return None


def files_in(folders: Sequence[Path], patterns: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The path inside its folder, and the content, of each file whose name fits; of archives only where no file does.

    Args:
        folders: where to look, and in all folders inside.
        patterns: names, in which ``*`` stands for anything; without ``.gz``, which a file may end in.
    """
    paths = {path: path.relative_to(folder).as_posix() for folder in folders for path in sorted(folder.rglob("*"))}
    seen = set[str]()
    for path, inside in paths.items():
        name = inside.removesuffix(".gz")
        if _fits(inside, patterns) and name not in seen and path.is_file():
            seen.add(name)
            yield name, _content(path)
    if seen:
        return
    for path in paths:
        if path.name.endswith((*_TARS, *_ZIPS)) and path.is_file():
            try:
                yield from _packed(path.name, path, patterns)
            except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
                raise DataError(f"{path} cannot be read as an archive: {error}. Get it again.") from error


def holds(folders: Sequence[Path], patterns: Sequence[str]) -> bool:
    """Whether there is a file whose name fits, or an archive that may hold one."""
    paths = (path for folder in folders for path in folder.rglob("*"))
    return any(_fits(path.name, patterns) or path.name.endswith((*_TARS, *_ZIPS)) for path in paths)


def _packed(name: str, archive: Path | io.BytesIO, patterns: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """What fits inside an archive, and inside the archives in it; nothing is written to the disk."""
    wanted = (*_TARS, *_ZIPS)
    if name.endswith(_TARS):
        where: dict[str, Any] = {"name": archive} if isinstance(archive, Path) else {"fileobj": archive}
        with tarfile.open(**where) as tar:
            for member in tar:
                if member.isfile() and (_fits(member.name, patterns) or member.name.endswith(wanted)):
                    content = tar.extractfile(member)
                    assert content is not None, "a plain file has content"
                    yield from _member(member.name, content.read(), patterns)
        return
    with zipfile.ZipFile(archive) as packed:
        for inner in packed.namelist():
            if _fits(inner, patterns) or inner.endswith(wanted):
                yield from _member(inner, packed.read(inner), patterns)


def _member(name: str, content: bytes, patterns: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    if _fits(name, patterns):
        yield name.removesuffix(".gz"), gzip.decompress(content) if name.endswith(".gz") else content
    else:
        yield from _packed(name, io.BytesIO(content), patterns)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}. Get it again.") from error


def _fits(path: str, patterns: Sequence[str]) -> bool:
    name = PurePosixPath(path).name.removesuffix(".gz")
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
