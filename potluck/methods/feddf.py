"""FedDF (Lin et al., "Ensemble Distillation for Robust Model Fusion", NeurIPS 2020): the mean learns from all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict
from potluck.federation.method import Needs, ServerSteps, exchange
from potluck.federation.server import Answers, Server
from potluck.methods.fedavg import FedAvg
from potluck.methods.known_architectures import KnownArchitectures
from potluck.methods.server_training import ServerTraining
from potluck.methods.weight_sharing import Merge, schema_of

Ensemble = Literal["avg_logits", "avg_probabilities", "avg_losses"]


class FedDF(KnownArchitectures, FedAvg, ServerTraining):
    """Algorithms 1 and 3: for each architecture a student begins as the mean of its own uploads, and learns from all.

    The server runs everybody's network on unlabelled public inputs, in evaluation mode, and each student learns what
    they say together: KL(softmax(mean logits/T)‖student). Participants train as in FedAvg, and receive their
    architecture's student.

    Args:
        architectures: as in ``KnownArchitectures``.
        ensemble: what all say together: "avg_logits" (the default, eq. 3), or the mean of their probabilities, or
            "avg_losses", the mean of the losses to each, which is the authors' code's default, and has the gradient of
            "avg_probabilities".
        temperature: T; by default 1.
        steps: how many steps each student learns in a round; by default 1000. The paper takes up to 10,000, and stops
            when 1,000 of them (2,000 in the code) have not helped on validation data, which a server here has none of.
        drop_worst: whether those who are no better than chance on the public labels are left out of the mean and of the
            ensemble; by default False.
        server_plan: how students learn; by default Adam with a rate of 0.001 along a cosine, in batches of 128, with
            gradients of a norm of 5 at most. Its epochs follow from ``steps``. A dict changes some.
        aggregation: "same-architecture".
        weighting: as in ``WeightSharing``; by default "samples".
        batchnorm: "average": a student is whole.
        fine_tune: as in ``FedAvg``; by default 0.
    """

    sends: ClassVar[Mapping[str, str]] = {**FedAvg.sends, "weights": "every weight of its trained model"}

    aggregation: Literal["same-architecture"] = "same-architecture"
    weighting: Literal["samples", "uniform"] = "samples"
    batchnorm: Literal["average"] = "average"
    ensemble: Ensemble = "avg_logits"
    temperature: float = Field(1.0, gt=0)
    steps: int = Field(1000, ge=0)
    drop_worst: bool = False
    server_plan: Plan = Plan(optimizer="adam", lr=1e-3, batch_size=128, schedule="cosine", max_grad_norm=5.0)

    def requires(self) -> Needs:
        public: Literal["inputs", "labels"] = "labels" if self.drop_worst else "inputs"
        return Needs(torch_module=True, one_input_shape=True, one_label_space=True, public=public)

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]))
    def weights(self, server: Server, answers: Answers) -> ServerSteps:  # type: ignore[override]
        """The mean of each architecture, and what all say of the public inputs; then each student learns it."""
        public = server.public
        assert public is not None
        merge, said, owners, senders = Merge(self, server), Said(self.ensemble, self.temperature), {}, []
        for sender, payload in answers:
            student = self.architecture(server, sender)
            server.models[str(student)].load(payload.tensors)
            logits = yield Predict(public.inputs(), logits=True, model=student)
            if self.drop_worst and (logits.argmax(dim=1) == public.y).double().mean() <= 1 / logits.shape[1]:
                senders.append(sender)
                continue
            if not merge.add(sender, payload.tensors):
                continue
            senders.append(sender)
            said.add(logits)
            owners[str(student)] = sender
        merge.finish()
        for student, owner in sorted(owners.items()):
            network, keys = server.models[student], self.keys(server, owner)
            network.load(self.entries(server, owner))
            on = public.inputs().with_targets(said.targets())
            plan = self.server_plan.replace(epochs=self.epochs(len(public)))
            yield Fit(distil, on=on, context={"temperature": self.temperature}, plan=plan, model=student)
            old = server.state["global"]
            learned = {keys[name]: entry.to(old[keys[name]].dtype) for name, entry in network.weights().items()}
            server.state["global"] = {**old, **learned}
        return self.replies(server, [sender for sender in senders if sender not in server.refused])

    def epochs(self, samples: int) -> int:
        """Passes over the public inputs that take about as many steps as asked for."""
        return math.ceil(self.steps / math.ceil(samples / self.server_plan.batch_size))


class Said:
    """What an ensemble says of each sample: as a distribution, and the entropy that a student's loss cannot fall below.

    Args:
        ensemble: as in ``FedDF``.
        temperature: as in ``FedDF``.
    """

    def __init__(self, ensemble: Ensemble, temperature: float) -> None:
        self._ensemble, self._temperature = ensemble, temperature
        self._count, self._sum, self._entropy = 0, torch.zeros(()), torch.zeros(())

    def add(self, logits: Tensor) -> None:
        """Adds what one of them says."""
        scaled = logits.double() / self._temperature
        said = scaled if self._ensemble == "avg_logits" else scaled.softmax(dim=-1)
        self._count, self._sum = self._count + 1, self._sum + said
        self._entropy = self._entropy + entropy(scaled.softmax(dim=-1))

    def targets(self) -> dict[str, Tensor]:
        """The columns that ``distil`` reads."""
        mean = self._sum / self._count
        soft = mean.softmax(dim=-1) if self._ensemble == "avg_logits" else mean
        least = self._entropy / self._count if self._ensemble == "avg_losses" else entropy(soft)
        return {"soft": soft.float(), "entropy": least.float()}


def entropy(probabilities: Tensor) -> Tensor:
    """Of each row."""
    found: Tensor = torch.special.entr(probabilities).sum(dim=-1)
    return found


def distil(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """KL(ensemble‖student): the cross-entropy to what the ensemble says, less the entropy of that."""
    student = (model(batch["x"]) / context["temperature"]).log_softmax(dim=-1)
    loss: Tensor = -(batch["soft"] * student).sum(dim=-1) - batch["entropy"]
    return loss.mean()
