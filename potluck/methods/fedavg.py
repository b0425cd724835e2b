"""FedAvg (McMahan et al., 2017): one model for all, averaged after local training."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from potluck.method import Method, Needs, Steps, exchange
from potluck.methods.windows import WindowMean
from potluck.participant import Participant
from potluck.payload import Form, Payload
from potluck.requests import Exchange, Fit
from potluck.server import Answers, Server


class FedAvg(Method):
    """Algorithm 1: everyone trains the global model on its own data; the server takes the mean.

    ``weighting``: a model counts by its number of samples, or all count the same; credibility weights multiply.
    ``batchnorm``: normalisation layers are averaged like the rest, or stay with their participant.
    Optimizers start anew each round. A participant that sat out fetches the global model first.
    """

    needs = Needs(layers=True, same_architecture=True, one_label_space=True)

    weighting: Literal["samples", "uniform"] = "samples"
    batchnorm: Literal["average", "local"] = "average"

    def join(self, me: Participant) -> Steps:
        reply = yield Exchange("greet", Payload(facts={"samples": len(me.data)}))
        start = self._shared(me) if reply.facts["leads"] else {}
        me.load((yield Exchange("start", Payload(start))).tensors)
        me.state["round"] = 0
        return None

    def round(self, me: Participant) -> Steps:
        if me.state["round"] < me.round - 1:
            me.load((yield Exchange("fetch", Payload())).tensors)
        yield Fit()
        me.load((yield Exchange("weights", Payload(self._shared(me)))).tensors)
        me.state["round"] = me.round
        return None

    def _shared(self, me: Participant) -> dict[str, Tensor]:
        kept = me.network.norm_entries() if self.batchnorm == "local" else set()
        return {name: entry for name, entry in me.weights().items() if name not in kept}

    @exchange(lambda self, server, sender: Form(facts={"samples": int}))
    def greet(self, server: Server, answers: Answers) -> dict[str, Payload]:
        """Notes how much data each has, and asks the first by name for the weights that all start from."""
        samples = {sender: payload.facts["samples"] for sender, payload in answers}
        server.state["samples"] = samples
        return {name: Payload(facts={"leads": name == min(samples)}) for name in samples}

    @exchange(lambda self, server, sender: Form(None if sender == min(server.state["samples"]) else {}))
    def start(self, server: Server, answers: Answers) -> Payload:
        """Hands the leader's weights to everyone."""
        server.state["global"] = next(dict(payload.tensors) for _, payload in answers if payload.tensors)
        return Payload(server.state["global"])

    @exchange(lambda self, server, sender: Form())
    def fetch(self, server: Server, answers: Answers) -> Payload:
        """Hands the global model to whoever sat out."""
        return Payload(server.state["global"])

    @exchange(lambda self, server, sender: Form.of(server.state["global"]))
    def weights(self, server: Server, answers: Answers) -> Payload:
        """w ← Σ (n_k / n) w_k, over those who took part."""
        old: dict[str, Tensor] = server.state["global"]
        means = {name: WindowMean(entry.shape) for name, entry in old.items()}
        for sender, payload in answers:
            samples = server.state["samples"][sender] if self.weighting == "samples" else 1
            for name, mean in means.items():
                mean.add(payload[name], samples * server.credibility[sender])
        server.state["global"] = {name: mean.result(old[name]) for name, mean in means.items()}
        return Payload(server.state["global"])
