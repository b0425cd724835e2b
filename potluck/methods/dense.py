"""DENSE (Zhang et al., NeurIPS 2022): one upload of everybody's model, from which the server learns without data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
from potluck.core.requests import Exchange, Fit, Tap
from potluck.core.samples import Samples
from potluck.federation.method import Needs, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server, ServerModel
from potluck.methods.distillation import kl
from potluck.methods.known_architectures import KnownArchitectures
from potluck.methods.server_training import ServerTraining
from potluck.methods.weight_sharing import schema_of

STUDENT, GENERATOR = "student", "generator"
"""The server's models, beside the architectures that it knows."""


def patient_adam(parameters: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
    """Adam with β1 = 0.5, as generators are trained."""
    return torch.optim.Adam(parameters, lr=lr, betas=(0.5, 0.999))


class InputGenerator(nn.Module):
    """Inputs from noise: a linear layer, then twice a convolution at twice the size; for what is no image, two layers.

    What goes into a BatchNorm layer has no bias, which would make no difference.

    Args:
        noise: how many numbers of noise.
        width: how many channels, or numbers, the hidden layers have.
        input_shape: the shape of one input.
        bounded: whether what is made lies between 0 and 1.
    """

    def __init__(self, noise: int, width: int, input_shape: Sequence[int], bounded: bool) -> None:
        super().__init__()
        self.shape = tuple(input_shape)
        last: nn.Module = nn.Sigmoid() if bounded else nn.Identity()
        if len(self.shape) != 3:
            layers = nn.Linear(noise, width, bias=False), nn.BatchNorm1d(width), nn.LeakyReLU(0.2)
            self.layers = nn.Sequential(*layers, nn.Linear(width, math.prod(self.shape)), last)
            return
        channels, *size = self.shape
        small = [math.ceil(length / 4) for length in size]
        self.layers = nn.Sequential(
            nn.Linear(noise, 2 * width * math.prod(small), bias=False),
            nn.Unflatten(1, (2 * width, *small)),
            nn.BatchNorm2d(2 * width),
            *_doubled(2 * width, 2 * width),
            *_doubled(2 * width, width),
            nn.Conv2d(width, channels, 3, padding=1),
            last,
        )

    def forward(self, noise: Tensor) -> Tensor:
        made: Tensor = self.layers(noise)
        if len(self.shape) == 3:
            return made[:, :, : self.shape[1], : self.shape[2]]
        return made.reshape(len(made), *self.shape)


def _doubled(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Upsample(scale_factor=2), convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)


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


class DENSE(KnownArchitectures, ServerTraining):
    """Algorithm 1, in one round: everybody trains alone and uploads its model; the server needs no data.

    In each of the server's epochs a generator learns to make inputs that all models together give a drawn label, whose
    statistics fit their normalisation layers, and about which the student still differs; then the student learns what
    all say of these inputs. The student is reported of the server; participants keep their own models. In further
    rounds they train on, and so does the server.

    The authors' code sums L_BN over models (``norms``), lets the noise be trained along, begins each epoch with a new
    generator and distils over the best inputs of all epochs so far: with ``pool`` over all inputs so far, else over
    the epoch's, as in Algorithm 1. The others are not offered.

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
    pool: bool = False
    temperature: float = Field(20.0, gt=0)
    server_plan: Plan = Plan(optimizer="sgd", lr=0.01, momentum=0.9, batch_size=128)
    generator_lr: float = Field(1e-3, gt=0)

    def server_models(self, server: Server) -> Declared:
        def generator(input_shape: Any) -> nn.Module:
            return InputGenerator(self.noise, self.width, input_shape, self.bounded)

        plan = Plan(
            optimizer=patient_adam, lr=self.generator_lr, epochs=self.generator_steps, batch_size=self.batch_size
        )
        return {
            **super().server_models(server),
            STUDENT: ModelSpec(self.student, plan=self.server_plan, keep_optimizer=True),
            GENERATOR: ModelSpec(generator, plan=plan, keep_optimizer=True),
        }

    def round(self, me: Participant) -> Steps:
        yield Fit()
        yield Exchange("weights", Payload(self.shared(me)))
        return None

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]))
    def weights(self, server: Server, answers: Answers) -> ServerSteps:
        """Trains generator and student by turns against all uploads, which are in memory at once."""
        context = self.teachers(server, answers)
        made: list[Tensor] = []
        for epoch in range(self.epochs):
            draw = server.generator(f"epoch {epoch}")
            noise = torch.randn(self.batch_size, self.noise, generator=draw)
            labels = torch.randint(server.task.outputs, (self.batch_size,), generator=draw)
            yield Fit(
                synthesis_loss,
                on=Samples({"x": noise, "y": labels}),
                context={
                    **context,
                    "student": FrozenModel(server.models[STUDENT].weights(), server.models[STUDENT].model),
                    "lambda_bn": self.lambda_bn * (len(context["teachers"]) if self.norms == "sum" else 1),
                    "lambda_div": self.lambda_div,
                },
                model=GENERATOR,
            )
            inputs = (yield Tap(Samples({"x": noise}), at=[""], model=GENERATOR))[""]
            made = [*made, inputs] if self.pool else [inputs]
            yield Fit(
                ensemble_distillation,
                on=Samples({"x": torch.cat(made)}),
                context={"teachers": context["teachers"], "temperature": self.temperature},
                model=STUDENT,
            )
        return Payload()

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
