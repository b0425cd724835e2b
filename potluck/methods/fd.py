"""FD, federated distillation: participants learn from each other's predictions on public data.

As MHAT compares with it (Hu et al., 2021, section 2.3): the server replies with the uniform mean of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from potluck.core.objectives import hard_and_soft
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Method, Needs, Replies, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.distillation import answers_of, fit_labels
from potluck.methods.label_sharing import LabelSharing


def probabilities_schema(method: Method, server: Server, sender: str) -> Schema:
    """A row of probabilities, or values, for each public sample."""
    shape = (server.public_size, len(server.state["labels"]))
    return Schema({"probabilities": TensorSpec(shape, **server.task.bounds)})


def soft_labels_schema(method: Method, me: Participant, sent: Schema) -> Schema:
    """The same, as a participant reads them."""
    assert me.public is not None
    return Schema({"probabilities": TensorSpec((len(me.public), len(me.task.columns)), **me.task.bounds)})


class FD(LabelSharing):
    """Train on own data ∪ public data ∪ (public inputs, the server's soft labels); upload one's own soft labels.

    Public data without labels drops the hard-label term. An estimator takes the logarithms of its probabilities for
    logits, and learns a soft label as weighted copies of the sample (if it knows no weights, the likeliest label
    alone): that is ours, since the paper has networks alone.

    Several labels and values are ours, too. Of several labels each has a probability of its own, σ(z/T). Values are
    told in the user's units, without a temperature; the server takes their mean, and participants move towards it by
    the squared error, scaled as their own targets are.

    Args:
        temperature: T; soft labels are softmax(z/T) at the participants and at the server (eq. 2); by default 5.
        first_epochs: epochs in the first round; by default None, for the plan's.
        epochs: epochs in later rounds; by default None, for the plan's.
        distill_lr: the learning rate once there are soft labels; by default None, for the plan's.
    """

    needs = Needs(public="inputs", one_label_space=True, tasks=("classification", "multilabel", "regression"))

    sends: ClassVar[Mapping[str, str]] = {
        **LabelSharing.sends,
        "probabilities": "for each public sample the probability that its model gives to each label, or the value",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**LabelSharing.leaves, "probabilities": ("predictions",)}

    temperature: float = Field(5.0, gt=0)
    first_epochs: int | None = Field(None, ge=0)
    epochs: int | None = Field(None, ge=0)
    distill_lr: float | None = Field(None, gt=0)

    def round(self, me: Participant) -> Steps:
        assert me.public is not None
        yield self.training(me, me.public)
        soft = me.task.soft((yield from answers_of(me, me.public)), self.temperature).float()
        reply = yield Exchange("probabilities", Payload({"probabilities": soft}))
        me.state["soft"] = reply["probabilities"]
        return None

    def training(self, me: Participant, public: Samples) -> Fit:
        """Own data, public data as far as they have labels, and the server's last soft labels of them."""
        soft = me.state.get("soft")
        sets = [me.data, public] if public.labelled else [me.data]
        taught = [] if soft is None else [public.inputs().with_targets(soft=soft)]
        if not me.learner.shows_layers:
            return fit_labels(me, *sets, *taught)
        sets = [one.with_targets(soft=me.task.no_targets(len(one))) for one in sets]
        sets += [one.with_targets(soft=me.task.taught(one.columns["soft"])) for one in taught]
        plan = me.plan.replace(epochs=self.first_epochs if soft is None else self.epochs)
        return Fit(
            hard_and_soft,
            on=Samples.concat(sets),
            context={"temperature": self.temperature},
            plan=plan if soft is None else plan.replace(lr=self.distill_lr),
        )

    @exchange(probabilities_schema, reply=soft_labels_schema)
    def probabilities(self, server: Server, answers: Answers) -> Replies | ServerSteps:
        """Eq. 3: the uniform mean of all answers; what a robust rule makes of probabilities is scaled to sum to 1."""
        merged, _ = self.merged(server, answers, "probabilities")
        if self.robust is not None:
            merged = TensorSpec(tuple(merged.shape), **server.task.bounds).nearest(merged)
        return Payload({"probabilities": merged})
