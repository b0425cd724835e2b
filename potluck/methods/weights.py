"""Sharing weights: what FedAvg and its relatives have in common.

Everyone tells at joining which entries its state has; for each entry one participant, the first by name, gives the
values that all start from; after each round the server takes a mean of each entry over those who hold it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PositiveInt
from torch import Tensor

from potluck.errors import MisfitError
from potluck.method import Method, Steps, exchange
from potluck.methods.windows import WindowMean
from potluck.participant import Participant
from potluck.payload import Form, Like, Payload, dtype_named
from potluck.requests import Exchange, Request
from potluck.server import Answers, Server


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
        mine = self.shared(me)
        facts = {"samples": len(me.data), "layout": layout_of(mine)}
        reply = yield Exchange("greet", Payload(facts=facts))
        start = Payload({name: mine[name] for name in reply.facts["send"]})
        self.take(me, (yield Exchange("start", start)))
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
        return f"{name} {hashlib.sha256(json.dumps(alike).encode()).hexdigest()[:16]}"

    @exchange(lambda self, server, sender: Form(facts={"samples": PositiveInt, "layout": Layout}))
    def greet(self, server: Server, answers: Answers) -> dict[str, Payload]:
        """Notes how much data and which entries each has, and asks one owner of each for its first values."""
        facts = {sender: payload.facts for sender, payload in answers}
        samples, layouts = server.state.setdefault("samples", {}), server.state.setdefault("layouts", {})
        first = min(layouts or facts)
        samples.update({sender: fact["samples"] for sender, fact in facts.items()})
        layouts.update({sender: fact["layout"] for sender, fact in facts.items()})
        send: dict[str, list[str]] = {sender: [] for sender in facts}
        seen = set(server.state.setdefault("global", {}))
        for sender in sorted(facts):
            layout = layouts[sender]
            if self.aggregation == "whole" and layout != layouts[first]:
                raise MisfitError(f"{sender}'s model differs in shape from {first}'s; expected the same.")
            send[sender] = [name for name in layout if self.key(layout, name) not in seen]
            seen.update(self.key(layout, name) for name in layout)
        server.state["send"] = send
        return {sender: Payload(facts={"send": names}) for sender, names in send.items()}

    @exchange(lambda self, server, sender: form_of(server.state["layouts"][sender], server.state["send"][sender]))
    def start(self, server: Server, answers: Answers) -> dict[str, Payload]:
        """Hands the first values to everyone."""
        senders = []
        for sender, payload in answers:
            layout = server.state["layouts"][sender]
            server.state["global"].update({self.key(layout, name): entry for name, entry in payload.tensors.items()})
            senders.append(sender)
        if refused := sorted(name for name, send in server.state["send"].items() if send and name not in senders):
            raise MisfitError(f"{refused[0]} was to give the weights to start from, but they were refused.")
        return {sender: Payload(self.entries(server, sender)) for sender in senders}

    @exchange(lambda self, server, sender: Form())
    def fetch(self, server: Server, answers: Answers) -> dict[str, Payload]:
        """Hands what there is by now to whoever sat out."""
        return {sender: self.reply(server, sender) for sender, _ in answers}

    def reply(self, server: Server, sender: str) -> Payload:
        """What a participant is told at the end of a round."""
        return Payload(self.entries(server, sender))

    def entries(self, server: Server, sender: str) -> dict[str, Tensor]:
        """The current values of a participant's entries."""
        layout = server.state["layouts"][sender]
        return {name: server.state["global"][self.key(layout, name)] for name in layout}


class Merge:
    """The weighted mean of each entry over those who hold it, as answers come."""

    def __init__(self, method: WeightSharing, server: Server) -> None:
        self._method, self._server = method, server
        self._means = {key: WindowMean(entry.shape) for key, entry in server.state["global"].items()}

    def add(self, sender: str, tensors: Mapping[str, Tensor]) -> None:
        """Merges one participant's entries: w ← Σ (n_k / n) w_k."""
        state = self._server.state
        samples = state["samples"][sender] if self._method.weighting == "samples" else 1
        for name in state["layouts"][sender]:
            key = self._method.key(state["layouts"][sender], name)
            self._means[key].add(tensors[name], samples * self._server.credibility[sender])

    def finish(self) -> None:
        """Puts the means in the place of the old values; what nobody sent stays."""
        old = self._server.state["global"]
        self._server.state["global"] = {key: mean.result(old[key]) for key, mean in self._means.items()}


def layout_of(entries: Mapping[str, Tensor]) -> Layout:
    """Each entry's type and shape, in plain values."""
    return {name: [str(entry.dtype).removeprefix("torch."), *entry.shape] for name, entry in entries.items()}


def form_of(layout: Layout, names: list[str] | None = None, more: Mapping[str, Like] | None = None) -> Form:
    """The form of answers that carry these entries of a layout, and perhaps more."""
    chosen = layout if names is None else names
    return Form({**{name: _like(*layout[name]) for name in chosen}, **(more or {})})


def _like(kind: str | int, *shape: str | int) -> Like:
    return Like(tuple(int(length) for length in shape), dtype_named(str(kind)))
