"""FedNova (Wang et al., "Tackling the Objective Inconsistency Problem", NeurIPS 2020): normalised averaging."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from potluck.core.payload import Payload
from potluck.core.requests import Fitted
from potluck.federation.method import exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.fedavg import FedAvg
from potluck.methods.local_steps import effective_steps
from potluck.methods.weight_sharing import Merge, schema_of

EffectiveSteps = Annotated[float, Field(ge=0, lt=2**53)]
"""‖a‖₁: a number of local steps, each counted by how far its gradient takes the model."""


class FedNova(FedAvg):
    """Section 4, eq. 6 and 8: updates are divided by what each did, and their mean is multiplied by what all did.

    d_i = (x − y_i)/‖a_i‖; x ← x − (Σ p_i‖a_i‖) Σ p_i d_i, so that who takes more local steps does not count for more.
    ‖a‖ is τ, the number of steps, for plain SGD, and (τ − ρ(1 − ρ^τ)/(1 − ρ))/(1 − ρ) with momentum ρ (section 3.2),
    which begins anew in each round. For Adam and other optimizers the paper has no a; τ is taken, and where a plan's
    rate changes in the course of a training, each step counts the same. Running statistics take the plain mean. Where
    all take equally many steps it is FedAvg.

    Args:
        aggregation: as in ``FedAvg``; by default "whole". Otherwise p_i are each entry's, over those who have it.
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **FedAvg.sends,
        "weights": f"{FedAvg.sends['weights']}, and how many steps it took, weighted by its momentum",
    }
    tells_buffers: ClassVar[bool] = True

    def upload(self, me: Participant, fitted: Fitted) -> Payload:
        return Payload(self.shared(me), {"steps": effective_steps(fitted.steps, me.plan)})

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender], facts={"steps": EffectiveSteps}))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean of x − d_i, and from x as many times as far as all went in the mean."""
        merge, trained, old = Merge(self, server), self.parameters(server), server.state["global"]
        taken: dict[str, float] = defaultdict(float)
        weights: dict[str, float] = defaultdict(float)
        for sender, payload in answers:
            steps, weight, moved = payload.facts["steps"], self.weight(server, sender), dict(payload.tensors)
            keys = {name: key for name, key in self.keys(server, sender).items() if key in trained}
            for name, key in keys.items():
                moved[name] = old[key] + (moved[name] - old[key]) / (steps or 1)
            for key in keys.values() if merge.add(sender, moved) else ():
                taken[key], weights[key] = taken[key] + weight * steps, weights[key] + weight
        means = merge.means()
        far = {key: old[key] + taken[key] / weights[key] * (means[key] - old[key]) for key in taken}
        self.step(server, {**means, **far})
        return self.replies(server, merge.senders)
