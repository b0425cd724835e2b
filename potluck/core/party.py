"""What stands between engines and federations: a party as an engine sees it, where it has come to, where it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from potluck.core.learner import Learner
from potluck.core.model_spec import ModelSpec
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.core.tasks import Task

if TYPE_CHECKING:
    from potluck.core.requests import Exchange


class Party(Protocol):
    """Yields requests: a participant or the server."""

    @property
    def name(self) -> str:
        """Its name, unique in a federation."""

    @property
    def seed(self) -> int:
        """What its random numbers derive from."""

    @property
    def round(self) -> int:
        """The round it is in; 0 while it joins."""

    @property
    def task(self) -> Task:
        """What is learned."""

    @property
    def working_bytes(self) -> int:
        """About how much memory it takes while it works."""

    def learner_for(self, model: str | None) -> Learner:
        """The learner that a request is for: the one it names, or the party's own."""

    def learners_for(self, models: Sequence[str]) -> Learner:
        """Several of the party's learners as one, which trains them together."""

    def spec_of(self, model: str) -> ModelSpec | None:
        """How a model was declared; None for the party's own."""

    def samples_for(self, asked: Samples | None) -> Samples:
        """The samples that a request is about: those it names, or the party's own."""

    def plan_for(self, asked: Plan | None) -> Plan:
        """The plan that a request follows: the one it names, or the party's own."""


class Storage(Protocol):
    """Where parties are while others run."""

    def pin(self, parties: Sequence[Party]) -> None:
        """Has these in memory until others are pinned or ``evict`` is called."""

    def evict(self, parties: Iterable[Party]) -> None:
        """Puts these away; nobody is pinned any more."""

    def load(self, party: Any, name: str) -> None:
        """Brings a field of a party into this process's memory, into ``party.held``."""

    def release(self, party: Any) -> None:
        """Gives all of a party back, for good."""


class Movable(Party, Protocol):
    """A party that can live in another process.

    Args:
        held: its fields that are in memory.
        round: the round it is in.
    """

    held: dict[str, Any]
    round: int

    @property
    def changing(self) -> Sequence[str]:
        """Those of its fields that its half changes; all others stay as they are."""


class Host(Protocol):
    """An engine that participants live with."""

    def take(self, parties: Sequence[Movable]) -> None:
        """Sends parties away."""

    def fields(self, name: str) -> Mapping[str, Any]:
        """What of a party changes, as the last phase left it."""

    def put_back(self, changed: Mapping[str, Mapping[str, Any]]) -> None:
        """Sends after them what was changed here."""

    def forget(self, name: str) -> None:
        """A party is none of the engine's any more."""


@dataclass(frozen=True)
class Arrival:
    """A participant has come to an exchange, or (``exchange`` None) to the end of its half.

    Args:
        sender: the participant's name.
        exchange: the exchange it has come to.
        notes: what its half returned for the history, at the end.
        seconds: how long it has worked so far.
        steps: how many optimizer steps it has taken so far.
        failed: why its half ended early, as when it did not answer in time.
        received: bytes that were sent to it besides the server's replies, as public data are.
    """

    sender: str
    exchange: Exchange | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0
    failed: str | None = None
    received: int = 0
