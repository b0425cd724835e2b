"""At the server's public port: tells a site how it stands, and turns away those whose keys were revoked."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from pydantic import TypeAdapter

from potluck.core.harmless import one_line
from potluck.flower.certificates import fingerprint_of, public_pem, signed_by
from potluck.flower.client_store import write_whole
from potluck.flower.hello import DoorAnswer, Hello, SiteStanding
from potluck.flower.key_folder import RevokedKeys

KEY_HEADER = b"flwr-public-key"
"""In which header a node names its key."""
QUIET = 600.0
"""Seconds in which the same is not said again of the same address."""
NOT_LET_IN: dict[SiteStanding, str] = {
    "unknown name": "no participant in the file has that name",
    "other name": "its key is {known}'s",
    "no key": "it has no key",
    "unknown key": "no participant in the file has its key, {mark}",
    "revoked": "its key was revoked, {mark}",
    "unsigned": "its key, {mark}, did not sign what came",
    "other clock": "its clock is minutes apart from the one here",
}
"""What the server says of a site that is not welcome."""
MOST = 1000
"""How many keys, and how many addresses, are remembered."""


@dataclass(frozen=True)
class KnownSite:
    """A participant, as the public port knows it.

    Args:
        name: its name.
        key: the public half of its key, as PEM; None where nobody has keys.
        folder: where its public half is, and the list of revoked keys; None where nobody has keys.
    """

    name: str
    key: str | None = None
    folder: str | None = None


def known_site(name: str, key: str | None) -> KnownSite:
    """A participant and the file with the public half of its key, if there is one."""
    if key is None:
        return KnownSite(name)
    return KnownSite(name, public_pem(key).decode(), str(Path(key).resolve().parent))


@dataclass(frozen=True)
class DoorList:
    """Whom the public port knows, and what it tells them.

    Args:
        protocol: the version of the protocol.
        potluck: the version of Potluck.
        sites: the participants.
        invitation: the file where the run writes what it asks of participants.
    """

    protocol: int
    potluck: str
    sites: tuple[KnownSite, ...]
    invitation: str

    def write(self, path: Path) -> None:
        """Writes it for the public port to read."""
        write_whole(path, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, path: Path) -> DoorList:
        """Reads what was written."""
        return TypeAdapter(cls).validate_json(path.read_bytes())


class Reception:
    """Answers who asks how it stands.

    Args:
        path: where the list of those who are known is.
        report: is given a line about each who is turned away.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self._known, self._report = DoorList.read(path), report
        self._logged: dict[tuple[str, str], float] = {}
        self._marks: dict[bytes, str | None] = {}
        self._by_mark = {fingerprint_of(site.key.encode()): site.name for site in self._known.sites if site.key}
        self._revoked = RevokedKeys((Path(site.folder) for site in self._known.sites if site.folder), report)

    def answer(self, body: bytes, host: str) -> bytes:
        """How the one who asks stands. Raises ValueError for what is no question."""
        asked, known = Hello.model_validate_json(body), self._known
        mark = None if asked.key is None else self._mark(asked.key.encode())
        standing = self._standing(asked, mark)
        signed = standing not in ("no key", "unsigned", "other clock")
        name, invitation, path = self._by_mark.get(mark or "") if signed else None, None, Path(known.invitation)
        if standing in NOT_LET_IN:
            why = NOT_LET_IN[standing].format(known=name, mark=f"SHA-256 {mark[:16]}…" if mark else "no key")
            self.say(host, f"{host}, which calls itself {one_line(asked.name)!r}, is not let in: {why}")
        elif path.exists():
            invitation = json.loads(path.read_bytes())
        return (
            DoorAnswer(
                protocol=known.protocol, potluck=known.potluck, standing=standing, known_as=name, invitation=invitation
            )
            .model_dump_json()
            .encode()
        )

    def _standing(self, asked: Hello, mark: str | None) -> SiteStanding:
        if not self._by_mark:
            names = [site.name for site in self._known.sites]
            return "welcome" if asked.name in names else "unknown name"
        if asked.key is None or asked.seal is None or mark is None:
            return "no key"
        if not asked.is_of_now:
            return "other clock"
        if not signed_by(asked.key.encode(), asked.signed_text(), asked.seal):
            return "unsigned"
        if mark in self._revoked:
            return "revoked"
        if mark not in self._by_mark:
            return "unknown key"
        return "welcome" if self._by_mark[mark] == asked.name else "other name"

    def turns_away(self, headers: Iterable[tuple[bytes, bytes]], host: str) -> bool:
        """Whether a node's request is of a key that was revoked."""
        key = next((value for name, value in headers if name.lower() == KEY_HEADER), None)
        mark = None if key is None else self._mark_of_header(key)
        if mark is None or mark not in self._revoked:
            return False
        name = self._by_mark.get(mark, "somebody")
        self.say(host, f"{name} is turned away: its key was revoked")
        return True

    def say(self, host: str, line: str) -> None:
        """Says something of who is at an address, and the same only once in a while."""
        now = time.monotonic()
        self._logged = {place: when for place, when in self._logged.items() if now - when < QUIET}
        if (host, line) not in self._logged and len(self._logged) < MOST:
            self._logged[host, line] = now
            self._report(line)

    def _mark_of_header(self, header: bytes) -> str | None:
        """The fingerprint of the key in a header."""
        try:
            return self._mark(base64.b64decode(header, validate=True))
        except ValueError:
            return None

    def _mark(self, key: bytes) -> str | None:
        """The fingerprint of a key; None for what is no key, which nobody lets in."""
        if key not in self._marks:
            if len(self._marks) >= MOST:
                self._marks.clear()
            try:
                self._marks[key] = fingerprint_of(key)
            except (ValueError, TypeError, UnsupportedAlgorithm):
                self._marks[key] = None
        return self._marks[key]
