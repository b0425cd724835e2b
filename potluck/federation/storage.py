"""Participants on disk: in a folder, as safetensors, while others run.

The large fields of a participant are written to files of their own and dropped from memory: its samples, its state, and
its network, if it was built at joining. They are read back when they are used. Models that were brought as objects, and
estimators, stay in memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakValueDictionary, ref

from torch import Tensor, nn

from potluck.core.architecture import Architecture
from potluck.core.errors import SettingsError, nearest
from potluck.core.model_view import copied
from potluck.core.samples import InputSource, RowReader, Samples
from potluck.federation.participant import Participant
from potluck.learners.network import Network
from potluck.learners.traits import Traits
from potluck.runs.serialization import as_text, from_text, read_state, save_state

STORAGES = ("memory", "disk")
"""Where participants can be while others run."""

LOADED = 64
"""How many participants stay in memory of those that are loaded one by one, by default."""

SHORT = 256
"""State of at most so many characters stays in memory: a file for it would take longer, and more of the disk."""

Version = Hashable
"""Which tensors a field holds, and how often each was written to: it differs if the field has changed."""


@dataclass(eq=False, slots=True)
class Stored:
    """One field of a participant on disk: its file, its version when it was read, the network it is a copy of.

    Args:
        file: the number of its file.
        version: what it was when it was read; by default None, where it is written in any case.
        exemplar: the network it is a copy of; by default None.
        architecture: that network's architecture; by default None.
        traits: what is known of its code; by default None.
        reader: what reads its samples anew, which stays in memory; by default None.
        source: where its inputs are, which stays in memory; by default None.
        text: what it holds, if that is a few plain values, which need no file; by default None.
    """

    file: int
    version: Version | None = None
    exemplar: nn.Module | None = None
    architecture: Architecture | None = None
    traits: Traits | None = None
    reader: RowReader | None = None
    source: InputSource | None = None
    text: str | None = None


class DiskStorage:
    """A folder for participants. It is removed when neither a federation nor a participant refers to it any more.

    Args:
        timing: phase of a profile → what counts the seconds inside.
        loaded: how many participants stay in memory of those that are loaded one by one; those that are pinned all do.
            By default 64.
    """

    def __init__(self, timing: Mapping[str, AbstractContextManager[None]], loaded: int | None = None) -> None:
        self.loaded = loaded or LOADED
        self._timing = timing
        self._folder = TemporaryDirectory(prefix="potluck-")
        self._stored: dict[tuple[str, str], Stored] = {}
        self._files = 0
        self._same: dict[tuple[str, str], str] = {}
        self._in_memory: dict[str, Participant] = {}
        self._pinned: set[str] = set()
        self._exemplars: WeakValueDictionary[Architecture, nn.Module] = WeakValueDictionary()

    def pin(self, participants: Sequence[Any]) -> None:
        """Lets these stay in memory, once they are loaded, until others are pinned or ``evict`` is called."""
        self._pinned = {participant.name for participant in participants}

    def evict(self, participants: Iterable[Any]) -> None:
        """Writes these to disk and drops them from memory; none is pinned any more."""
        self._pinned = set()
        for participant in participants:
            if isinstance(participant, Participant):
                self._in_memory.pop(participant.name, None)
                with self._timing["storage"]:
                    self._put(participant)

    def load(self, participant: Participant, name: str) -> None:
        """Loads one field of a participant."""
        owner = participant.name
        if (owner, name) in self._same:
            participant.held[name] = participant.thing(self._same[owner, name])
        else:
            stored = self._stored[owner, name]
            with self._timing["storage"]:
                participant.held[name] = thing = self._read(stored, name)
            stored.version = version_of(thing)
        self._in_memory.pop(owner, None)  # the last one is the one loaded last
        self._in_memory[owner] = participant
        self._evict_oldest()

    def release(self, participant: Any) -> None:
        """Loads all fields of a participant and removes its files."""
        for name in participant.heavy:
            participant.thing(name)
        for name in participant.heavy:
            self._same.pop((participant.name, name), None)
            stored = self._stored.pop((participant.name, name), None)
            if stored is not None:
                self._path(stored).unlink(missing_ok=True)
        self._in_memory.pop(participant.name, None)
        participant.storage = None

    def _evict_oldest(self) -> None:
        """Evicts those that were loaded first."""
        if len(self._in_memory) <= self.loaded + len(self._pinned):
            return
        free = [name for name in self._in_memory if name not in self._pinned]
        for name in free[: max(0, len(free) - self.loaded)]:
            self._put(self._in_memory.pop(name))

    def _put(self, participant: Participant) -> None:
        written: list[tuple[str, Any]] = []
        participant.let_go()
        for name in [name for name in participant.heavy if participant.held.get(name) is not None]:
            thing, key = participant.held[name], (participant.name, name)
            if name == "learner" and not (participant.builds_its_model and isinstance(thing, Network)):
                continue
            twin = next((other for other, one in written if one is thing), None)
            if twin is None:
                self._same.pop(key, None)
                self._write(key, thing)
                written.append((name, thing))
            else:
                self._same[key] = twin
            del participant.held[name]
        participant.storage = self

    def _write(self, key: tuple[str, str], thing: Any) -> None:
        """Writes a field unless it is unchanged since it was read."""
        version = version_of(thing)
        if key not in self._stored:
            self._files += 1
            self._stored[key] = Stored(self._files)
        stored = self._stored[key]
        if isinstance(thing, Network):
            if thing.traits is None or thing.traits.changes_itself:
                thing.look_again()
            stored.architecture, stored.traits = thing.architecture, thing.traits
            stored.exemplar = self._exemplars.setdefault(thing.architecture, thing.model.cpu())
        if isinstance(thing, Samples):
            stored.reader, stored.source = thing.reader, thing.source
        if isinstance(thing, dict):
            stored.text = as_text(thing, SHORT)
        if stored.text is None and (version is None or version != stored.version):
            save_state(self._path(stored), _state(thing))
        stored.version = None  # the memory of dropped tensors may be used for others

    def _read(self, stored: Stored, name: str) -> Any:
        if stored.text is not None:
            return from_text(stored.text)
        state = read_state(self._path(stored))
        if stored.exemplar is None:
            return state if name in ("state", "codecs") else Samples(state, stored.reader, stored.source)
        network = Network(copied(stored.exemplar))
        assert stored.architecture is not None
        network.share(stored.architecture, stored.traits)
        network.restore(state)
        for buffer, value in state["non-persistent"].items():
            network.tensors()[buffer].copy_(value)
        return network

    def _path(self, stored: Stored) -> Path:
        return Path(self._folder.name) / f"{stored.file}.safetensors"


def _state(thing: Any) -> Any:
    """What is written of a field: nested dicts and lists of tensors and plain values."""
    if isinstance(thing, Network):
        state = thing.state()
        left_out = {name: buffer for name, buffer in thing.tensors().items() if name not in state["weights"]}
        return {**state, "non-persistent": left_out}  # buffers that a module leaves out of its state
    return dict(thing.columns) if isinstance(thing, Samples) else thing


def version_of(thing: Any) -> Version | None:
    """The version of samples and networks; None for anything else, which is written whenever it was looked at."""
    if isinstance(thing, Samples):
        return tuple((name, *_seen(column)) for name, column in thing.columns.items())
    if isinstance(thing, Network):
        memory = [value for moments in thing.optimizer_state.values() for value in moments.values()]
        tensors = [*thing.tensors().values(), *(value for value in memory if isinstance(value, Tensor))]
        return (ref(thing), thing.remembered_times, tuple(_seen(tensor) for tensor in tensors))
    return None


def _seen(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor._version


def make_storage(
    kind: str, timing: Mapping[str, AbstractContextManager[None]], loaded: int | None
) -> DiskStorage | None:
    """The storage of that name; None for memory, where everybody simply stays."""
    if kind not in STORAGES:
        raise SettingsError(f"storage is {kind!r}.{nearest(kind, STORAGES)}")
    return DiskStorage(timing, loaded) if kind == "disk" else None
