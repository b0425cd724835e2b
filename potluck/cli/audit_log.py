"""``potluck audit-log``: what an audit log says, whether it is whole, and whether two sides' logs agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from potluck.core.errors import PotluckError, SettingsError
from potluck.core.harmless import one_line
from potluck.core.history import readable_bytes


def audit_log(
    file: Annotated[Path, typer.Argument(metavar="AUDIT.jsonl", help="A log.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(metavar="OTHER.jsonl", help="The other side's log of the run.", show_default=False)
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Only check; show nothing.")] = False,
    key: Annotated[
        Path | None, typer.Option(help="The public half of the key that sealed the log.", show_default=False)
    ] = None,
) -> None:
    """Show who asked for what, what left and what was refused.

    The chain of a log is always checked: a line that was changed, left out or put
    in is an error. With two logs of one run, what only one side knows of is shown.
    """
    from potluck.channel.audit_log import read, unmatched

    logs = [list(read(path)) for path in (file, *([other] if other else [])) if _there(path)]
    if key is not None:
        _check_seals(file, logs[0], key)
    if not verify:
        for line in _lines(logs[0]):
            typer.echo(line)
    typer.echo(f"{len(logs[0])} lines of {file}: the chain is whole{', and each is sealed' if key else ''}.")
    if other is not None:
        missing = unmatched(*logs)
        for path, entries in zip((file, other), missing, strict=True):
            for entry in entries:
                typer.echo(one_line(f"Only {path} knows: line {entry['number']}, {_said(entry)}"))
        if any(missing):
            raise PotluckError("The two logs do not agree.")
        typer.echo("Both logs hold the same payloads.")


def _there(path: Path) -> bool:
    if not path.is_file():
        raise SettingsError(f"There is no file {str(path)!r}.")
    return True


def _check_seals(path: Path, entries: list[dict[str, Any]], key: Path) -> None:
    from potluck.flower.certificates import check_seal

    for entry in entries:
        if not check_seal(str(key), entry["sha256"], str(entry.get("seal", ""))):
            raise PotluckError(f"{path}: line {entry['number']} is not sealed with the key of {key}.")


def _said(entry: dict[str, Any]) -> str:
    return f"{entry['what']} {entry.get('participant', '')} {_place(entry)} {entry.get('payload', '')[:16]}".strip()


def _place(entry: dict[str, Any]) -> str:
    return " ".join(str(entry[name]) for name in ("kind", "phase", "round", "step", "exchange") if name in entry)


def _lines(entries: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each entry, in columns."""
    for entry in entries:
        holds = ", ".join(f"{name} {like}" if like else name for name, like in (entry.get("holds") or {}).items())
        size = readable_bytes(entry["bytes"]) if entry.get("bytes") else ""
        why = str(entry.get("why") or holds)[:200]
        who = str(entry.get("participant", ""))[:20]
        yield one_line(f"{entry['time']}  {entry['what']:8}  {who:20}  {_place(entry):32}  {size:>8}  {why}").rstrip()
