"""A method: what the parties do. One class holds both halves, the participant's and the server's."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from potluck.core.architecture import Layout, difference
from potluck.core.errors import ModelError, SettingsError, nearest
from potluck.core.exchange_order import ExchangeTurn, Phase
from potluck.core.inputs import InputKinds, alike, describe
from potluck.core.model_spec import OWN, Declared
from potluck.core.payload import Payload
from potluck.core.requests import Predict, Request, Work
from potluck.core.samples import Samples
from potluck.core.schema import Schema
from potluck.core.settings import Settings
from potluck.engines.base import Answering, own_model
from potluck.federation.participant import Participant
from potluck.federation.replies import ReplyContract
from potluck.federation.server import Answers, Server
from potluck.learners.structure import convolutions

Steps = Generator[Request, Any, dict[str, Any] | None]
"""A participant's half: yields requests, returns what to note in the history."""

Answer = Generator[Work, Any, Any]
"""How one answers inputs: yields readings, returns a row for each input; None where nothing can be answered yet."""

Replies = Payload | Mapping[str, Payload]
"""The server's replies: one payload for all senders, or one for each by name."""

ServerSteps = Generator[Work, Any, Replies]
"""A server's half that asks for work of its own (as MHAT's does)."""

Leaving = Literal["weights", "features", "predictions", "statistics"]
"""What can leave a participant: weights of its model, what inner layers make of samples, answers to inputs, and plain
counts, names and shapes."""

Contract = Callable[[Any, Server, str], Schema]
ServerFunction = TypeVar("ServerFunction", bound=Callable[..., Replies | ServerSteps])


def exchange(
    contract: Contract,
    *,
    phase: Phase | None = None,
    optional: bool = False,
    repeats: bool = False,
    reply: ReplyContract | None = None,
) -> Callable[[ServerFunction], ServerFunction]:
    """Marks the server's half of one exchange, and says when it is due and what answers must look like.

    A participant comes to the exchanges of a phase in the order in which the method defines them, to each once. An
    answer that is not due is refused with its sender's name, as is one that does not fit its contract.

    Args:
        contract: (method, server, sender) → the Schema that this sender's answer is checked against before the marked
            function gets it.
        phase: "join" for an exchange of joining, "round" for one of rounds. By default it is due as the exchange that
            it overrides, or once in a round if it overrides none.
        optional: whether a participant may pass it by; by default False.
        repeats: whether it may come more than once in a phase, and those after it with it; by default False.
        reply: (method, me, what was sent) → the Schema that a reply from another machine is checked against before the
            participant's half gets it; of what was sent, the schema of just these tensors. By default as the exchange
            that it overrides; if that says nothing, numbers must be finite and bounded, and not negative where they
            never are.
    """

    def mark(function: ServerFunction) -> ServerFunction:
        function.contract = contract  # type: ignore[attr-defined]
        function.reply = reply  # type: ignore[attr-defined]
        said = phase is not None or optional or repeats
        function.turn = ExchangeTurn(phase or "round", optional, repeats) if said else None  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class Needs:
    """What a method needs of its participants and of the federation. It is checked before any training.

    Args:
        torch_module: every participant brings a torch module, whose parameters, inner layers and gradients the method
            uses; by default False.
        same_architecture: all networks have entries of the same names, shapes and types; by default False.
        own_norms: normalisation layers stay with their participants, so that they may differ between networks that are
            averaged; by default False.
        own_layers: how many of the last layers with parameters stay with their participants, so that they may differ
            between networks that are averaged; by default 0.
        convolutions: every participant's network has convolutions; by default False.
        stages: every participant's network has stages: extractor, intermediate layers, classifier; by default False.
        head: every participant's network has a head, the last layer with parameters or as its owner names it, and
            layers before it; by default False.
        validation: every participant holds data back to choose by; by default False.
        public: there is public data, with "inputs" or also "labels", and all bring inputs like it; by default "nothing"
            is needed.
        one_input_shape: what models read has one shape and one kind of number at all participants; by default False.
        one_label_space: all participants have the same label space; by default False.
        shared_labels: every participant has at least one label in common with another; by default False.
        tasks: the tasks that it serves, by their short forms; or "any", as for what averages weights and trains by the
            task's loss (``task_loss``). By default classification alone.
        own_targets: every participant has targets of its own to train on; by default True.
    """

    torch_module: bool = False
    same_architecture: bool = False
    own_norms: bool = False
    own_layers: int = 0
    convolutions: bool = False
    stages: bool = False
    head: bool = False
    validation: bool = False
    public: Literal["nothing", "inputs", "labels"] = "nothing"
    one_input_shape: bool = False
    one_label_space: bool = False
    shared_labels: bool = False
    tasks: Literal["any"] | tuple[str, ...] = ("classification",)
    own_targets: bool = True

    def unmet(
        self,
        participants: Sequence[Participant],
        public: Literal["nothing", "inputs", "labels"],
        shown: InputKinds | None = None,
    ) -> list[str]:
        """Every reason why a federation cannot use the method; none if it can.

        Args:
            participants: who would take part.
            public: what there is of public data.
            shown: what the inputs of the public data look like.
        """
        reasons = []
        if self.public != "nothing" and public == "nothing":
            reasons.append("it needs public data, and there is none; add `public`")
        if self.public == "labels" and public == "inputs":
            reasons.append("it needs labels on the public data, and there are none; add them to `public`")
        odd = [p for p in participants if self.tasks != "any" and p.task.KIND not in self.tasks]
        if odd:
            reasons.append(
                f"it serves {_or(self.tasks)}, and the task of these is another one: "
                + _some([f"{p.name} ({p.task.KIND})" for p in odd])
            )
        here = [p for p in participants if p.is_local]  # a participant on another machine checks its own model
        if self.public != "nothing" and shown is not None:
            reasons += _unlike([(p.name, p.kinds) for p in here], "the public data", shown)
        if self.one_input_shape:
            first, *others = participants
            reasons += _unlike([(p.name, p.data.kinds) for p in others], first.name, first.data.kinds)
        black_boxes = [p.name for p in here if not p.learner.shows_layers]
        if self.torch_module and black_boxes:
            reasons.append(f"it looks into models, and these are no torch modules: {_some(black_boxes)}")
        unseen = [] if black_boxes else self._unseen(here)
        reasons += unseen
        unlabelled = [p.name for p in here if self.own_targets and not p.labelled]
        if unlabelled:
            reasons.append(f"it trains everybody on targets of their own, and these have none: {_some(unlabelled)}")
        without = [p.name for p in here if p.validation is None]
        if self.validation and without:
            reasons.append(f"it needs validation data, and these have none: {_some(without)}; pass `validation`")
        if self.same_architecture and here and not black_boxes and not unseen:
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
            unlike = [p.name for p in others if p.task.kind != first.task.kind]
            if unlike and first.labels:
                reasons.append(
                    f"it needs one label space, and these differ from {first.name}'s {list(first.labels)}: "
                    f"{_some(unlike)}; give all of them the same `labels`"
                )
            elif unlike:
                task = f"{first.name}'s ({first.task})"
                reasons.append(f"it needs one task, and these differ from {task}: {_some(unlike)}")
        if self.shared_labels:
            kinds = {p.task.KIND: p.name for p in participants}
            if len(kinds) > 1:
                reasons.append(f"it needs one kind of task, and there are {_some(sorted(kinds))}")
            for p in participants:
                if p.labels and not any(set(p.labels) & set(q.labels) for q in participants if q is not p):
                    reasons.append(f"{p.name} has no class in common with anyone: its labels are {list(p.labels)}")
        return reasons

    def _layout(self, participant: Participant) -> Layout:
        network = participant.network
        personal = network.norm_entries() if self.own_norms else set()
        personal |= network.entries_in(participant.last_layers(self.own_layers))
        return {name: entry for name, entry in network.architecture.layout.items() if name not in personal}

    def _unseen(self, participants: Sequence[Participant]) -> list[str]:
        """What inspection needs to find in every network, and does not."""
        looks: list[Callable[[Participant], Any]] = []
        if self.convolutions:
            looks.append(lambda p: convolutions(p.model))
        if self.stages:
            looks.append(lambda p: p.stages)
        if self.own_layers:
            looks.append(lambda p: p.last_layers(self.own_layers))
        if self.head:
            looks.append(lambda p: p.body)
        found: dict[str, dict[str, None]] = {}  # several looks may find the same
        for look in looks:
            for p in participants:
                try:
                    look(p)
                except ModelError as error:
                    found.setdefault(str(error).removeprefix(f"{p.name}: "), {})[p.name] = None
        return [f"{_some(list(names))}: {reason}" for reason, names in found.items()]


def _unlike(owners: Sequence[tuple[str, InputKinds]], other: str, theirs: InputKinds) -> list[str]:
    """Why inputs that must be alike are not."""
    found = {name: describe(kinds) for name, kinds in owners if not alike(kinds, theirs)}
    if not found:
        return []
    first = next(iter(found))
    return [
        f"it needs inputs of one kind, and {other} has inputs of {describe(theirs)}, {first} of {found[first]}; they "
        f"are unlike at {_some(list(found))}. Convert them before they join"
    ]


def _or(tasks: Sequence[str]) -> str:
    *others, last = tasks
    return f"{', '.join(others)} and {last} alone" if others else f"{last} alone"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


class Method(Settings):
    """The base of every method. A method's settings are its fields; its file holds only what its paper adds.

    The participant's half is two generators, ``join`` and ``round``, which yield Fit, Predict, Tap and Exchange, and
    a third one, ``predict``, where it answers in a way of its own.
    The server's half is one function for each exchange, of the exchange's name, marked with ``@exchange``: it
    takes the server and the answers as they arrive, may itself be a generator that yields Fit and Predict,
    and returns one reply for all or one for each.

    A subclass may set:
        needs: what it needs of participants and of the federation; by default nothing.
        keep_optimizer: whether optimizers remember across trainings, unless the federation says otherwise; by default
            False.
        sends: exchange → what a participant sends in it, as text that its owner reads before joining a real
            federation; by default nothing is said.
        leaves: exchange → what kinds of things leave in it, for owners who allow some of them only; by default nothing
            is said.
        notes: name → type (bool, int, float or str) of what a participant's half may note in the history; by default
            nothing. Over a network nothing else is read.
        reports: further models of each participant, beside its own way of answering, whose answers are evaluated on its
            test data, e.g. ("global",) where a personal and a global model are compared; by default none.
        server_reports: models of the server's that are evaluated on the federation's test data; by default none.
        uses_models: whether participants' models are used; by default True. A study of data needs none, and gets the
            data as they were brought.
        late_joining: whether participants may still join after others have, since the server's half of joining adds to
            what it knows; by default False.
    """

    needs: ClassVar[Needs] = Needs()
    keep_optimizer: ClassVar[bool] = False
    sends: ClassVar[Mapping[str, str]] = {}
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {}
    notes: ClassVar[Mapping[str, type]] = {}
    reports: ClassVar[tuple[str, ...]] = ()
    server_reports: ClassVar[tuple[str, ...]] = ()
    uses_models: ClassVar[bool] = True
    late_joining: ClassVar[bool] = False

    def requires(self) -> Needs:
        """What it needs with the settings it has; ``needs`` where settings make no difference."""
        return self.needs

    def reported(self) -> tuple[str, ...]:
        """Which further models it reports with the settings it has; ``reports`` where settings make no difference."""
        return self.reports

    @property
    def prepares(self) -> bool:
        """Whether it has a ``prepare`` of its own."""
        return type(self).prepare is not Method.prepare

    def prepare(self, me: Participant, model: Any) -> Any:
        """The model that a participant trains, made of the one that it brought: with adapters in, with another head.

        It runs when a participant joins, before anything is trained or restored, and must do the same each time. A
        model that was brought as an object is copied before, but for what is frozen in it: several participants may
        bring one object, whose frozen weights they then hold together. Random numbers drawn here are the same at every
        participant; those of ``me.generator`` are its own.

        Args:
            me: the participant; its data, labels and plan are known.
            model: what it brought, or what its builder made.
        """
        return model

    def models(self, me: Participant) -> Declared:
        """The networks that a participant has beside its own, by name: how each is built and trained. None by default.

        In the participant's half they are ``me.models[name]``, and requests name them: ``Fit(model=name)``,
        ``Fit(objective, models=("own", name))``, ``Predict(samples, model=name)``.
        """
        return {}

    def server_models(self, server: Server) -> Declared:
        """The server's networks, by name: how each is built and trained. None by default.

        In the server's half they are ``server.models[name]``, and requests name them. They are built once the first
        participants have joined.
        """
        return {}

    def join(self, me: Participant) -> Steps:
        """Joining, once, at one participant: exchanges what both sides must know before the first round."""
        yield from ()
        return None

    def round(self, me: Participant) -> Steps:
        """One round at one participant."""
        raise NotImplementedError(f"{type(self).__name__} has no `round`; expected a generator that yields requests.")

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        """One participant's answers to inputs: what is evaluated, and what ``me.predict`` gives its owner.

        It yields readings alone, returns probabilities, a row for each input, and leaves the participant as it is. It
        may be asked of a participant that has not taken part yet. By default the participant's own model answers.
        """
        return (yield Predict(inputs))

    def predict_with(self, model: str, party: Participant | Server, inputs: Samples) -> Answer:
        """What one of the models in ``reports`` or ``server_reports`` answers, as ``predict`` does.

        By default the party's network of that name. None where there is no such model yet: then nothing is reported.
        """
        if model in party.models:
            return (yield Predict(inputs, model=model))
        return None

    def results(self, server: Server) -> dict[str, Any]:
        """What a run's summary says of what the server has learned, as plain values; nothing by default."""
        return {}

    def answering(self) -> dict[str, Answering]:
        """The ways in which a participant answers: its own, and with each model that is reported."""
        own = own_model if type(self).predict is Method.predict else self.predict
        return {OWN: own, **{model: partial(self.predict_with, model) for model in self.reported()}}

    def server_answering(self) -> dict[str, Answering]:
        """The ways in which the server answers."""
        return {model: partial(self.predict_with, model) for model in self.server_reports}

    @classmethod
    def exchanges(cls) -> list[str]:
        """The names of the exchanges the server answers, in the order the method defines them."""
        marked = [n for kind in reversed(cls.__mro__) for n, half in vars(kind).items() if hasattr(half, "contract")]
        return [name for name in dict.fromkeys(marked) if hasattr(getattr(cls, name), "contract")]

    @classmethod
    def turns(cls) -> dict[str, ExchangeTurn]:
        """When each exchange is due, in the order of the exchanges."""
        return {name: cls._turn(name) for name in cls.exchanges()}

    @classmethod
    def _turn(cls, name: str) -> ExchangeTurn:
        """When an exchange is due: as the newest of those who define it says."""
        said = (getattr(vars(kind).get(name), "turn", None) for kind in cls.__mro__)
        return next((turn for turn in said if turn is not None), ExchangeTurn())

    @classmethod
    def described_exchanges(cls) -> dict[str, str]:
        """What a participant sends in each exchange, as text, in the order of the exchanges."""
        return {name: cls.sends.get(name, "the method does not say what") for name in cls.exchanges()}

    def answered_by(self, name: str) -> tuple[Callable[[Server, Answers], Any], Callable[[Server, str], Schema]]:
        """The server's half of an exchange, and the schema of its answers."""
        if name not in self.exchanges():
            raise SettingsError(f"{type(self).__name__} has no exchange {name!r}.{nearest(name, self.exchanges())}")
        function = getattr(self, name)
        return function, partial(function.contract, self)
