"""A method: what the parties do. Both halves stand in one class, the participant's and the server's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from potluck.core.architecture import Layout, difference
from potluck.core.errors import ModelError, SettingsError, nearest
from potluck.core.payload import Payload
from potluck.core.requests import Request, Work
from potluck.core.schema import Schema
from potluck.core.settings import Settings
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.learners.structure import convolutions

Steps = Generator[Request, Any, dict[str, Any] | None]
"""A participant's half: yields requests, returns what to note in the history."""

Replies = Payload | Mapping[str, Payload]
"""The server's answer: one payload for all who asked, or one for each by name."""

ServerSteps = Generator[Work, Any, Replies]
"""A server's half that asks for work of its own (as MHAT's does)."""

Contract = Callable[[Any, Server, str], Schema]
ServerFunction = TypeVar("ServerFunction", bound=Callable[..., Replies | ServerSteps])


def exchange(contract: Contract) -> Callable[[ServerFunction], ServerFunction]:
    """Marks the server's half of one exchange and says what answers must look like.

    ``contract(method, server, sender)`` gives the Schema an answer is checked against before the marked
    function sees it. An answer that does not fit is refused with its sender's name.
    """

    def mark(function: ServerFunction) -> ServerFunction:
        function.contract = contract  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class Needs:
    """What a method needs of its participants and of the federation. It is checked before any training."""

    torch_module: bool = False
    """Every participant brings a torch module, whose parameters, inner layers and gradients the method uses."""
    same_architecture: bool = False
    """All networks have entries of the same names, shapes and types."""
    own_norms: bool = False
    """Normalisation layers stay with their participants, so these may differ in networks of the same architecture."""
    convolutions: bool = False
    """Every participant's network has convolutions."""
    stages: bool = False
    """Every participant's network falls into extractor, intermediate layers and classifier."""
    public: Literal["nothing", "inputs", "labels"] = "nothing"
    one_label_space: bool = False
    shared_labels: bool = False
    """Every participant has at least one label in common with another."""

    def unmet(self, participants: Sequence[Participant], public: Literal["nothing", "inputs", "labels"]) -> list[str]:
        """Every reason why a federation cannot use the method; none if it can."""
        reasons = []
        if self.public != "nothing" and public == "nothing":
            reasons.append("it needs public data, and there is none; add `public`")
        if self.public == "labels" and public == "inputs":
            reasons.append("it needs labels on the public data, and there are none; add them to `public`")
        here = [p for p in participants if p.is_local]  # whoever is elsewhere looks into its own model
        black_boxes = [p.name for p in here if not p.learner.shows_layers]
        if self.torch_module and black_boxes:
            reasons.append(f"it looks into models, and these are no torch modules: {_some(black_boxes)}")
        if not black_boxes:
            reasons += self._unseen(here)
        if self.same_architecture and here and not black_boxes:
            layouts = {p.name: self._layout(p) for p in here}
            expected = layouts[here[0].name]
            unlike = [name for name, layout in layouts.items() if layout != expected]
            if unlike:
                reasons.append(
                    f"it averages whole models, and these differ from {here[0].name}'s: {_some(unlike)}; "
                    f"{unlike[0]}'s {difference(layouts[unlike[0]], expected)}"
                )
        if self.one_label_space:
            first, *others = participants
            odd = [p.name for p in others if p.labels != first.labels]
            if odd:
                reasons.append(
                    f"it needs one label space, and these differ from {first.name}'s {list(first.labels)}: "
                    f"{_some(odd)}; give all of them the same `labels`"
                )
        if self.shared_labels:
            for p in participants:
                if not any(set(p.labels) & set(q.labels) for q in participants if q is not p):
                    reasons.append(f"{p.name} has no class in common with anyone: its labels are {list(p.labels)}")
        return reasons

    def _layout(self, participant: Participant) -> Layout:
        network = participant.network
        kept = network.norm_entries() if self.own_norms else set()
        return {name: entry for name, entry in network.architecture.layout.items() if name not in kept}

    def _unseen(self, participants: Sequence[Participant]) -> list[str]:
        """What inspection should find in every network and did not."""
        looks: list[Callable[[Participant], Any]] = []
        if self.convolutions:
            looks.append(lambda p: convolutions(p.model))
        if self.stages:
            looks.append(lambda p: p.stages)
        reasons = []
        for look in looks:
            for p in participants:
                try:
                    look(p)
                except ModelError as error:
                    reasons.append(f"{p.name}: {error}")
        return reasons


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


class Method(Settings):
    """The base of every method. A method's settings are its fields; its file holds only what its paper adds.

    The participant's half is two generators, ``join`` and ``round``, which yield Fit, Predict, Tap and Exchange.
    The server's half is one function for each exchange, of the exchange's name, marked with ``@exchange``: it
    takes the server and the answers as they arrive, may itself be a generator that yields Fit and Predict,
    and returns one reply for all or one for each.
    """

    needs: ClassVar[Needs] = Needs()
    keep_optimizer: ClassVar[bool] = False
    """Whether optimizers remember across trainings, unless the federation says otherwise."""
    sends: ClassVar[Mapping[str, str]] = {}
    """What a participant sends in each exchange, in words: its owner reads them before it joins others elsewhere."""
    notes: ClassVar[Mapping[str, type]] = {}
    """What a participant's half may note in the history, and of which type: bool, int, float or str. Over a network
    nothing else is read."""
    late_joining: ClassVar[bool] = False
    """Whether someone may still join when others have: its server's half adds to what it knows of those."""

    def requires(self) -> Needs:
        """What it needs with the settings it has; ``needs`` where settings make no difference."""
        return self.needs

    def join(self, me: Participant) -> Steps:
        """Tells the server what it must know, and takes back what the participant must know. Once."""
        yield from ()
        return None

    def round(self, me: Participant) -> Steps:
        """One round at one participant."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a participant does in a round.")

    @classmethod
    def exchanges(cls) -> list[str]:
        """The names of the exchanges the server answers, in the order the method defines them."""
        marked = [n for kind in reversed(cls.__mro__) for n, half in vars(kind).items() if hasattr(half, "contract")]
        return [name for name in dict.fromkeys(marked) if hasattr(getattr(cls, name), "contract")]

    @classmethod
    def described_exchanges(cls) -> dict[str, str]:
        """What a participant sends in each exchange, in words, in the order of the exchanges."""
        return {name: cls.sends.get(name, "the method does not say what") for name in cls.exchanges()}

    def answered_by(self, name: str) -> tuple[Callable[[Server, Answers], Any], Callable[[Server, str], Schema]]:
        """The server's half of an exchange, and the form its answers must have."""
        if name not in self.exchanges():
            raise SettingsError(f"{type(self).__name__} has no exchange {name!r}.{nearest(name, self.exchanges())}")
        function = getattr(self, name)
        return function, partial(function.contract, self)
