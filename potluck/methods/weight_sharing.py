"""Sharing weights: what FedAvg and the methods derived from it have in common.

Every participant sends the layout of its state at joining; for each entry one participant, the first by name, sends the
values that all start from; after each round the server takes a mean of each entry over those who have it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.architecture import Layout, difference, layout_of
from potluck.core.errors import PayloadError
from potluck.core.model_spec import OWN
from potluck.core.payload import LazyReplies, Payload, dtype_named
from potluck.core.requests import Exchange, Request
from potluck.core.schema import Schema, TensorSpec, least
from potluck.federation.agreement import agreed
from potluck.federation.method import Leaving, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import Merger, Merging
from potluck.methods.layout_fact import layout_fact
from potluck.methods.weight_replies import asked_for, started
from potluck.methods.windows import Part, WindowPlace, window

MOST_SAMPLES = 2**40
"""How many samples a participant may say it has."""

Count = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
"""How many samples a participant says it has."""

MEASURED = ("running_mean", "running_var")
"""The last part of the names of entries that normalisation layers measure."""

MOST_ASKED = 100
"""How often a participant is asked for first weights: once, and again where another that was asked has failed."""

_GREETING = ("samples", "layout", "buffers")
"""What all send at joining."""


class WeightSharing(Merging):
    """Joining, and the mean.

    Args:
        aggregation: what is averaged: "whole" models of one architecture, "layerwise" each entry over all who have that
            name and shape, whatever the rest of their model, or "same-architecture" whole models among those of one
            architecture.
        weighting: "samples", so that a model counts by its number of samples, or "uniform", so that all count the same;
            a participant's ``weight`` multiplies it.
        batchnorm: "average" (the default): normalisation layers are averaged like the rest; "local": they stay with
            their participant; "local statistics": their weights and biases are averaged, their running statistics stay.
        max_samples: how many samples of a participant's count at most, so that nobody outweighs all others by its word;
            by default None, for as many as it says.

    A subclass may set:
        shares: which of a participant's models is shared; by default "own", the one that it brought.
        tells_buffers: whether participants also say which entries no optimizer changes, such as running statistics;
            the server then knows its ``parameters``. By default False.
    """

    aggregation: Literal["whole", "layerwise", "same-architecture"]
    weighting: Literal["samples", "uniform"]
    batchnorm: Literal["average", "local", "local statistics"] = "average"
    max_samples: int | None = Field(None, ge=1, le=MOST_SAMPLES)

    shares: ClassVar[str] = OWN
    tells_buffers: ClassVar[bool] = False
    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {
        "greet": "how many samples it has, and the name, shape and type of every weight it shares, once",
        "start": "the weights that all start from, if it is the first by name to have them, once",
        "fetch": "that it sat out, and asks for the current weights",
        "weights": "every weight of its trained model (without normalisation layers, if batchnorm is local)",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        "greet": ("statistics",),
        "start": ("weights",),
        "fetch": (),
        "weights": ("weights",),
    }

    def join(self, me: Participant) -> Steps:
        reply: Payload = yield Exchange("greet", Payload(facts=self.introduction(me)))
        asked = 0
        while "send" in reply.facts:
            # No variable holds anything large while others are waited for: it would stay in memory for all of them.
            asked, send = asked + 1, set(reply.facts["send"])
            if asked > MOST_ASKED:
                raise PayloadError(f"the server asks more than {MOST_ASKED} times for weights to start from")
            reply = yield Exchange("start", Payload({n: e for n, e in self.shared(me).items() if n in send}))
        self.take(me, reply)
        me.state["round"] = 0
        return None

    def network(self, me: Participant) -> Any:
        """The network that a participant shares."""
        return me.network if self.shares == OWN else me.models[self.shares]

    def personal(self, me: Participant) -> set[str]:
        """The entries of that network that stay with the participant."""
        if self.batchnorm == "average":
            return set()
        network = self.network(me)
        norms: set[str] = network.norm_entries()
        return norms if self.batchnorm == "local" else norms - {name for name, _ in network.model.named_parameters()}

    def introduction(self, me: Participant) -> dict[str, Any]:
        """What a participant sends at joining; ``greeting`` is its schema.

        What a subclass adds is in the server's ``state["told"]``, by sender.
        """
        shared = layout_of(self.shared(me))
        facts: dict[str, Any] = {"samples": len(me.data), "layout": shared}
        if self.tells_buffers:
            facts["buffers"] = sorted(set(shared) - self.network(me).trained_entries())
        return facts

    def shared(self, me: Participant) -> dict[str, Tensor]:
        """What a participant shares of that network's state."""
        personal = self.personal(me)
        return {name: entry for name, entry in self.network(me).weights().items() if name not in personal}

    def catch_up(self, me: Participant) -> Generator[Request, Any, Payload | None]:
        """A participant that sat out, or was refused, fetches the current weights."""
        if me.state["round"] == me.round - 1:
            return None
        news: Payload = yield Exchange("fetch", Payload())
        self.take(me, news)
        return news

    def take(self, me: Participant, reply: Payload) -> None:
        """Loads the weights in a reply."""
        self.network(me).load(reply.tensors)

    def entries_schema(self, me: Participant) -> Schema:
        """Values of all entries that a participant shares."""
        return Schema({n: TensorSpec(tuple(e.shape), e.dtype, low=least(n)) for n, e in self.shared(me).items()})

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """What a participant may receive at the end of a round, and when it catches up."""
        return self.entries_schema(me)

    def key(self, layout: Layout, name: str) -> str:
        """Entries of one key are averaged."""
        alike = layout[name] if self.aggregation == "layerwise" else layout
        return f"{name} {digest_of(alike)[:16]}"

    def keys(self, server: Server, sender: str) -> dict[str, str]:
        """The key of each of a participant's entries; worked out once for each layout."""
        known: dict[str, dict[str, str]] = server.memo.setdefault("keys", {})
        digest = server.state["digests"][sender]
        if digest not in known:
            layout = LayoutOnce(server.state["layouts"][sender])
            known[digest] = {name: self.key(layout, name) for name in layout}
        return known[digest]

    def weight(self, server: Server, sender: str) -> float:
        """How much a participant counts in a mean."""
        samples = self.samples(server, sender) if self.weighting == "samples" else 1
        return float(samples * server.participant_weights[sender])

    def samples(self, server: Server, sender: str) -> int:
        """How many samples count of those that a participant says it has, once, at joining."""
        samples: int = server.state["samples"][sender]
        return samples if self.max_samples is None else min(samples, self.max_samples)

    def parameters(self, server: Server) -> set[str]:
        """The keys of the entries that somebody trains: what a server may move by a step of its own.

        All others are buffers, for which only a mean makes sense. Known where ``tells_buffers`` is set.
        """
        return set(server.state["parameters"]).intersection(server.state["global"])

    def greeting(self, server: Server, sender: str) -> Schema:
        """What is sent at joining."""
        buffers = {"buffers": list[str]} if self.tells_buffers else {}
        return Schema(facts={"samples": Count, "layout": layout_fact(server.budget), **buffers})

    def places(self, server: Server, sender: str) -> Mapping[str, WindowPlace]:
        """Where those of a participant's entries lie that are parts of larger ones; by default none is."""
        return {}

    def masks(self, server: Server, sender: str) -> Mapping[str, Tensor]:
        """What counts of a participant's entries, where not all of an entry does."""
        return {}

    @exchange(lambda self, server, sender: self.greeting(server, sender), phase="join", reply=asked_for)
    def greet(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Stores how many samples and which entries each has, and asks one owner of each entry for its first values."""
        layouts, digests = (dict(server.state.get(entry, {})) for entry in ("layouts", "digests"))  # of earlier joiners
        common = digests[min(layouts)] if layouts else None
        samples: dict[str, int] = {}
        trained: dict[str, tuple[str, set[str]]] = {}
        facts = dict(server.state.get("told", {}))
        for sender, payload in answers:
            facts[sender] = {name: fact for name, fact in payload.facts.items() if name not in _GREETING}
            samples[sender] = payload.facts["samples"]
            layouts[sender] = payload.facts["layout"]
            digests[sender] = digest_of(layouts[sender])
            names = trained.setdefault(digests[sender], (sender, set()))[1]
            names.update(set(layouts[sender]) - set(payload.facts.get("buffers", ())))
        if self.aggregation == "whole":
            of = {digests[sender]: layout for sender, layout in layouts.items()}
            common = agreed(
                server,
                {sender: digests[sender] for sender in samples},
                lambda odd, common: f"its model differs from the others': {difference(of[odd], of[common])}",
                common,
            )
            for odd in [sender for sender in samples if digests[sender] != common]:
                del samples[odd], layouts[odd], digests[odd], facts[odd]
            trained = {digest: owner for digest, owner in trained.items() if digest == common}
        server.state.setdefault("samples", {}).update(samples)
        server.state.update(layouts=held_once(layouts, digests), digests=digests)
        server.state.setdefault("global", {})
        if any(facts.values()):
            server.state["told"] = facts
        if self.tells_buffers:
            found = {self.keys(server, sender)[name] for sender, names in trained.values() for name in names}
            server.state["parameters"] = sorted(found.union(server.state.get("parameters", ())))
        self.tell_few(Counter(name for layout in layouts.values() for name in layout))
        return self.ask(server, list(samples))

    def ask(self, server: Server, senders: Sequence[str]) -> Mapping[str, Payload]:
        """Asks some of those who join for values to start from, and has the others wait."""
        send = server.state["send"] = self.owners(server, senders)
        return LazyReplies(send, lambda sender: Payload(facts={"send": send[sender]}))

    def owners(self, server: Server, senders: Sequence[str]) -> dict[str, list[str]]:
        """Of which entries each joiner sends the first values: the first by name to have one that is missing.

        It is asked again, of those who are left, when one of them did not send what it was to send.
        """
        send: dict[str, list[str]] = {}
        seen = set(server.state["global"])
        for sender in sorted(senders):
            keys = self.keys(server, sender)
            send[sender] = [name for name, key in keys.items() if key not in seen]
            seen.update(keys.values())
        return send

    def starting(self, server: Server, sender: str) -> Schema:
        """The first values that a participant was asked for."""
        if sender not in server.state["send"]:
            raise PayloadError("it has the weights to start from already")
        return schema_of(server.state["layouts"][sender], server.state["send"][sender])

    @exchange(starting, phase="join", repeats=True, reply=started)
    def start(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Sends the first values to all, once there are all: instead of one that fails the next owner is asked."""
        values = {sender: payload.tensors for sender, payload in answers}
        self.begin(server, values)
        gone = {sender: names for sender, names in server.state["send"].items() if sender not in values}
        self.forget(server, gone)
        if any(gone.values()) and any(self.owners(server, list(values)).values()):
            return self.ask(server, list(values))
        server.state["send"] = {}
        return LazyReplies(values, lambda sender: Payload(self.entries(server, sender)))

    def forget(self, server: Server, senders: Iterable[str]) -> None:
        """Drops what was stored of participants that did not join after all."""
        for sender in senders:
            for entry in ("layouts", "digests", "samples", "told"):
                server.state.get(entry, {}).pop(sender, None)

    def begin(self, server: Server, values: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Stores the first values."""
        for sender, tensors in values.items():
            keys = self.keys(server, sender)
            server.state["global"].update({keys[name]: entry for name, entry in tensors.items()})

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        """From the old values to the new ones, when all are merged: by default to the means, where there are any."""
        server.state["global"] = {**server.state["global"], **means}

    @exchange(lambda self, server, sender: Schema(), optional=True, reply=by_reply_schema)
    def fetch(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Sends the current weights to those that sat out."""
        return self.replies(server, [sender for sender, _ in answers])

    def replies(self, server: Server, senders: Iterable[str]) -> Mapping[str, Payload]:
        """A reply for each of them, made when it is handed out."""
        return LazyReplies(senders, lambda sender: self.reply(server, sender))

    def reply(self, server: Server, sender: str) -> Payload:
        """What a participant receives at the end of a round: one payload for all who receive the very same tensors."""
        entries = self.entries(server, sender)
        if self.places(server, sender):
            return Payload(entries)
        made: dict[str, Payload] = server.memo.setdefault("replies", {})
        digest = server.state["digests"][sender]
        before = made[digest].tensors if digest in made else {}
        if before.keys() != entries.keys() or any(before[name] is not entry for name, entry in entries.items()):
            made[digest] = Payload(entries)
        return made[digest]

    def entries(
        self, server: Server, sender: str, places: Mapping[str, WindowPlace] | None = None
    ) -> dict[str, Tensor]:
        """The current values of a participant's entries; at other places than its own, if asked for."""
        held = {name: server.state["global"][key] for name, key in self.keys(server, sender).items()}
        layout = server.state["layouts"][sender]
        places = self.places(server, sender) if places is None else places
        windows = {name: window(at, layout[name][1:]) for name, at in places.items()}
        return held | {name: held[name][at].to(dtype_named(layout[name][0])) for name, at in windows.items()}


class Merge:
    """The weighted mean of each entry over those who have it, or what the method's robust rule makes of them.

    Args:
        method: says which entries are averaged and how they are weighted.
        server: holds the current values, which the means replace in ``finish``.
        updates: whether changes of the values are sent, and not new values; by default False.
        more: further values that are merged with them, as they are, by key; by default nothing.
    """

    def __init__(
        self, method: WeightSharing, server: Server, updates: bool = False, more: Mapping[str, Tensor] | None = None
    ) -> None:
        self._method, self._server = method, server
        # From a checkpoint comes one layout for each.
        server.state["layouts"] = held_once(server.state["layouts"], server.state["digests"])
        old = server.state["global"]
        before = {key: torch.zeros_like(entry) for key, entry in old.items()} if updates else old
        self._merger = Merger(method, server, {**before, **(more or {})})

    def add(
        self,
        sender: str,
        tensors: Mapping[str, Tensor],
        masks: Mapping[str, Tensor] | None = None,
        more: Iterable[Part] = (),
    ) -> bool:
        """Merges those entries that a participant has sent: w ← Σ (n_k / n) w_k. Says whether it was not refused.

        Args:
            sender: the participant.
            tensors: what it has sent.
            masks: what counts of it; by default as the method says.
            more: what it has sent besides; by default nothing.
        """
        weight = self._method.weight(self._server, sender)
        at = self._method.places(self._server, sender)
        masks = self._method.masks(self._server, sender) if masks is None else masks
        return self._merger.add(
            sender,
            [
                Part(key, tensors[name], weight, at.get(name), masks.get(name), name.rpartition(".")[2] in MEASURED)
                for name, key in self._method.keys(self._server, sender).items()
                if name in tensors
            ]
            + list(more),
        )

    @property
    def senders(self) -> list[str]:
        """Who is in it."""
        return self._merger.senders

    def means(self) -> dict[str, Tensor]:
        """The mean by key, of the keys of which anybody sent something. The old values stay as they are."""
        return self._merger.results()

    def finish(self) -> None:
        """Replaces the old values by the means, or as the method steps from one to the other."""
        self._method.step(self._server, self.means())


class LayoutOnce(Layout):
    """A layout whose checksum is worked out once, however many of its entries are asked for."""

    @cached_property
    def digest(self) -> str:
        return digest_of(dict(self))


def digest_of(layout: Any) -> str:
    """A checksum of a layout, whatever the order of its entries."""
    if isinstance(layout, LayoutOnce):
        return layout.digest
    return hashlib.sha256(json.dumps(layout, sort_keys=True).encode()).hexdigest()


def held_once(layouts: Mapping[str, Layout], digests: Mapping[str, str]) -> dict[str, Layout]:
    """Everyone's layout, equal ones as one object: a thousand networks of one architecture have one layout."""
    known: dict[str, Layout] = {}
    return {sender: known.setdefault(digests[sender], layout) for sender, layout in layouts.items()}


def schema_of(
    layout: Layout,
    names: list[str] | None = None,
    more: Mapping[str, TensorSpec] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Schema:
    """The schema of answers that carry these entries of a layout, and perhaps more tensors and facts."""
    chosen = layout if names is None else names
    return Schema({**{name: _like(name, *layout[name]) for name in chosen}, **(more or {})}, dict(facts or {}))


@lru_cache(maxsize=4096)
def _like(name: str, kind: str | int, *shape: str | int) -> TensorSpec:
    return TensorSpec(tuple(int(length) for length in shape), dtype_named(str(kind)), low=least(name))
