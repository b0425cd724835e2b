"""Participants at rest: in a folder on disk, as safetensors, until they are needed again.

What is heavy about a participant is written to a file of its own and taken off it: its samples, its state, and its
network, if it was built at joining. It is read back when it is asked for. Models that were brought as objects, and
estimators, stay with their owner.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakValueDictionary

from torch import Tensor, nn

from potluck.core.profiler import Clock
from potluck.core.samples import Samples
from potluck.federation.participant import HEAVY, Participant
from potluck.learners.architecture import architecture
from potluck.learners.network import Network
from potluck.runs.serialization import read, save

AWAKE = 64
"""How many stay awake of those that are woken one by one, where nobody says otherwise."""

Mark = Hashable
"""Tells whether something has changed: which tensors it holds, and how often each was written to."""


@dataclass(eq=False, slots=True)
class Kept:
    """One thing of a participant's on disk: in which file, as what it was seen last, and of what architecture it is."""

    file: int
    mark: Mark | None = None
    body: nn.Module | None = None


class DiskStorage:
    """A folder for participants at rest. It is removed when neither a federation nor a participant needs it any more.

    At most ``awake`` of those that are woken one by one stay awake; those that work together are all held awake.
    """

    def __init__(self, clock: Clock, awake: int | None = None) -> None:
        self.awake = awake or AWAKE
        self._clock = clock
        self._folder = TemporaryDirectory(prefix="potluck-")
        self._kept: dict[tuple[str, str], Kept] = {}
        self._files = 0
        self._same: dict[tuple[str, str], str] = {}
        self._woken: dict[str, Participant] = {}
        self._held: set[str] = set()
        self._exemplars: WeakValueDictionary[Hashable, nn.Module] = WeakValueDictionary()

    def hold(self, names: Iterable[str]) -> None:
        """These work together from now on: none of them goes to rest before ``rest`` is called."""
        self._held = set(names)

    def rest(self, participants: Iterable[Participant]) -> None:
        """Puts participants to rest."""
        self._held = set()
        for participant in participants:
            self._woken.pop(participant.name, None)
            with self._clock("rest"):
                self._put(participant)

    def wake(self, participant: Participant, name: str) -> Any:
        """Gives a participant back one of its things."""
        owner = participant.name
        if (owner, name) in self._same:
            thing = getattr(participant, self._same[owner, name])
        else:
            kept = self._kept[owner, name]
            with self._clock("rest"):
                thing = self._read(kept, name)
            kept.mark = _mark(thing)
        setattr(participant, name, thing)
        self._woken.pop(owner, None)  # last is who was woken last
        self._woken[owner] = participant
        self._let_others_rest()
        return thing

    def leave(self, participant: Participant) -> None:
        """Gives a participant back all its things, for good."""
        for name in HEAVY:
            getattr(participant, name)
            self._same.pop((participant.name, name), None)
            kept = self._kept.pop((participant.name, name), None)
            if kept is not None:
                self._path(kept).unlink()
        self._woken.pop(participant.name, None)
        participant.rests = None

    def _let_others_rest(self) -> None:
        """Whoever was woken first goes back to rest first."""
        if len(self._woken) <= self.awake + len(self._held):
            return
        free = [name for name in self._woken if name not in self._held]
        for name in free[: max(0, len(free) - self.awake)]:
            self._put(self._woken.pop(name))

    def _put(self, participant: Participant) -> None:
        things = {name: vars(participant)[name] for name in HEAVY if vars(participant).get(name) is not None}
        first: dict[int, str] = {}
        for name, thing in things.items():
            key = (participant.name, name)
            if name == "_learner" and not (participant.builds_its_model and isinstance(thing, Network)):
                continue
            twin = first.setdefault(id(thing), name)
            if twin == name:
                self._same.pop(key, None)
                self._write(key, thing)
            else:
                self._same[key] = twin
            delattr(participant, name)
        participant.rests = self

    def _write(self, key: tuple[str, str], thing: Any) -> None:
        """Writes what has changed since it was read."""
        mark = _mark(thing)
        if key not in self._kept:
            self._files += 1
            self._kept[key] = Kept(self._files)
        kept = self._kept[key]
        kept.body = self._exemplar(thing.model) if isinstance(thing, Network) else None
        if mark is None or mark != kept.mark:
            save(self._path(kept), _state(thing))
        kept.mark = None  # tensors that are let go may leave their place to others

    def _read(self, kept: Kept, name: str) -> Any:
        state = read(self._path(kept))
        if kept.body is not None:
            return _network(kept.body, state)
        return state if name == "state" else Samples(state)

    def _path(self, kept: Kept) -> Path:
        return Path(self._folder.name) / f"{kept.file}.safetensors"

    def _exemplar(self, module: nn.Module) -> nn.Module:
        """One network of each architecture: the others are copies of it with weights of their own."""
        kind = architecture(module)
        if kind not in self._exemplars:
            self._exemplars[kind] = module.cpu()
        return self._exemplars[kind]


def _state(thing: Any) -> Any:
    """What is written of a thing: nested dicts and lists of tensors and plain values."""
    if isinstance(thing, Network):
        state = thing.state()
        passing = {name: buffer for name, buffer in thing.tensors().items() if name not in state["weights"]}
        return {**state, "passing": passing}  # buffers that a module leaves out of its state
    return dict(thing.columns) if isinstance(thing, Samples) else thing


def _mark(thing: Any) -> Mark | None:
    """The mark of samples and networks; None for anything else, which is written whenever it was looked at."""
    if isinstance(thing, Samples):
        return tuple((name, *_seen(column)) for name, column in thing.columns.items())
    if isinstance(thing, Network):
        memory = [value for moments in thing.optimizer_state.values() for value in moments.values()]
        tensors = [*thing.tensors().values(), *(value for value in memory if isinstance(value, Tensor))]
        return (id(thing), id(thing.optimizer_state), tuple(_seen(tensor) for tensor in tensors))
    return None


def _seen(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor._version


def _network(body: nn.Module, state: dict[str, Any]) -> Network:
    network = Network(copy.deepcopy(body))
    network.restore(state)
    for name, buffer in state["passing"].items():
        network.tensors()[name].copy_(buffer)
    return network
