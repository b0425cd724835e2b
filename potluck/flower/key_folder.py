"""A folder of certificates and keys: made, added to, renewed, listed; and which keys are not let in any more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.flower.certificates import (
    date_of,
    days_left,
    fingerprint_of,
    hosts_of,
    new_authority,
    new_key,
    new_server,
    private_key,
    public_half,
    read_certificate,
    write_certificate,
    write_node_key,
    write_pem_key,
)
from potluck.flower.client_store import write_whole

AUTHORITY, SERVER, REVOKED = "ca", "server", "revoked.json"
"""The names of the authority's and the server's files without their endings, and the file of revoked keys."""
LOCAL = ("localhost", "127.0.0.1")
"""What a server's certificate is always for: Flower's programs on the server speak to each other there."""


@dataclass(frozen=True)
class KeyEntry:
    """Something in a folder of keys.

    Args:
        name: whose it is.
        what: what it is.
        file: its file.
        until: the day on which it ends; empty for what has no end.
        days: how many days are left; None for what has no end.
        note: what else there is to say.
        fingerprint: the SHA-256 of its public key, by which people compare keys.
    """

    name: str
    what: str
    file: str
    until: str
    days: float | None
    note: str
    fingerprint: str


def make_keys(folder: Path, names: Sequence[str], hosts: Sequence[str], days: int) -> dict[Path, str]:
    """Makes an authority, a server's certificate, and participants' keys; says what each file is for."""
    _check_names(names)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = ["ca.crt", "ca.key", "server.pem", "server.key", *names, *(f"{name}.pub" for name in names)]
    _check_free(folder, files, "choose another folder with --out")
    authority, server = new_key(), new_key()
    certificate = new_authority(authority, days)
    write_certificate(folder / "ca.crt", certificate)
    write_pem_key(folder / "ca.key", authority)
    write_certificate(folder / "server.pem", new_server(server, certificate, authority, hosts, days))
    write_pem_key(folder / "server.key", server)
    made = {
        folder / "ca.crt": "the authority: give it to everyone",
        folder / "ca.key": "the authority's secret: keep it off the network",
        folder / "server.pem": f"the server's certificate, for {', '.join(dict.fromkeys(hosts))}",
        folder / "server.key": "the server's secret",
    }
    for name in names:
        made |= _new_pair(folder, name)
    return made


def add_key(folder: Path, name: str, public: Path | None = None) -> dict[Path, str]:
    """Adds a participant: makes its key, or takes in the public half of one that was made elsewhere."""
    _check_names([name])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if public is None:
        _check_free(folder, [name, f"{name}.pub"], f"`potluck keys renew {name}` makes another one")
        return _new_pair(folder, name)
    _check_free(folder, [f"{name}.pub"], "choose another folder with --out")
    public_half(str(public))
    half = folder / f"{name}.pub"
    half.write_bytes(public.read_bytes())
    return {half: f"{name}'s public half, made elsewhere: for the server"}


def renew_key(folder: Path, name: str) -> dict[Path, str]:
    """Makes a participant a new key; the old one is revoked, and its files stay under other names."""
    half = _known_half(folder, name)
    revoke(folder, name)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    for path in (folder / name, half):
        if path.exists():
            path.rename(path.with_name(f"{path.name}.{stamp}"))
    return _new_pair(folder, name)


def renew_certificates(folder: Path, hosts: Sequence[str], days: int) -> dict[Path, str]:
    """Makes the server a new certificate, by default for the hosts of the old one; and the authority, if it ends first.

    The authority keeps its key: who has its old certificate trusts the server's new one until the old one ends.
    """
    for name in ("ca.crt", "ca.key", "server.pem", "server.key"):
        if not (folder / name).is_file():
            raise SettingsError(
                f"{folder / name} is not there; `potluck keys init` makes it. What your own authority has signed is "
                f"renewed there."
            )
    authority, key = read_certificate(folder / "ca.crt"), private_key(str(folder / "ca.key"))
    made: dict[Path, str] = {}
    if days_left(authority) < days:
        authority = new_authority(key, days)
        write_certificate(folder / "ca.crt", authority)
        made[folder / "ca.crt"] = (
            f"the authority, until {date_of(authority)}: give it to everyone before the old one ends"
        )
    asked = list(dict.fromkeys([*hosts, *LOCAL])) if hosts else hosts_of(read_certificate(folder / "server.pem"))
    server = new_server(private_key(str(folder / "server.key")), authority, key, asked, days)
    write_certificate(folder / "server.pem", server)
    made[folder / "server.pem"] = f"the server's certificate, for {', '.join(asked)}, until {date_of(server)}"
    return made


def entries(folder: Path) -> list[KeyEntry]:
    """What is in a folder of keys."""
    if not folder.is_dir():
        raise SettingsError(f"There is no folder {str(folder)!r}; `potluck keys init` makes one.")
    found = []
    for name, file, what in ((AUTHORITY, "ca.crt", "authority"), (SERVER, "server.pem", "server's certificate")):
        if (folder / file).is_file():
            certificate = read_certificate(folder / file)
            note = f"for {', '.join(hosts_of(certificate))}" if name == SERVER else ""
            known = fingerprint_of(certificate.public_key())
            found.append(KeyEntry(name, what, file, date_of(certificate), days_left(certificate), note, known))
    revoked = revoked_in(folder)
    for half in sorted(folder.glob("*.pub")):
        known = fingerprint_of(public_half(str(half)))
        note = f"revoked on {revoked[known]['when'][:10]}" if known in revoked else ""
        note = note or ("" if half.with_suffix("").is_file() else "its secret is elsewhere")
        found.append(KeyEntry(half.stem, "participant's key", half.name, "", None, note, known))
    return found


def revoke(folder: Path, name: str) -> str:
    """Notes that a participant's key is not let in any more; returns the key's fingerprint."""
    known = fingerprint_of(public_half(str(_known_half(folder, name))))
    found = revoked_in(folder)
    if known not in found:
        found[known] = {"name": name, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        write_whole(folder / REVOKED, (json.dumps(found, indent=1) + "\n").encode())
    return known


def revoked_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The keys in a folder that are not let in any more, by fingerprint."""
    path = folder / REVOKED
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        return {str(known): {key: str(about[key]) for key in ("name", "when")} for known, about in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SettingsError(f"{path} cannot be read: {error!r}. It holds the keys that were revoked.") from error


class RevokedKeys:
    """The keys that are not let in any more, by fingerprint: looked up anew whenever a list of them has changed.

    Args:
        folders: the folders of keys whose lists count.
        report: is told of a list that cannot be read, of which what was known before then counts.
    """

    def __init__(self, folders: Iterable[Path], report: Callable[[str], None]) -> None:
        self._folders, self._report = sorted(set(folders)), report
        self._known: dict[Path, tuple[int, frozenset[str]]] = {}

    def __contains__(self, fingerprint: str) -> bool:
        return any(fingerprint in self._listed(folder) for folder in self._folders)

    def _listed(self, folder: Path) -> frozenset[str]:
        changed, before = _changed(folder / REVOKED), self._known.get(folder, (0, frozenset[str]()))
        if changed != before[0]:
            try:
                self._known[folder] = changed, frozenset(revoked_in(folder))
            except SettingsError as error:
                self._known[folder] = changed, before[1]
                self._report(str(error))
        return self._known.get(folder, before)[1]


def _changed(path: Path) -> int:
    """When a file was written last; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _known_half(folder: Path, name: str) -> Path:
    half = folder / f"{name}.pub"
    if not half.is_file():
        known = [path.stem for path in folder.glob("*.pub")]
        raise SettingsError(f"{folder} has no participant {name!r}.{nearest(name, known)}")
    return half


def _new_pair(folder: Path, name: str) -> dict[Path, str]:
    half = write_node_key(folder / name, new_key())
    return {folder / name: f"{name}'s secret: for its machine alone", half: "its public half: for the server"}


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if Path(name).name != name or not name.strip() or name.startswith("."):
            raise SettingsError(f"A participant's name is {name!r}; expected one that can be a file name.")
    if len(set(names)) < len(names) or {AUTHORITY, SERVER} & set(names):
        raise SettingsError(f"The names {list(names)} must differ, also from 'ca' and 'server'.")


def _check_free(folder: Path, files: Sequence[str], advice: str) -> None:
    taken = [folder / file for file in files if (folder / file).exists()]
    if taken:
        raise SettingsError(f"{taken[0]} is there already and stays as it is; {advice}.")
