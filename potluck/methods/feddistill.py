"""FedDistill (Jeong et al., 2018): the mean answers to each class are everybody's soft labels of that class.

Not to be mixed up with ``FD`` here, which exchanges answers on public data; HtFLlib calls this one FD.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_spec import OWN, Declared, ModelSpec
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema
from potluck.core.tasks import weighted_mean
from potluck.federation.method import Leaving, Needs, Replies, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import NoPlainMean
from potluck.methods.class_tally import TALLY, ClassTally, count_in, met_means
from potluck.methods.distillation import answers_of, as_probabilities, fit_labels
from potluck.methods.label_sharing import LabelSharing
from potluck.methods.own_loss import own_loss
from potluck.methods.prototypes import class_means_payload, class_means_schema, mean_over_holders


def distilled_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """CE(z, y) + γ·CE(z, softmax(G_y)); where nobody sent G_y, ``soft`` is zero and adds nothing."""
    logits = model(batch["x"])
    soft: Tensor = -(batch["soft"].to(logits.dtype) * F.log_softmax(logits, dim=-1)).sum(dim=-1)
    gamma: float = context["gamma"]
    return own_loss(logits, batch, context) + gamma * weighted_mean(soft, batch.get("weight"))


def tallied_loss(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """That loss, of logits that are added up."""
    logits = models[OWN](batch["x"])
    count_in(models[TALLY], logits, batch["y"])
    return distilled_loss(cast(ModelView, lambda x: logits), batch, context)


class FedDistill(NoPlainMean, LabelSharing):
    """Algorithm 1: train on labels and on the others' mean answers to them; send one's mean logits of each class.

    The mean is of the logits that are met while training. HtFLlib passes raw logits as target, and one's own where G
    is missing: that is not copied.

    An estimator takes the logarithms of its probabilities for logits, and learns the label and γ times the soft label
    as weighted copies of a sample; what it sends is of the trained estimator. That is ours, since the paper has
    networks alone. One that knows no sample weights learns its labels alone, and takes part by what it sends.

    Args:
        gamma: γ, the weight of the soft labels; by default 1.
        own: whether the mean for a participant has its own answers in it: "exclude" (the default, the paper's
            equations) or "include" (HtFLlib).
        means: of which logits means are sent: those met while "training" (the default, the paper's), or those of the
            "trained" model in evaluation mode, in which neither the number of epochs nor Dropout shows.
    """

    needs = Needs(one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        **LabelSharing.sends,
        "answers": "for each class its model's mean logits of its own samples of the class, and which classes it has",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**LabelSharing.leaves, "answers": ("predictions",)}

    gamma: float = Field(1.0, ge=0)
    own: Literal["exclude", "include"] = "exclude"
    means: Literal["training", "trained"] = "training"

    def models(self, me: Participant) -> Declared:
        counted = self.means == "training" and me.learner.shows_layers
        return {TALLY: ModelSpec(partial(ClassTally, len(me.labels)))} if counted else {}

    def round(self, me: Participant) -> Steps:
        classes = len(me.labels)
        table = me.state.get("soft", torch.zeros(classes, classes))  # a row for each class: softmax(G), or zeros
        soft = table[me.data.y]
        on, context = me.data.with_targets(soft=soft), {"gamma": self.gamma}
        if TALLY in me.models:
            tally = me.models[TALLY]
            tally.load(ClassTally(classes).state_dict())
            yield Fit(tallied_loss, on=on, context=context, models=(OWN, TALLY))
            means = met_means(tally.weights())
        else:
            if me.learner.shows_layers:
                yield Fit(distilled_loss, on=on, context=context)
            else:
                yield fit_labels(me, me.data.with_targets(soft=F.one_hot(me.data.y, classes) + self.gamma * soft))
            means = class_means_payload((yield from answers_of(me, me.data)), me.data.y, classes)
        reply = yield Exchange("answers", means)
        me.state["soft"] = as_probabilities(reply["means"]) * reply["counts"].clamp(max=1)[:, None]
        return None

    def mean_schema(self, me: Participant, sent: Schema) -> Schema:
        """A row of logits for each label, and of how many participants it is the mean."""
        return class_means_schema(len(me.labels), len(me.labels), "samples")

    @exchange(lambda self, server, sender: class_means_schema(*(len(server.state["labels"]),) * 2), reply=mean_schema)
    def answers(self, server: Server, answers: Answers) -> Replies:
        """G: for each class the mean over those who have it, without the receiver's own (equation of section 2)."""
        sent = dict(answers)

        def reply(receiver: str) -> Payload:
            heard = [payload for sender, payload in sent.items() if self.own == "include" or sender != receiver]
            means, counts = mean_over_holders(heard or [zeros])
            return Payload({"means": means.float(), "counts": counts})

        zeros = Payload({name: torch.zeros_like(tensor) for name, tensor in next(iter(sent.values())).tensors.items()})
        return {receiver: reply(receiver) for receiver in sent}
