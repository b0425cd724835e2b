"""Gets a file from its address: resumed where it was cut off, checked, and put in its place whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from potluck.core.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Is called with which file comes, how many bytes of it are here, and how many there are, if that is known."""

RECORD = "downloads.json"
TRIES, PAUSE, SILENCE = 4, 1.0, 30.0
"""How often a cut-off transfer is taken up again, how long after the first time, and for how long a server may be
silent: in seconds."""
_CHUNK = 1 << 16


class UnreachableError(DataError):
    """A file that cannot be had from its address at the moment."""


@dataclass(frozen=True)
class RemoteFile:
    """A file at its original address.

    Args:
        url: the address.
        name: what it is called here.
        sha256: its checksum, where that was published or can be computed from known files; "" where it is not known:
            then the one of the first download is recorded, and a later download must have the same.
        size: how many bytes it has; by default not known.
    """

    url: str
    name: str
    sha256: str = ""
    size: int | None = None


def offline() -> bool:
    """Whether the user asks that nothing be downloaded: ``POTLUCK_OFFLINE=1``, or the hub's own variable."""
    asked = (os.environ.get(name, "") for name in ("POTLUCK_OFFLINE", "HF_HUB_OFFLINE"))
    return any(value.lower() in ("1", "true", "yes", "on") for value in asked)


def download(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """The file in that folder, downloaded if it is not there.

    Args:
        file: what to get.
        folder: where it goes; it is made.
        progress: is called with how far it is; by default nobody is.
    """
    place = folder / file.name
    if place.is_file():
        return place
    if offline():
        raise UnreachableError("POTLUCK_OFFLINE or HF_HUB_OFFLINE is set, so nothing is downloaded")
    part = folder / f"{file.name}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{file.name}.lock"):  # who comes second waits, and finds it there
            if not place.is_file():
                if not file.sha256:
                    part.unlink(missing_ok=True)  # nothing could tell whether the rest still belongs to it
                _transfer(file, part, progress)
                _check(file, part, folder / RECORD)
                part.replace(place)
    except OSError as error:
        raise DataError(f"{file.name} cannot be kept in {folder}: {error.strerror or error}.") from error
    return place


def _transfer(file: RemoteFile, part: Path, progress: Progress | None) -> None:
    """Fills the part until it is whole, from where it stands."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _read(file, part, progress)
            return
        except _BrokenOffError as error:
            reason = error
    raise UnreachableError(f"{file.url} cannot be reached: {reason}") from reason


class _BrokenOffError(Exception):
    """A transfer that may go on if it is taken up again."""


def _read(file: RemoteFile, part: Path, progress: Progress | None) -> None:
    """Asks for what is missing, and writes what comes."""
    there = part.stat().st_size if part.exists() else 0
    answer = _ask(file, there)
    if answer is None:
        part.unlink()
        raise _BrokenOffError("the part that was here did not belong to it")
    with answer:
        there = there if answer.status == 206 else 0
        length = answer.headers.get("Content-Length", "")
        whole = there + int(length) if length.isdigit() else file.size
        with part.open("ab" if there else "wb") as written:
            while chunk := _next(answer):
                written.write(chunk)
                there += len(chunk)
                if progress is not None:
                    progress(file.name, there, whole)
                if file.size is not None and there > file.size:
                    return  # it is not what was expected, however much more comes
            written.flush()
            os.fsync(written.fileno())
    if whole is not None and there < whole:
        raise _BrokenOffError(f"it broke off after {there:,} of {whole:,} bytes")


def _ask(file: RemoteFile, there: int) -> http.client.HTTPResponse | None:
    """The server's answer to the question for what is missing; None where it has less than is here."""
    scheme = urlsplit(file.url).scheme
    if scheme not in ("https", "http"):
        raise DataError(f"{file.url} is no address of the web; expected https://…")
    request = urllib.request.Request(file.url, headers={"User-Agent": "potluck", "Accept-Encoding": "identity"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=SILENCE)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return None
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _BrokenOffError(f"it answers {error.code} {error.reason}") from error
        raise UnreachableError(f"{file.url} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(str(getattr(error, "reason", error))) from error
    if scheme == "https" and urlsplit(answer.url).scheme != "https":
        answer.close()
        raise UnreachableError(f"{file.url} leads to {answer.url}, which is not encrypted")
    return answer


def _next(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(str(error)) from error


def _check(file: RemoteFile, part: Path, record: Path) -> None:
    """Holds a file against its checksum, or against that of its first download, and writes down what came."""
    with part.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    size, before = part.stat().st_size, _recorded(record)
    expected = file.sha256 or before.get(file.name, {}).get("sha256", found)
    if found != expected:
        part.unlink()
        whose = "is published" if file.sha256 else f"it had when it first came, as {record} says"
        raise DataError(
            f"What came from {file.url} is not the file that was expected: {size:,} bytes with the SHA-256 {found}, "
            f"where {expected} {whose}. It was thrown away. It may have been damaged on its way, then try again; or "
            f"somebody has changed it."
        )
    known = "published" if file.sha256 else "of the first download: none is published"
    entry = {"url": file.url, "sha256": found, "bytes": size, "checksum": known}
    draft = record.with_name(f".{record.name}.unfinished")
    draft.write_text(json.dumps({**before, file.name: entry}, indent=1) + "\n", encoding="utf-8")
    draft.replace(record)


def _recorded(record: Path) -> dict[str, Any]:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}
