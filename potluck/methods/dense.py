"""DENSE (Zhang et al., NeurIPS 2022): one upload of everybody's model, from which the server learns without data."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from potluck.core.inputs import Batch
from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.model_view import FrozenModel, ModelView, input_of
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.randomness import derive, seeded
from potluck.core.requests import Exchange, Fit, Tap, Work
from potluck.core.samples import Samples
from potluck.federation.method import Needs, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import nothing
from potluck.federation.server import Answers, Server, ServerModel
from potluck.methods.averaging import NoPlainMean
from potluck.methods.distillation import kl
from potluck.methods.input_generator import InputGenerator, TrainedNoise, patient_adam
from potluck.methods.known_architectures import KnownArchitectures
from potluck.methods.server_training import ServerTraining
from potluck.methods.weight_sharing import schema_of

STUDENT, GENERATOR = "student", "generator"
"""The server's models, beside the architectures that it knows."""


def said_together(x: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """D(x), the mean logits of all (equation 1), and the mean over them of L_BN (equation 4)."""
    said, apart = [], []
    for name, teacher in context["teachers"].items():
        running: Mapping[str, Mapping[str, Tensor]] = context["running"].get(name, {})
        logits, taken = teacher.taps(x, [input_of(layer) for layer in running])
        said.append(logits)
        apart += [norm_distance(taken[input_of(layer)], kept) for layer, kept in running.items()]
    return torch.stack(said).mean(dim=0), torch.stack(apart).sum() / len(said) if apart else x.new_zeros(())


def norm_distance(entering: Tensor, running: Mapping[str, Tensor]) -> Tensor:
    """How far the mean and the variance of what goes into a BatchNorm layer are from its running ones."""
    axes = [axis for axis in range(entering.ndim) if axis != 1]
    mean, variance = entering.mean(dim=axes), entering.var(dim=axes, unbiased=False)
    found: Tensor = (mean - running["mean"]).norm() + (variance - running["var"]).norm()
    return found


def disagreement(together: Tensor, student: Tensor) -> Tensor:
    """L_div (equation 5): −KL(D‖student), of those samples alone to which the two give different labels."""
    differ = together.argmax(dim=1) != student.argmax(dim=1)
    return -(kl(together, student, fixed=False) * differ).mean()


def synthesis_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 6: CE(D(x), y) + λ1·L_BN + λ2·L_div of what the generator makes."""
    x = model(batch["x"]).to(context["precision"].dtype)
    together, norms = said_together(x, context)
    apart = disagreement(together, context["student"](x))
    loss: Tensor = F.cross_entropy(together, batch["y"]) + context["lambda_bn"] * norms + context["lambda_div"] * apart
    return loss


def ensemble_distillation(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 7: T²·KL(D‖student)."""
    temperature: float = context["temperature"]
    together, _ = said_together(batch["x"], {"teachers": context["teachers"], "running": {}})
    return temperature**2 * kl(together, model(batch["x"]), temperature).mean()


class DENSE(NoPlainMean, KnownArchitectures, ServerTraining):
    """Algorithm 1, in one round: everybody trains alone and uploads its model; the server needs no data.

    In each of the server's epochs a generator learns to make inputs that all models together give a drawn label, whose
    statistics fit their normalisation layers, and about which the student still differs; then the student learns what
    all say of these inputs. The student is reported of the server; participants keep their own models. In further
    rounds they train on, and so does the server.

    The authors' code sums L_BN over models, lets the noise be trained along, begins each epoch with a new generator,
    keeps those inputs of an epoch whose loss is least, and distils over the inputs of all epochs so far:
    ``norms="sum", train_noise=True, fresh_generator=True, inputs="best", pool=True``. With few epochs the
    pool matters: from nine networks that have learned 40 digits each, and know 63.5%, the student learns 76.4% in 60 of
    them with it, and 11.4% without (three seeds each; tests/integration/test_better_than_local.py).

    Args:
        architectures: as in ``KnownArchitectures``.
        student: the server's model, as one of ``architectures`` is given; by default "mlp".
        epochs: the server's epochs in a round; by default 200.
        generator_steps: steps of the generator in each; by default 30.
        batch_size: how many inputs are made in each; by default 128.
        noise: how many numbers of noise an input is made of; by default 256.
        width: the width of the generator's layers; by default 64.
        bounded: whether inputs lie between 0 and 1, as pictures do; by default True.
        lambda_bn: λ1; by default 1.
        lambda_div: λ2; by default 0.5 (the authors' page has 1).
        norms: "mean" (the default) of L_BN over models, or their "sum".
        train_noise: whether the noise is trained along with the generator; by default False.
        fresh_generator: whether each epoch begins with a new generator, and a new optimizer of it; by default False:
            one generator is trained on.
        inputs: which inputs of an epoch the student learns from: those that the generator makes after its "last" step
            (the default), or the "best", those with the least loss before any of its steps.
        pool: whether the student learns from the inputs of all epochs so far; by default False.
        temperature: T; by default 20.
        server_plan: how the student learns; by default SGD with a rate of 0.01, momentum of 0.9, and one pass in
            batches of 128. A dict changes some settings.
        generator_lr: the learning rate of the generator, by Adam with β1 = 0.5; by default 0.001.
        aggregation: "same-architecture": those of one architecture begin alike.
        weighting: "uniform": all models count the same.
        batchnorm: "average": models are uploaded whole.
    """

    needs = Needs(torch_module=True, one_input_shape=True, one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {**KnownArchitectures.sends, "weights": "every weight of its trained model"}
    server_reports: ClassVar[tuple[str, ...]] = (STUDENT,)

    aggregation: Literal["same-architecture"] = "same-architecture"
    weighting: Literal["uniform"] = "uniform"
    batchnorm: Literal["average"] = "average"
    student: ServerModel = "mlp"
    epochs: int = Field(200, ge=0)
    generator_steps: int = Field(30, ge=0)
    batch_size: int = Field(128, ge=2)
    noise: int = Field(256, ge=1)
    width: int = Field(64, ge=1)
    bounded: bool = True
    lambda_bn: float = Field(1.0, ge=0)
    lambda_div: float = Field(0.5, ge=0)
    norms: Literal["mean", "sum"] = "mean"
    train_noise: bool = False
    fresh_generator: bool = False
    inputs: Literal["last", "best"] = "last"
    pool: bool = False
    temperature: float = Field(20.0, gt=0)
    server_plan: Plan = Plan(optimizer="sgd", lr=0.01, momentum=0.9, batch_size=128)
    generator_lr: float = Field(1e-3, gt=0)

    def generator(self, input_shape: Any) -> InputGenerator | TrainedNoise:
        """A new generator."""
        made = InputGenerator(self.noise, self.width, input_shape, self.bounded)
        return TrainedNoise(made, self.batch_size, self.noise) if self.train_noise else made

    def server_models(self, server: Server) -> Declared:
        steps = 1 if self.inputs == "best" else self.generator_steps  # in one training
        plan = Plan(optimizer=patient_adam, lr=self.generator_lr, epochs=steps, batch_size=self.batch_size)
        return {
            **super().server_models(server),
            STUDENT: ModelSpec(self.student, plan=self.server_plan, keep_optimizer=True),
            GENERATOR: ModelSpec(self.generator, plan=plan, keep_optimizer=True),
        }

    def round(self, me: Participant) -> Steps:
        yield Fit()
        yield Exchange("weights", Payload(self.shared(me)))
        return None

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]), reply=nothing)
    def weights(self, server: Server, answers: Answers) -> ServerSteps:
        """Trains generator and student by turns against all uploads, which are in memory at once."""
        context = self.teachers(server, answers)
        made: list[Tensor] = []
        for epoch in range(self.epochs):
            student = FrozenModel(server.models[STUDENT].weights(), server.models[STUDENT].model)
            inputs = yield from self.synthesised(server, epoch, {**context, "student": student})
            made = [*made, inputs] if self.pool else [inputs]
            yield Fit(
                ensemble_distillation,
                on=Samples({"x": torch.cat(made)}),
                context={"teachers": context["teachers"], "temperature": self.temperature},
                model=STUDENT,
            )
        return Payload()

    def synthesised(self, server: Server, epoch: int, context: dict[str, Any]) -> Generator[Work, Any, Tensor]:
        """The inputs of one epoch, when the generator has learned."""
        draw, generator = server.generator(f"epoch {epoch}"), server.models[GENERATOR]
        noise = torch.randn(self.batch_size, self.noise, generator=draw)
        labels = torch.randint(server.task.outputs, (self.batch_size,), generator=draw)
        if self.fresh_generator:
            with seeded(derive(server.seed, "generator", server.round, epoch)):
                generator.load(self.generator(generator.model.shape).state_dict())
            generator.take_memory({"optimizer": {}, "kind": ""})
        if self.train_noise:
            generator.load({"noise": noise})
        x = torch.arange(self.batch_size) if self.train_noise else noise
        scale = len(context["teachers"]) if self.norms == "sum" else 1
        context |= {"lambda_bn": self.lambda_bn * scale, "lambda_div": self.lambda_div}
        learning = Fit(synthesis_loss, on=Samples({"x": x, "y": labels}), context=context, model=GENERATOR)
        making = Tap(Samples({"x": x}), at=[""], model=GENERATOR)
        if self.inputs == "last" or not self.generator_steps:
            yield learning
            last: Tensor = (yield making)[""]
            return last
        best, least = x, math.inf
        for step in range(self.generator_steps):
            inputs: Tensor = (yield making)[""]
            losses = (yield learning).losses
            loss = losses[0][0] if losses else 0.0  # a dry run has none
            if step == 0 or loss < least:
                best, least = inputs, loss
        return best

    def teachers(self, server: Server, answers: Answers) -> dict[str, Any]:
        """Everybody's model in the student's precision, and the running statistics of its BatchNorm layers."""
        teachers, running, dtype = {}, {}, server.models[STUDENT].dtype
        for sender, payload in sorted(answers, key=lambda answer: answer[0]):
            module = server.models[str(self.architecture(server, sender))].model
            weights = {name: e.to(dtype) if e.is_floating_point() else e for name, e in payload.tensors.items()}
            teachers[sender] = FrozenModel(weights, module)
            running[sender] = {
                layer: {what: weights[f"{layer}.running_{what}"] for what in ("mean", "var")}
                for layer in _batchnorms(module)
            }
        return {"teachers": teachers, "running": running, "precision": torch.zeros((), dtype=dtype)}


def _batchnorms(module: nn.Module) -> list[str]:
    """The BatchNorm layers that have running statistics."""
    kind = nn.modules.batchnorm._BatchNorm
    return [name for name, layer in module.named_modules() if isinstance(layer, kind) and layer.track_running_stats]
