"""Participants that live with their engine, in worker processes: what of them changes is fetched when it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from potluck.core.party import Host
from potluck.federation.participant import Participant
from potluck.federation.storage import Version, version_of


class WorkerStorage:
    """Sends participants to their engine when it first plays them, and fetches models and state that are looked at.

    Data stay here, too: the same object is sent once and never changes.

    Args:
        host: the engine.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fetched: dict[str, dict[str, Version | None]] = {}
        """Participant → fields that are here → their version when they were fetched."""
        self._away: set[str] = set()

    def pin(self, participants: Sequence[Any]) -> None:
        """Sends those who are here, and of the others what was changed here."""
        people = {person.name: person for person in participants}
        coming = [person for name, person in people.items() if name not in self._away]
        if coming:
            self._host.take([person.moving() for person in coming])
        for person in coming:
            person.storage = self
            self._away.add(person.name)
            self._drop(person)
        changed = {name: own for name, person in people.items() if (own := self._changed(person))}
        if changed:
            self._host.put_back(changed)
        for person in people.values():
            self._drop(person)

    def evict(self, participants: Iterable[Any]) -> None:
        """Nothing: who is with the engine is not here."""

    def load(self, party: Participant, name: str) -> None:
        """Fetches a field of a participant."""
        thing = self._host.fields(party.name)[name]
        party.held[name] = thing
        self._fetched.setdefault(party.name, {})[name] = version_of(thing)

    def release(self, party: Participant) -> None:
        """Has all of a participant here again."""
        for name in party.changing:
            party.thing(name)
        self._fetched.pop(party.name, None)
        self._away.discard(party.name)
        self._host.forget(party.name)
        party.storage = None

    def _changed(self, person: Participant) -> dict[str, Any]:
        """What was fetched and written to, or set here."""
        fetched = self._fetched.pop(person.name, {})
        return {
            field: thing
            for field, thing in person.held.items()
            if field in person.changing and ((version := fetched.get(field)) is None or version_of(thing) != version)
        }

    def _drop(self, person: Participant) -> None:
        person.let_go()
        for field in person.changing:
            person.held.pop(field, None)
