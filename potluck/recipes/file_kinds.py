"""The three kinds of files that people write, and how one is told from another: each is for commands of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

FileKind = Literal["run", "server", "site"]

FOR: dict[FileKind, tuple[str, str]] = {
    "run": ("a run file, which plays a federation on one machine", "potluck run {path}"),
    "server": ("a server's file", "potluck serve {path}"),
    "site": ("a participant's own file", "potluck join {path} --server HOST:PORT"),
}
"""What each kind is, and the command that it is for."""

OF_A_SERVER = {
    "port",
    "host",
    "tls",
    "answer_timeout",
    "join_timeout",
    "wait_timeout",
    "on_too_few",
    "min_participants",
}
OF_A_SITE = {"model", "state_dir", "root_certificates", "key", "policy", "allow_imports"}
"""Keys at the top of a file that no other kind has."""


def kind_of(content: Mapping[str, Any]) -> FileKind | None:
    """Which kind of file has such content; None where it cannot be told."""
    people = content.get("participants")
    if not isinstance(people, list):
        return "site" if OF_A_SITE & content.keys() else None
    if any(isinstance(each, Mapping) and "model" in each for each in people):
        return "run"
    if OF_A_SERVER & content.keys() or any(isinstance(each, Mapping) and "key" in each for each in people):
        return "server"
    return None


def mixed_up(path: Any, content: Mapping[str, Any], wanted: FileKind) -> str | None:
    """A sentence about a file of another kind than is wanted; None if it is not seen to be one."""
    found = kind_of(content)
    if found is None or found == wanted:
        return None
    (what, command), (other, _) = FOR[found], FOR[wanted]
    return f"{path} is {what}: it is for `{command.format(path=path)}`. Expected {other.partition(',')[0]}."
