"""Methods whose server trains: remembered optimizers, a generator and a student by turns, reported and resumed."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck import (
    Exchange,
    Fit,
    FrozenModel,
    ModelSpec,
    Payload,
    Plan,
    Predict,
    Samples,
    Schema,
    Update,
    exchange,
)
from tests.tables import agree, made_data, mlp, participants, weights_agree

TEST = made_data(30, 70)


def played(method, engine="serial", rounds=3, folder=None, resume=False):
    """A federation of three networks of one architecture that has played."""
    people = participants([partial(mlp, None, 4)] * 3)
    federation = potluck.Federation(people, method, seed=3, engine=engine, test=TEST)
    federation.run(rounds, run_dir=folder, resume=resume)
    return federation


def same_everywhere(make, tmp_path):
    """The federation on the serial engine, once others were seen to agree: batched, and resumed."""
    serial, stacked = played(make()), played(make(), "batched")
    agree(serial.history.rows(), stacked.history.rows(), 1e-9)
    weights_agree(serial.participants.values(), stacked.participants.values(), 1e-9)
    played(make(), rounds=1, folder=tmp_path)
    agree(played(make(), folder=tmp_path, resume=True).history.rows(), serial.history.rows(), 1e-12)
    return serial


class FedAdam(potluck.Method):
    """Reddi et al., 2021, Algorithm 2: the mean change of the participants is a gradient for the server's Adam."""

    optimizer: str = "adam"
    keep: bool = True

    def server_models(self, server):
        plan = Plan(optimizer=self.optimizer, lr=0.1, batch_size=1)
        return {"global": ModelSpec(partial(mlp, None, 4), plan=plan, keep_optimizer=self.keep)}

    def join(self, me):
        me.load((yield Exchange("first", Payload())).tensors)

    def round(self, me):
        yield Fit()
        me.load((yield Exchange("weights", Payload(me.weights()))).tensors)

    @exchange(lambda self, server, sender: Schema({}), phase="join")
    def first(self, server, answers):
        list(answers)
        return Payload(server.models["global"].weights())

    @exchange(lambda self, server, sender: Schema(None))
    def weights(self, server, answers):
        told = [payload.tensors for _, payload in sorted(answers)]
        own = server.models["global"].weights()
        change = {name: sum(one[name] for one in told) / len(told) - entry for name, entry in own.items()}
        yield Fit(along, on=Samples({"x": torch.zeros(1, 36)}), context={"change": change}, model="global")
        return Payload(server.models["global"].weights())


def along(model, batch, context):
    """A loss whose gradient is minus the change."""
    return -sum((p * context["change"][name]).sum() for name, p in model.parameters.items())


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_the_servers_optimizer_remembers_from_round_to_round(optimizer, tmp_path):
    serial = same_everywhere(lambda: FedAdam(optimizer=optimizer), tmp_path)
    forgetful = played(FedAdam(optimizer=optimizer, keep=False))
    assert serial.history.rows()[-1]["loss"] != pytest.approx(forgetful.history.rows()[-1]["loss"], rel=1e-3)


def test_fedadam_is_adam_on_the_mean_change():
    """Three rounds, in plain PyTorch: the participants' changes are taken from the federation's own trainings."""
    changes, at = [], []

    class Noting(FedAdam):
        @exchange(lambda self, server, sender: Schema(None))
        def weights(self, server, answers):
            at.append(server.models["global"].weights())
            heard = list(answers)
            told = [payload.tensors for _, payload in sorted(heard)]
            changes.append({name: sum(one[name] for one in told) / 3 - entry for name, entry in at[-1].items()})
            return (yield from super().weights(server, iter(heard)))

    federation = played(Noting())
    weights = {name: nn.Parameter(entry.clone()) for name, entry in at[0].items()}
    adam = torch.optim.Adam(weights.values(), lr=0.1)
    for change in changes:
        for name, parameter in weights.items():
            parameter.grad = -change[name]
        adam.step()
    torch.testing.assert_close(federation.server.models["global"].weights(), {n: p.data for n, p in weights.items()})


class Generator(nn.Module):
    """Noise and a label in, an image out."""

    def __init__(self, classes):
        super().__init__()
        self.fc = nn.Linear(2 + classes, 36).double()
        self.classes = classes

    def forward(self, noise, label):
        wanted = F.one_hot(label, self.classes).to(noise.dtype)
        return self.fc(torch.cat([noise, wanted], dim=1)).unflatten(1, (1, 6, 6))


def convincing(models, batch, context):
    """Images that the participants' models take for their labels, and that the student does not agree about."""
    images = models["generator"]({"noise": batch["z"], "label": batch["y"]})
    theirs = torch.stack([teacher(images) for teacher in context["teachers"]]).mean(dim=0)
    apart = F.kl_div(models["student"](images).log_softmax(-1), theirs.softmax(-1), reduction="batchmean")
    return F.cross_entropy(theirs, batch["y"]) - 0.1 * apart


def like_the_teachers(models, batch, context):
    """The student says of made images what the participants' models say on average."""
    images = models["generator"]({"noise": batch["z"], "label": batch["y"]}).detach()
    theirs = torch.stack([teacher(images) for teacher in context["teachers"]]).mean(dim=0)
    return F.kl_div(models["student"](images).log_softmax(-1), theirs.softmax(-1), reduction="batchmean")


class DENSE(potluck.Method):
    """Zhang et al., 2022: the server makes images by a generator, and distills all models into a student."""

    server_reports: ClassVar[tuple[str, ...]] = ("student",)

    def server_models(self, server):
        return {
            "generator": ModelSpec(Generator, plan=Plan(optimizer="adam", lr=0.05), keep_optimizer=True),
            "student": ModelSpec(partial(mlp, None, 6), plan=Plan(optimizer="sgd", lr=0.1, momentum=0.9)),
        }

    def round(self, me):
        yield Fit()
        yield Exchange("weights", Payload(me.weights()))

    @exchange(lambda self, server, sender: Schema(None))
    def weights(self, server, answers):
        module = mlp(0, 4)
        teachers = [FrozenModel(payload.tensors, module) for _, payload in sorted(answers)]
        wanted = Samples({"x": torch.zeros(12, 1), "y": torch.arange(12) % 3})
        yield Fit(
            [Update(convincing, only="generator"), Update(like_the_teachers, only="student")],
            on=wanted,
            models=("generator", "student"),
            context={"teachers": teachers},
            noise={"z": (2,)},
            plan=Plan(epochs=3, batch_size=6),
        )
        return Payload()


def test_a_generator_and_a_student_train_by_turns_and_the_student_is_reported(tmp_path):
    serial = same_everywhere(DENSE, tmp_path)
    reported = [row for row in serial.history.rows() if row.get("model") == "student"]
    assert len(reported) == 3
    assert reported[0]["loss"] != reported[-1]["loss"]


class ByOneFit(DENSE):
    """The student trained by a Fit of its own, on images that the generator makes."""

    @exchange(lambda self, server, sender: Schema(None))
    def weights(self, server, answers):
        list(answers)
        noise = torch.randn(12, 2, generator=server.generator("images"), dtype=torch.float64)
        asked = Samples({"x.noise": noise, "x.label": torch.arange(12) % 3})
        images = yield Predict(asked, model="generator", logits=True)
        made = Samples({"x": images, "y": torch.arange(12) % 3})
        yield Fit(on=made, model="student")
        return Payload()


def test_one_model_of_the_servers_makes_data_for_another(tmp_path):
    same_everywhere(ByOneFit, tmp_path)
