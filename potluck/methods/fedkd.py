"""FedKD (Wu et al., Nature Communications 2022): own and common model teach each other; few numbers travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from potluck.core.architecture import layout_of
from potluck.core.inputs import Batch
from potluck.core.model_spec import OWN
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.payload import LazyReplies, Payload
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema
from potluck.federation.method import Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.common_features import MAP, CommonFeatures
from potluck.methods.common_model import COMMON
from potluck.methods.distillation import kl
from potluck.methods.low_rank import compressed, compressed_specs, restored
from potluck.methods.own_loss import own_loss
from potluck.methods.weight_sharing import Merge


def adaptive_losses(
    logits: Mapping[str, Tensor], features: Mapping[str, Tensor], batch: Batch, context: Context
) -> tuple[Tensor, Tensor]:
    """What teacher and student minimise: the own loss + [KL + MSE of features] / S, S the sum of both own losses.

    ``features`` are the teacher's and the student's, mapped. What the other says is fixed, and so is S.
    """
    alone = {name: own_loss(logits[name], batch, context) for name in (OWN, COMMON)}
    total = alone[OWN] + alone[COMMON]
    fix = Tensor.detach if context["detach"] else (lambda tensor: tensor)

    def taught(learner: str, other: str) -> Tensor:
        said = kl(logits[other], logits[learner], fixed=context["detach"]).mean()
        return alone[learner] + (said + F.mse_loss(features[learner], fix(features[other]))) / fix(total)

    return taught(OWN, COMMON), taught(COMMON, OWN)


def teaching_loss(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """Both at once."""
    logits, features = {}, {}
    for name in (OWN, COMMON):
        logits[name], taken = models[name].taps(batch["x"], [context[name]])
        features[name] = taken[context[name]].flatten(1)
    features[COMMON] = models[MAP](features[COMMON])
    teacher, student = adaptive_losses(logits, features, batch, context)
    return teacher + student


class FedKD(CommonFeatures):
    """Adaptive mutual distillation of a large own model (the teacher) and a small common one (the student).

    The student's *update* travels as singular vectors and values, as few as hold the share T of the energy: for each
    matrix (outputs, rest). The server averages the updates, compresses the mean again and adds it to the old student.
    T rises from ``energy`` in a line. A participant answers with its own model; the student is reported beside it.

    The authors' loop ends before the full rank, and then sends no value at all, so that the matrix becomes zero;
    HtFLlib decomposes weights instead of updates, kernel by kernel, and wipes new linear heads and every 1×1
    convolution that way: not copied. Here K is 1 or more. With little data it gains nothing: nine participants with 40
    digits each reach 60.5%, and 61.7% alone (tests/integration/test_better_than_local.py).

    Args:
        energy: T in the first round and in the last; by default (0.95, 0.98).
        rounds: in how many rounds T rises; by default 100.
        detach: whether S and what the other says are fixed; by default True. HtFLlib fixes neither.
        common: as in ``CommonModel``; by default "mlp".
        common_plan: as in ``CommonModel``; by default None.
        aggregation: as in ``CommonModel``.
        weighting: as in ``WeightSharing``; by default "uniform", as in the authors' code.
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    reports: ClassVar[tuple[str, ...]] = (COMMON,)
    sends: ClassVar[Mapping[str, str]] = {
        **CommonFeatures.sends,
        "weights": "how training changed the common model, each matrix at a low rank; nothing of its own model",
    }

    energy: tuple[Annotated[float, Field(gt=0, le=1)], Annotated[float, Field(gt=0, le=1)]] = (0.95, 0.98)
    rounds: int = Field(100, ge=1)
    detach: bool = True
    weighting: Literal["samples", "uniform"] = "uniform"

    def energy_in(self, round: int) -> float:
        """T, as in the authors' code: the first round, which is 1, has risen by one step already."""
        first, last = self.energy
        return first + (last - first) * min(1.0, round / self.rounds)

    def map_between(self, me: Participant, common: int, own: int) -> nn.Linear:
        return nn.Linear(common, own, bias=False)

    def training(self, me: Participant) -> Fit:
        context = {**self.feature_places(me), "detach": self.detach}
        return Fit(teaching_loss, context=context, models=(OWN, COMMON, MAP))

    def take(self, me: Participant, reply: Payload) -> None:
        super().take(me, reply)
        me.state["student"] = reply.tensors

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield self.training(me)
        old = me.state["student"]
        update = {name: entry - old[name] for name, entry in self.shared(me).items()}
        reply = yield Exchange("weights", Payload(compressed(update, self.energy_in(me.round))))
        change = restored(reply.tensors, old)
        self.take(me, Payload({name: entry + change[name] for name, entry in old.items()}))
        me.state["round"] = me.round
        return None

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """A change with its matrices as factors; the weights themselves for those who sat out."""
        whole = self.entries_schema(me)
        return Schema(compressed_specs(layout_of(self.shared(me)))) if sent.tensors else whole

    def update_schema(self, server: Server, sender: str) -> Schema:
        """An update with its matrices as factors, of any rank."""
        return Schema(compressed_specs(server.state["layouts"][sender]))

    @exchange(update_schema)
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean update, compressed again, is added to the old student here as it is at the participants."""
        merge = Merge(self, server, updates=True)
        for sender, payload in answers:
            merge.add(sender, restored(payload.tensors, self.entries(server, sender)))
        senders, means = merge.senders, merge.means()
        if not senders:
            return {}
        keys, old = self.keys(server, senders[0]), self.entries(server, senders[0])
        reply = Payload(compressed({name: means[key] for name, key in keys.items()}, self.energy_in(server.round)))
        change = restored(reply.tensors, old)
        server.state["global"] = {keys[name]: entry + change[name] for name, entry in old.items()}
        return LazyReplies(senders, lambda sender: reply)
