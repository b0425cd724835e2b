"""Width scaling: participants hold windows of one wide model, as their devices can carry (HeteroFL and its kin).

A participant brings a network of the family, as narrow as it likes; its entries' shapes tell the window. The whole has
the largest size seen in each dimension, or that of the server's ``model``. A class has its row of the head, so label
spaces may differ: a participant holds the rows of its own labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from potluck.core.architecture import Layout
from potluck.core.errors import PayloadError, RequirementsError
from potluck.core.groups import within
from potluck.core.inputs import Batch
from potluck.core.labels import LabelsFact, union
from potluck.core.model_spec import Declared
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.payload import Payload, dtype_named
from potluck.core.requests import Fit
from potluck.core.schema import Schema
from potluck.federation.agreement import agreed
from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.federation.server import Server, ServerModel
from potluck.methods.fedavg import Averaging
from potluck.methods.own_loss import own_loss
from potluck.methods.windows import WindowPlace, window

GLOBAL = "global"
"""The name of the server's own network."""


def masked_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """HeteroFL, section 3: the loss in which the logits of classes that do not occur here count as 0."""
    return own_loss(model(batch["x"]) * context["owned"], batch, context)


def occurring(me: Participant) -> Tensor:
    """Which of its labels a participant has samples of; where a sample has not one label, all count."""
    if me.task.KIND != "classification":
        return torch.ones(me.task.outputs, dtype=torch.bool)
    return torch.bincount(me.data.y, minlength=len(me.labels)) > 0


class WidthScaling(Averaging):
    """Averaging over windows: each position of the whole is averaged over those who hold it.

    Args:
        weighting: as in ``WeightSharing``; by default "uniform".
        batchnorm: as in ``WeightSharing``; by default "average". With "local statistics" the server's ``model`` answers
            with the mean of those that participants as wide as it have tracked.
        masked_classes: whether classes that a participant has no samples of count neither in its loss nor in the mean
            of the head's rows; by default True.
        model: the whole network at the server, by which all start and which is reported as "global": the name of a
            builder or what makes one. By default None: the widest participants' weights are the start, and nothing is
            reported of the server.
    """

    needs = Needs(torch_module=True, head=True, tasks="any")
    late_joining: ClassVar[bool] = False
    server_reports: ClassVar[tuple[str, ...]] = (GLOBAL,)
    sends: ClassVar[Mapping[str, str]] = {
        **Averaging.sends,
        "greet": "how many samples it has, its labels and which of them occur, and the names, shapes and types of the "
        "weights it shares, once",
        "start": "the weights that all start from, if it is the widest to have them, once",
    }

    aggregation: Literal["layerwise"] = "layerwise"
    weighting: Literal["samples", "uniform"] = "uniform"
    masked_classes: bool = True
    model: ServerModel | None = None

    def requires(self) -> Needs:
        return replace(self.needs, one_input_shape=self.model is not None)

    def server_models(self, server: Server) -> Declared:
        return {} if self.model is None else {GLOBAL: self.model}

    def introduction(self, me: Participant) -> dict[str, Any]:
        owned = occurring(me).tolist() if self.masked_classes else [True] * me.task.outputs
        own = {"head": list(self.heads(me)), "labels": list(me.task.columns), "owned": owned}
        return {**super().introduction(me), **own, "statistics": sorted(self._sent_alone(me))}

    def entries_schema(self, me: Participant) -> Schema:
        """Statistics that participants keep are sent, but do not come back."""
        return super().entries_schema(me).only(set(self.shared(me)) - self._sent_alone(me))

    def _sent_alone(self, me: Participant) -> set[str]:
        return super().personal(me) if self._asks_for_statistics else set()

    @property
    def _asks_for_statistics(self) -> bool:
        """Whether participants send the statistics that they keep, for the server's own network to answer with."""
        return self.model is not None and self.batchnorm == "local statistics"

    def personal(self, me: Participant) -> set[str]:
        return set() if self._asks_for_statistics else super().personal(me)

    def entries(
        self, server: Server, sender: str, places: Mapping[str, WindowPlace] | None = None
    ) -> dict[str, Tensor]:
        """The current values of a participant's windows, without statistics where it has its own."""
        at_home = set(server.state["told"][sender]["statistics"])
        return {n: entry for n, entry in super().entries(server, sender, places).items() if n not in at_home}

    def heads(self, me: Participant) -> tuple[str, ...]:
        """The layers with a row for each label."""
        return me.head

    def training(self, me: Participant) -> Fit:
        """By the task's loss, or, where classes are missing, by the masked one."""
        owned = occurring(me)
        if not self.masked_classes or bool(owned.all()):
            return super().training(me)
        return Fit(masked_loss, context={"owned": owned})

    def key(self, layout: Layout, name: str) -> str:
        return name

    def places(self, server: Server, sender: str) -> Mapping[str, WindowPlace]:
        """From the first position on; of the head, the rows of one's own labels."""
        layout, facts = server.state["layouts"][sender], server.state["told"][sender]
        rows = torch.tensor([server.state["labels"].index(label) for label in facts["labels"]])
        places = {name: [0] * len(shape) for name, (_, *shape) in layout.items()}
        return places | {name: [rows, *places[name][1:]] for name in _rows(layout, facts)}

    def masks(self, server: Server, sender: str) -> Mapping[str, Tensor]:
        """Of the head, the rows of the classes that a participant owns; statistics, if its features are the whole's."""
        layout, facts = server.state["layouts"][sender], server.state["told"][sender]
        owned, masks = torch.tensor(facts["owned"]), {}
        if not bool(owned.all()):
            masks = {name: owned.view(-1, *[1] * (len(layout[name]) - 2)) for name in _rows(layout, facts)}
        for name in facts["statistics"]:
            if name in layout and layout[name][1:] != list(server.state["global"][name].shape):
                masks[name] = torch.zeros(1, dtype=torch.bool)
        return masks

    def greeting(self, server: Server, sender: str) -> Schema:
        own = {"head": list[str], "labels": LabelsFact, "owned": list[bool], "statistics": list[str]}
        return WidthFacts(facts={**super().greeting(server, sender).facts, **own})

    def owners(self, server: Server, senders: Sequence[str]) -> dict[str, list[str]]:
        """Finds the size of the whole, and asks the widest participants for the weights that all start from."""
        layouts: Mapping[str, Layout] = server.state["layouts"]
        rows = {sender: set(_rows(layout, server.state["told"][sender])) for sender, layout in layouts.items()}
        for name in dict.fromkeys(name for layout in layouts.values() for name in layout):
            shapes = {sender: layout[name][1:] for sender, layout in layouts.items() if name in layout}
            agreed(server, {sender: len(shape) for sender, shape in shapes.items()}, partial(_other_family, name))
            agreed(server, {sender: name in rows[sender] for sender in shapes}, partial(_other_place, name))
        self.forget(server, server.refused)
        try:
            send = self._begun(server)
        except RequirementsError as error:
            if not (odd := self._outside(server)):
                raise
            for sender in odd:
                server.refuse(sender, f"its entries do not fit into the whole that most fit into. {error}")
            self.forget(server, odd)
            send = self._begun(server)
        return {sender: send[sender] for sender in senders if sender not in server.refused}

    def _begun(self, server: Server) -> dict[str, list[str]]:
        """Makes the whole, and says who is to send which of its entries."""
        layouts: Mapping[str, Layout] = server.state["layouts"]
        server.state["labels"] = list(union(tuple(facts["labels"]) for facts in server.state["told"].values()))
        whole = dict(self._whole(server, layouts))
        size = sum(dtype.itemsize * math.prod(shape) for dtype, shape in whole.values())
        if size > server.budget:
            raise RequirementsError(f"The whole would have {size} bytes; the limit is {server.budget}.")
        server.state["global"] = {name: torch.zeros(shape, dtype=dtype) for name, (dtype, shape) in whole.items()}
        if self.model is None:
            return self._senders(server)
        self._start_from(server)
        return {sender: [] for sender in layouts}

    def _outside(self, server: Server) -> list[str]:
        """Those whose entries do not fit into the network that most fit into; nobody where none holds most."""
        layouts, facts = server.state["layouts"], server.state["told"]
        if self.model is not None:
            whole = {name: list(entry.shape) for name, entry in server.models[GLOBAL].weights().items()}
            inside = {sender for sender, own in layouts.items() if _within(own, whole, facts[sender])}
        else:
            shapes = {sender: {name: like[1:] for name, like in own.items()} for sender, own in layouts.items()}
            held = [{s for s in layouts if _within(layouts[s], shapes[other], facts[s])} for other in layouts]
            inside, *others = sorted(held, key=len, reverse=True)
            if any(len(other) == len(inside) and other != inside for other in others):
                return []
        return sorted(set(layouts) - inside) if 2 * len(inside) > len(layouts) else []

    def _whole(
        self, server: Server, layouts: Mapping[str, Layout]
    ) -> Iterator[tuple[str, tuple[torch.dtype, list[int]]]]:
        """Each entry's type, and its largest size in each dimension; a head has a row for each label."""
        heads = {name for sender, layout in layouts.items() for name in _rows(layout, server.state["told"][sender])}
        for name in dict.fromkeys(name for layout in layouts.values() for name in layout):
            own = [layout[name] for layout in layouts.values() if name in layout]
            shape = [max(lengths) for lengths in zip(*(one[1:] for one in own), strict=True)]
            dtype = max((dtype_named(str(one[0])) for one in own), key=lambda dtype: dtype.itemsize)
            yield name, (dtype, [len(server.state["labels"]), *shape[1:]] if name in heads else shape)

    def _senders(self, server: Server) -> dict[str, list[str]]:
        """Who sends which entries to start from: the widest first, as long as positions are without a value."""
        send: dict[str, list[str]] = {}
        missing = {name: torch.ones(entry.shape, dtype=torch.bool) for name, entry in server.state["global"].items()}
        layouts = server.state["layouts"]
        for sender in _by_width(layouts):
            places = self._windows(server, sender)
            send[sender] = [name for name, place in places.items() if bool(missing[name][place].any())]
            for name, place in places.items():
                missing[name][place] = False
        # A class's row may be held by narrow networks alone: then nobody ever has the rest of it.
        heads = {name for sender, own in layouts.items() for name in _rows(own, server.state["told"][sender])}
        if odd := [name for name, positions in missing.items() if name not in heads and bool(positions.any())]:
            whole = tuple(server.state["global"][odd[0]].shape)
            raise RequirementsError(
                f"No participant has all of {odd[0]!r}, {whole} in the whole; expected networks of one family, of "
                f"which one is the widest everywhere, or the whole network as `model`."
            )
        return send

    def _start_from(self, server: Server) -> None:
        """Everything starts from the server's own network, of which all others must be windows."""
        weights = server.models[GLOBAL].weights()
        for name, entry in server.state["global"].items():
            found = weights.get(name)
            if found is None or not _holds(found.shape, entry.shape):
                has = "nothing of that name" if found is None else f"shape {tuple(found.shape)}"
                mismatch = f"participants have {name!r} of shape {tuple(entry.shape)}; the server's model has {has}"
                raise RequirementsError(f"{mismatch}. Its `model` must be the whole of which theirs are parts.")
            server.state["global"][name] = found.to(entry.dtype)

    def begin(self, server: Server, values: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Puts the first values where they belong; where several have sent one, the widest one's counts."""
        whole = {name: entry.clone() for name, entry in server.state["global"].items()}
        for sender in reversed([sender for sender in _by_width(server.state["layouts"]) if sender in values]):
            places = self._windows(server, sender)
            for name, entry in values[sender].items():
                whole[name][places[name]] = entry.to(whole[name].dtype)
        server.state["global"] = whole

    def _windows(self, server: Server, sender: str) -> dict[str, Any]:
        """A participant's entries as indices of the whole ones."""
        layout = server.state["layouts"][sender]
        return {name: window(at, layout[name][1:]) for name, at in self.places(server, sender).items()}

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        super().step(server, means)
        if self.model is not None:
            server.models[GLOBAL].load(means)


@dataclass(frozen=True)
class WidthFacts(Schema):
    """What is sent at joining: of each label whether it occurs."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        owned, labels = payload.facts["owned"], payload.facts["labels"]
        if len(owned) != len(labels):
            raise PayloadError(f"fact 'owned' has {len(owned)} values; expected one for each of {len(labels)} labels")


def _other_family(name: str, found: int, expected: int) -> str:
    return f"its {name!r} has {found} dimensions, the others' {expected}; expected networks of one family"


def _other_place(name: str, found: bool, expected: bool) -> str:
    place = {True: "in the head", False: "before the head"}
    return f"its {name!r} is {place[found]}, the others' {place[expected]}; expected networks of one family"


def _rows(layout: Layout, facts: Mapping[str, Any]) -> list[str]:
    """The entries with a row for each label."""
    count = len(facts["labels"])
    return [name for name, like in layout.items() if within(name, facts["head"]) and like[1:2] == [count]]


def _within(layout: Layout, whole: Mapping[str, Sequence[Any]], facts: Mapping[str, Any]) -> bool:
    """Whether all of a participant's entries fit into another network; a head has a row for each of its own labels."""
    skipped = {name: int(name in _rows(layout, facts)) for name in layout}
    own = {name: [int(length) for length in shape[skipped[name] :]] for name, (_, *shape) in layout.items()}
    return all(name in whole and _holds(whole[name][skipped[name] :], shape) for name, shape in own.items())


def _holds(whole: Sequence[int], part: Sequence[int]) -> bool:
    """Whether an entry of one shape is large enough for one of another."""
    return len(whole) == len(part) and all(most >= own for most, own in zip(whole, part, strict=True))


def _by_width(layouts: Mapping[str, Layout]) -> list[str]:
    """The participants, those with most values first; among equals by name."""
    values = {
        sender: sum(math.prod(map(int, shape)) for _, *shape in layout.values()) for sender, layout in layouts.items()
    }
    return sorted(values, key=lambda sender: (-values[sender], sender))
