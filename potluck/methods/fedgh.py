"""FedGH (Yi et al., ACM MM 2023): the server trains one head for all on the participants' mean features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch

from potluck.core.model_spec import Declared
from potluck.core.model_view import input_of
from potluck.core.plan import Plan
from potluck.core.requests import Exchange, Fit, Tap
from potluck.core.samples import Samples
from potluck.core.schema import Schema
from potluck.federation.method import Leaving, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import NoPlainMean
from potluck.methods.head_sharing import HeadSharing, global_head, head_of, head_shape, head_spec
from potluck.methods.prototypes import class_means_payload, class_means_schema
from potluck.methods.server_training import ServerTraining


class FedGH(NoPlainMean, HeadSharing, ServerTraining):
    """Algorithm 1: take the common head, train everything, send one's mean feature of each class; the server trains on.

    Equation 6 has the server learn each (mean feature, class) pair of each participant; they are not averaged first,
    and each counts the same. In the authors' code the server's optimizer holds another network's parameters, so that
    their head never moves, gradients add up, and a class's mean is a mean of batch means: not copied.

    Args:
        server_plan: how the server trains the head; by default SGD with a rate of 0.01 in batches of 10 for one epoch,
            as in HtFLlib's scripts (its default are 100 epochs; the authors' batches hold 1). A dict changes some.
        keep_server_optimizer: whether its optimizer remembers from round to round; by default False.
        aggregation: as in ``HeadSharing``.
        weighting: "uniform": each pair counts the same.
        batchnorm: as in ``HeadSharing``.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **HeadSharing.sends,
        "prototypes": "for each class the mean feature of its own samples, and which classes it has",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        **HeadSharing.leaves,
        "prototypes": ("features", "statistics"),
    }

    server_plan: Plan = Plan(optimizer="sgd", lr=0.01, epochs=1, batch_size=10)
    keep_server_optimizer: bool = False
    weighting: Literal["uniform"] = "uniform"

    def server_models(self, server: Server) -> Declared:
        return {"head": head_spec(server, self.server_plan, self.keep_server_optimizer)}

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield Fit()
        place = input_of(head_of(me))
        features = (yield Tap(me.data, at=[place]))[place]
        means = class_means_payload(features, me.data.y, len(me.labels))
        self.take(me, (yield Exchange("prototypes", means)))
        me.state["round"] = me.round
        return None

    def prototypes_schema(self, server: Server, sender: str) -> Schema:
        """Class means of the width that the head reads."""
        return class_means_schema(*head_shape(server))

    @exchange(prototypes_schema, reply=by_reply_schema)
    def prototypes(self, server: Server, answers: Answers) -> ServerSteps:
        """Equations 6 and 7: trains the head on all pairs, by name, and sends it back."""
        in_order = sorted(answers, key=lambda answer: answer[0])
        y = torch.cat([payload["counts"].nonzero().squeeze(1) for _, payload in in_order])
        means = torch.cat([payload["means"][payload["counts"] > 0] for _, payload in in_order])
        server.models["head"].load(global_head(self, server))
        yield Fit(on=Samples({"x": means, "y": y}), model="head")
        keys = self.keys(server, in_order[0][0])
        server.state["global"] = {keys[name]: entry for name, entry in server.models["head"].weights().items()}
        return self.replies(server, [sender for sender, _ in in_order])
