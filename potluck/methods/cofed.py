"""CoFED (Cao et al., "Cross-Silo Heterogeneous Model Federated Multitask Learning"): co-training by votes.

Participants may be anything that can fit and predict, and may have different label spaces.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.errors import PayloadError
from potluck.core.labels import UNLABELLED, Label, LabelsFact, union
from potluck.core.payload import LazyReplies, Payload
from potluck.core.regression import Regression
from potluck.core.requests import Exchange, Fit, Predict, Request
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import nothing
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import Merger, Merging
from potluck.methods.label_sharing import USUAL
from potluck.methods.windows import Part

COUNT_BYTES = 9
"""What a class takes for each public sample while votes are counted."""

SILENT = UNLABELLED - 1
"""The vote of who has no labels of its own, and so is none of those who know a class; who abstains still is."""

CLOSE = 1e-9
"""Shares of votes nearer to α than this are equal to it: sums of weights carry float error."""


class CoFED(Merging):
    """Section 4.1: train alone, label the public data, let the server vote, train on own and received data. Once.

    Participants without labels of their own abstain, and train on what they receive. Values are ours: for each public
    sample everybody receives the mean of all values, weighted by credibility; ``alpha``, ``margin`` and
    ``class_weighted`` are for labels.

    Args:
        alpha: a public sample gets a class if more than this share of those who know the class vote for it (eq. 18);
            by default 0.3.
        margin: a participant abstains where its two best probabilities differ by no more than this; by default 0, so
            that everybody votes on every sample.
        update_batch_size: the batch size of the second training; by default 1000 (section 5.2), None for the plan's.
        update_epochs: the epochs of the second training; by default None, for the plan's.
        class_weighted: whether rare classes count as much as common ones in the second training; by default True.
        robust: as in ``Merging``, of values; votes are counted as they are.
        norm_limit: as in ``Merging``, of values; by default 100.
    """

    needs = Needs(public="inputs", shared_labels=True, tasks=("classification", "regression"), own_targets=False)
    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {
        "labels": "its label space, once",
        "votes": "for each public sample the label that its model gives it, or none; or the value",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {"labels": ("statistics",), "votes": ("predictions",)}
    notes: ClassVar[Mapping[str, type]] = {"received": int, "weighted": bool}

    alpha: float = Field(0.3, ge=0, le=1)
    margin: float = Field(0.0, ge=0, lt=1)
    update_batch_size: int | None = Field(1000, ge=1)
    update_epochs: int | None = Field(None, ge=0)
    class_weighted: bool = True

    def join(self, me: Participant) -> Steps:
        yield Exchange("labels", Payload(facts={"labels": list(me.task.columns)}))
        return None

    def round(self, me: Participant) -> Steps:
        assert me.public is not None
        if me.labelled:
            yield Fit()
        reply = yield Exchange("votes", (yield from self.ballot(me, me.public)))
        rows = reply["rows"].long()
        targets = reply["labels"].long() if me.labels else me.task.taught(reply["labels"].double())
        received = me.public.inputs().take(rows).with_targets(y=targets)
        both = Samples.concat([me.data, received]) if me.labelled else received
        if not len(both):
            return {"received": 0, "weighted": False}
        if self.class_weighted and me.labels:
            both = both.with_targets(weight=inverse_frequency(both.y) * both.columns.get("weight", 1.0))
        plan = me.plan.replace(batch_size=self.update_batch_size, epochs=self.update_epochs)
        fitted = yield Fit(on=both, plan=plan)
        return {"received": len(received), "weighted": fitted.weighted}

    def ballot(self, me: Participant, public: Samples) -> Generator[Request, Any, Payload]:
        """A participant's label of each public sample, or its value; without targets of its own it abstains."""
        if me.labels:
            none = torch.full((len(public),), SILENT, dtype=torch.int32)
            return Payload({"votes": votes((yield Predict(public)), self.margin) if me.labelled else none})
        values = (yield Predict(public)).float() if me.labelled else torch.zeros(len(public), me.task.outputs)
        return Payload({"votes": values}, {"abstains": not me.labelled})

    def ballot_schema(self, server: Server, sender: str) -> Schema:
        """Positions of labels, or values."""
        if isinstance(server.task, Regression):
            return Schema({"votes": TensorSpec((server.public_size, server.task.outputs))}, {"abstains": bool})
        most = len(server.state["labels"][sender]) - 1
        return Schema({"votes": TensorSpec((server.public_size,), torch.int32, low=SILENT, high=most)})

    @exchange(lambda self, server, sender: Schema(facts={"labels": LabelsFact}), phase="join", reply=nothing)
    def labels(self, server: Server, answers: Answers) -> Payload:
        """Stores who knows which classes (eq. 15 and 16), as many as there is room for to count votes."""
        known: dict[str, list[Label]] = server.state.setdefault("labels", {})
        classes = set(union(map(tuple, known.values())))
        labels_of = {sender: payload.facts["labels"] for sender, payload in answers}
        for sender, labels in sorted(labels_of.items(), key=lambda item: (len(item[1]), item[0])):
            size = COUNT_BYTES * server.public_size * len(classes.union(labels))
            if size > server.budget:
                server.refuse(sender, f"to count votes for its labels, too, takes {size} bytes of {server.budget}")
            else:
                classes.update(labels)
                known[sender] = labels
        return Payload()

    def result_schema(self, me: Participant, sent: Schema) -> Schema:
        """Some of the public samples, each once, with labels that the participant knows, or values."""
        assert me.public is not None
        rows = TensorSpec(("rows",), torch.int32, low=0, high=len(me.public) - 1)
        if me.labels:
            labels = TensorSpec(("rows",), torch.int32, low=0, high=len(me.labels) - 1)
        else:
            labels = TensorSpec(("rows", me.task.outputs))
        return RowsInOrder({"rows": rows, "labels": labels}, lengths={"rows": (0, len(me.public))})

    @exchange(ballot_schema, reply=result_schema)
    def votes(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Algorithm 1, with credibility weights (section 4.6), then each one's part of the result (eq. 19)."""
        if isinstance(server.task, Regression):
            return self.mean_values(server, answers)
        spaces = {name: tuple(space) for name, space in server.state["labels"].items()}
        position = {label: index for index, label in enumerate(union(spaces.values()))}
        places = {space: torch.tensor([position[label] for label in space]) for space in spaces.values()}
        columns = {name: places[space] for name, space in spaces.items()}
        agreed = torch.zeros(server.public_size, len(position), dtype=torch.float64)
        entitled = torch.zeros(len(position), dtype=torch.float64)
        voters = []
        for sender, payload in answers:
            voted = (payload["votes"] >= 0).nonzero().squeeze(1)
            agreed[voted, columns[sender][payload["votes"][voted].long()]] += server.participant_weights[sender]
            if bool((payload["votes"] != SILENT).any()):
                entitled[columns[sender]] += server.participant_weights[sender]
            voters.append(sender)
        given = agreed / entitled.where(entitled > 0, 1.0) > self.alpha + CLOSE
        return LazyReplies(voters, lambda name: pseudolabels(given[:, columns[name]]))

    def mean_values(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """For each public sample the mean of all values, with credibility weights."""
        nothing = torch.zeros(()).expand(server.public_size, server.task.outputs)
        merger = Merger(self, server, {"values": nothing}, USUAL)
        for sender, payload in answers:
            values = [] if payload.facts["abstains"] else [payload["votes"]]
            merger.add(sender, [Part("values", each, server.participant_weights[sender]) for each in values])
        merged = merger.results()
        rows = torch.arange(server.public_size if merged else 0, dtype=torch.int32)
        reply = Payload({"rows": rows, "labels": merged.get("values", nothing)[: len(rows)].clone()})
        return dict.fromkeys(merger.senders, reply)


class RowsInOrder(Schema):
    """Rows that are named once, in order."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        rows = payload["rows"]
        if bool((rows[1:] <= rows[:-1]).any()):
            raise PayloadError("tensor 'rows' names a row twice, or rows out of order")


def votes(probabilities: Tensor, margin: float) -> Tensor:
    """Each public sample's most probable label; UNLABELLED where the best two are no further apart than the margin."""
    best = probabilities.topk(min(2, probabilities.shape[1]), dim=1).values
    said = probabilities.argmax(dim=1).int()
    if margin > 0 and best.shape[1] == 2:
        said[best[:, 0] - best[:, 1] <= margin] = UNLABELLED
    return said


def pseudolabels(voted: Tensor) -> Payload:
    """What one participant receives: the samples that carry exactly one of its classes (section 4.3, last lines)."""
    rows = (voted.sum(dim=1) == 1).nonzero().squeeze(1)
    return Payload({"rows": rows.int(), "labels": voted[rows].int().argmax(dim=1).int()})


def inverse_frequency(y: Tensor) -> Tensor:
    """A weight for each sample: one over how often its label occurs, the rarest label's being 1."""
    counts = torch.bincount(y).double()
    return counts[counts > 0].min() / counts[y]
