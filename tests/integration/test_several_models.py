"""Methods that train more than one model, from public imports alone: serial and batched agree."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck import Exchange, Fit, ModelSpec, Payload, Predict, Schema, exchange
from tests.tables import agree, cnn, mlp, participants


def net(hidden=4, classes=3):
    """A network with whatever weights the seed of the moment gives."""
    return mlp(None, hidden, classes)


class FML(potluck.Method):
    """Shen et al., 2020: each trains a private model and a common one that learn from each other; the common travels.

    Args:
        alpha: the weight of the private model's own loss; by default 0.8.
        beta: the weight of the common model's own loss; by default 0.6.
        keep: whether the common model's optimizer remembers; by default False.
    """

    alpha: float = 0.8
    beta: float = 0.6
    keep: bool = False
    notes: ClassVar[dict[str, type]] = {"seen": float}

    def models(self, me):
        plan = potluck.Plan(optimizer="sgd", lr=0.1, momentum=0.9)
        return {"common": ModelSpec(partial(net, 3), plan=plan, keep_optimizer=self.keep)}

    def round(self, me):
        context = {"alpha": self.alpha, "beta": self.beta}
        yield Fit(mutual, context=context, models=("own", "common"))
        reply = yield Exchange("common", Payload(me.models["common"].weights()))
        me.models["common"].load(reply.tensors)
        told = yield Predict(me.data, model="common", logits=True)
        return {"seen": round(told.abs().sum().item(), 9)}

    @exchange(lambda self, server, sender: Schema(None))
    def common(self, server, answers):
        told = [payload.tensors for _, payload in sorted(answers)]
        return Payload({name: torch.stack([one[name] for one in told]).mean(dim=0) for name in told[0]})


def mutual(models, batch, context):
    """Both at once: each learns the labels, and what the other says."""
    return sum(losses_of(models["own"](batch["x"]), models["common"](batch["x"]), batch["y"], context))


def losses_of(own, common, y, context):
    """FML's two losses. What the other says is fixed."""

    def loss(logits, other, share):
        distance = F.kl_div(logits.log_softmax(-1), other.detach().softmax(-1), reduction="batchmean")
        return share * F.cross_entropy(logits, y) + (1 - share) * distance

    return loss(own, common, context["alpha"]), loss(common, own, context["beta"])


def played(method, engine="serial", rounds=2, folder=None, resume=False, models=None, **settings):
    """A federation that has played, of three networks of two architectures."""
    people = participants(models or [partial(net, 4), partial(net, 4), partial(cnn, None)])
    federation = potluck.Federation(people, method, seed=3, engine=engine, **settings)
    federation.run(rounds, run_dir=folder, resume=resume)
    return federation


def models_agree(ours, theirs, tolerance=1e-9):
    """All models of all participants are the same."""
    for name, person in ours.participants.items():
        other = theirs.participants[name]
        assert list(person.models) == list(other.models)
        for key, model in person.models.items():
            for entry, same in zip(model.weights().values(), other.models[key].weights().values(), strict=True):
                torch.testing.assert_close(entry, same, rtol=tolerance, atol=tolerance)


def test_fmls_losses_are_those_worked_out_by_hand():
    own = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    common = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64, requires_grad=True)
    losses = losses_of(own, common, torch.tensor([0]), {"alpha": 0.8, "beta": 0.6})
    assert [round(loss.item(), 6) for loss in losses] == [0.580680, 0.230146]
    sum(losses).backward()
    torch.testing.assert_close(own.grad, torch.tensor([[-0.45, 0.45]], dtype=torch.float64))
    torch.testing.assert_close(common.grad, torch.tensor([[-0.05, 0.05]], dtype=torch.float64))


@pytest.mark.parametrize("keep", [False, True])
def test_fml_is_the_same_stacked(keep):
    serial = played(FML(keep=keep))
    for engine in ("batched", "auto"):
        stacked = played(FML(keep=keep), engine)
        agree(serial.history.rows(), stacked.history.rows(), 1e-9)
        models_agree(serial, stacked)
    assert not stacked.engine.incidents


def test_fml_trains_both_like_a_loop_in_plain_pytorch():
    """One participant, one round: each model by its own optimizer, on the same batches."""
    federation = potluck.Federation(participants([mlp(0)], sizes=[24]), FML(), seed=3, engine="dry-run")
    federation.run(0)
    person = federation.participants["p0"]
    nets = {"own": mlp(0), "common": net(3)}
    nets["common"].load_state_dict(person.models["common"].weights())
    trained = potluck.Federation(participants([mlp(0)], sizes=[24]), FML(), seed=3, engine="serial")
    trained.run(1)
    order = batches_of(trained.participants["p0"])
    optimizers = [
        torch.optim.SGD(nets["own"].parameters(), lr=0.05, momentum=0.9),
        torch.optim.SGD(nets["common"].parameters(), lr=0.1, momentum=0.9),
    ]
    for batch in order:
        loss = mutual(nets, batch, {"alpha": 0.8, "beta": 0.6})
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    for name, model in nets.items():
        for key, entry in model.state_dict().items():
            torch.testing.assert_close(trained.participants["p0"].models[name].weights()[key], entry)


def batches_of(person):
    """The batches of a participant's first Fit of the first round."""
    from potluck.core.randomness import derive
    from potluck.learners.schedule import batch_schedule

    seed = derive(person.seed, person.name, 1, "round", 1)
    for step in batch_schedule(len(person.data), person.plan, seed, 1):
        yield {name: column[step.rows] for name, column in person.data.columns.items()}


@pytest.mark.parametrize("settings", [{"storage": "disk", "max_concurrent": 1}, {"max_concurrent": 2}])
def test_models_rest_with_their_owners(settings):
    models_agree(played(FML(keep=True)), played(FML(keep=True), **settings), 0)


def test_all_models_are_in_the_checkpoint(tmp_path):
    played(FML(keep=True), rounds=1, folder=tmp_path)
    resumed = played(FML(keep=True), rounds=2, folder=tmp_path, resume=True)
    models_agree(resumed, played(FML(keep=True)), 0)
