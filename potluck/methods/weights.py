"""Sharing weights: what FedAvg and its relatives have in common.

Everyone tells at joining which entries its state has; for each entry one participant, the first by name, gives the
values that all start from; after each round the server takes a mean of each entry over those who hold it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PositiveInt
from torch import Tensor

from potluck.errors import MisfitError
from potluck.learners.structure import difference, layout_of
from potluck.method import Method, Steps, exchange
from potluck.methods.windows import WindowMean
from potluck.participant import Participant
from potluck.payload import Form, Like, Payload, dtype_named
from potluck.requests import Exchange, Request
from potluck.server import Answers, Each, Server


def _entry(told: list[str | int]) -> list[str | int]:
    """A type that can travel, then a shape."""
    kind, *shape = told
    dtype_named(str(kind))
    if not all(isinstance(length, int) and 0 <= length < 2**40 for length in shape):
        raise ValueError(f"{told} is no type and shape")
    return told


Layout = dict[str, Annotated[list[str | int], Field(min_length=1, max_length=9), AfterValidator(_entry)]]
"""Each entry's type and shape, e.g. ``{"fc.bias": ["float32", 10]}``."""


class WeightSharing(Method):
    """Joining, and the mean.

    ``aggregation``: "whole" models of one architecture, "layerwise" (each entry over all who own that name and shape,
    whatever the rest of their model), or "same-architecture" (whole models among those that are alike).
    ``weighting``: a model counts by its number of samples, or all count the same; credibility weights multiply.
    ``batchnorm``: normalisation layers are averaged like the rest, or stay with their participant.
    """

    aggregation: Literal["whole", "layerwise", "same-architecture"]
    weighting: Literal["samples", "uniform"]
    batchnorm: Literal["average", "local"] = "average"

    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {
        "greet": "how many samples it has, and the name, shape and type of every weight it shares, once",
        "start": "the weights that all start from, if it is the first by name to have them, once",
        "fetch": "that it sat out and asks for the current weights",
        "weights": "every weight of its trained model (without normalisation layers, if batchnorm is local)",
    }

    def join(self, me: Participant) -> Steps:
        facts = {"samples": len(me.data), "layout": layout_of(self.shared(me))}
        send = (yield Exchange("greet", Payload(facts=facts))).facts["send"]
        # Nothing large is in a variable while others are waited for: it would stay in memory for all of them.
        self.take(me, (yield Exchange("start", Payload({n: e for n, e in self.shared(me).items() if n in send}))))
        me.state["round"] = 0
        return None

    def shared(self, me: Participant) -> dict[str, Tensor]:
        """What a participant shares of its state."""
        kept = me.network.norm_entries() if self.batchnorm == "local" else set()
        return {name: entry for name, entry in me.weights().items() if name not in kept}

    def catch_up(self, me: Participant) -> Generator[Request, Any, Payload | None]:
        """A participant that sat out, or was refused, fetches what the others have by now."""
        if me.state["round"] == me.round - 1:
            return None
        news: Payload = yield Exchange("fetch", Payload())
        self.take(me, news)
        return news

    def take(self, me: Participant, reply: Payload) -> None:
        """Loads the weights in a reply."""
        me.load(reply.tensors)

    def key(self, layout: Layout, name: str) -> str:
        """Entries of one key are averaged."""
        alike = layout[name] if self.aggregation == "layerwise" else layout
        return f"{name} {hashlib.sha256(_text(alike).encode()).hexdigest()[:16]}"

    def keys(self, server: Server, sender: str) -> dict[str, str]:
        """The key of each of a participant's entries; worked out once for each layout."""
        layout = server.state["layouts"][sender]
        known: dict[int, tuple[Layout, dict[str, str]]] = server.memo.setdefault("keys", {})
        if id(layout) not in known:  # the layout is kept beside its keys, so that its id stays its own
            known[id(layout)] = (layout, {name: self.key(layout, name) for name in layout})
        return known[id(layout)][1]

    @exchange(lambda self, server, sender: Form(facts={"samples": PositiveInt, "layout": Layout}))
    def greet(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Notes how much data and which entries each has, and asks one owner of each for its first values."""
        layouts = Layouts(server.state.get("layouts"))  # of those who joined before, if any
        first = min(layouts.told, default=None)
        samples: dict[str, int] = {}
        for sender, payload in answers:
            samples[sender] = payload.facts["samples"]
            layouts.add(sender, payload.facts["layout"])
        first = first or min(samples)
        if self.aggregation == "whole":
            odd = sorted(sender for sender in samples if layouts.told[sender] is not layouts.told[first])
            if odd:
                told = difference(layouts.told[odd[0]], layouts.told[first])
                raise MisfitError(f"{odd[0]}'s model differs from {first}'s: {told}.")
        server.state.setdefault("samples", {}).update(samples)
        server.state["layouts"] = layouts.told
        send: dict[str, list[str]] = {}
        seen = set(server.state.setdefault("global", {}))
        for sender in sorted(samples):
            keys = self.keys(server, sender)
            send[sender] = [name for name, key in keys.items() if key not in seen]
            seen.update(keys.values())
        server.state["send"] = send
        return Each(send, lambda sender: Payload(facts={"send": send[sender]}))

    @exchange(lambda self, server, sender: form_of(server.state["layouts"][sender], server.state["send"][sender]))
    def start(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Hands the first values to everyone."""
        senders = []
        for sender, payload in answers:
            keys = self.keys(server, sender)
            server.state["global"].update({keys[name]: entry for name, entry in payload.tensors.items()})
            senders.append(sender)
        if refused := sorted(name for name, send in server.state["send"].items() if send and name not in senders):
            raise MisfitError(f"{refused[0]} was to give the weights to start from, but they were refused.")
        return Each(senders, lambda sender: Payload(self.entries(server, sender)))

    @exchange(lambda self, server, sender: Form())
    def fetch(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Hands what there is by now to whoever sat out."""
        return self.replies(server, [sender for sender, _ in answers])

    def replies(self, server: Server, senders: Iterable[str]) -> Mapping[str, Payload]:
        """What each of them is told."""
        return Each(senders, lambda sender: self.reply(server, sender))

    def reply(self, server: Server, sender: str) -> Payload:
        """What a participant is told at the end of a round."""
        return Payload(self.entries(server, sender))

    def entries(self, server: Server, sender: str) -> dict[str, Tensor]:
        """The current values of a participant's entries."""
        return {name: server.state["global"][key] for name, key in self.keys(server, sender).items()}


class Merge:
    """The weighted mean of each entry over those who hold it, as answers come."""

    def __init__(self, method: WeightSharing, server: Server) -> None:
        self._method, self._server = method, server
        server.state["layouts"] = Layouts(server.state["layouts"]).told  # from a checkpoint comes one for each
        self._means = {key: WindowMean(entry.shape) for key, entry in server.state["global"].items()}

    def add(self, sender: str, tensors: Mapping[str, Tensor]) -> None:
        """Merges one participant's entries: w ← Σ (n_k / n) w_k."""
        samples = self._server.state["samples"][sender] if self._method.weighting == "samples" else 1
        for name, key in self._method.keys(self._server, sender).items():
            self._means[key].add(tensors[name], samples * self._server.credibility[sender])

    def finish(self) -> None:
        """Puts the means in the place of the old values; what nobody sent stays."""
        old = self._server.state["global"]
        self._server.state["global"] = {key: mean.result(old[key]) for key, mean in self._means.items()}


class Layouts:
    """Who told which layout. Equal ones are one object: a thousand networks of one architecture have one layout."""

    def __init__(self, told: Mapping[str, Layout] | None = None) -> None:
        self.told: dict[str, Layout] = {}
        self._known: dict[str, Layout] = {}
        self._ids: set[int] = set()
        for sender, layout in (told or {}).items():
            self.add(sender, layout)

    def add(self, sender: str, layout: Layout) -> None:
        """Notes one participant's layout."""
        if id(layout) not in self._ids:
            layout = self._known.setdefault(_text(layout), layout)
            self._ids.add(id(layout))
        self.told[sender] = layout


def _text(layout: Any) -> str:
    return json.dumps(layout, sort_keys=True)


def form_of(layout: Layout, names: list[str] | None = None, more: Mapping[str, Like] | None = None) -> Form:
    """The form of answers that carry these entries of a layout, and perhaps more."""
    chosen = layout if names is None else names
    return Form({**{name: _like(*layout[name]) for name in chosen}, **(more or {})})


def _like(kind: str | int, *shape: str | int) -> Like:
    return Like(tuple(int(length) for length in shape), dtype_named(str(kind)))
