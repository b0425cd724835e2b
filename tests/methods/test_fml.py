"""FML by numbers worked out by hand, and rounds against plain PyTorch."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F

import potluck
from potluck.methods import FML, Local
from potluck.methods.fml import mutual_losses
from tests.tables import cnn, mlp, participants, weights_agree

COMMON = partial(mlp, None, 4)


def test_losses_and_gradients_worked_by_hand():
    """Private (0, 0), common (ln 3, 0), label 0: .8 ln 2 + .2·KL((¾, ¼)‖(½, ½)), and .6 ln(4/3) + .4·KL(½‖¾)."""
    private = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    common = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64, requires_grad=True)
    losses = mutual_losses(private, common, {"x": private, "y": torch.tensor([0])}, {"alpha": 0.8, "beta": 0.6})
    assert [round(loss.item(), 6) for loss in losses] == [0.580680, 0.230146]
    sum(losses).backward()
    torch.testing.assert_close(private.grad, torch.tensor([[-0.45, 0.45]], dtype=torch.float64))
    torch.testing.assert_close(common.grad, torch.tensor([[-0.05, 0.05]], dtype=torch.float64))


def test_two_rounds_equal_plain_pytorch():
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = participants([mlp(0), cnn(1)], plan=plan)
    method = FML(alpha=0.8, beta=0.6, common=COMMON, common_plan=plan.replace(lr=0.2))
    federation = potluck.Federation(people, method, seed=4, engine="serial")
    commons = [mlp(9, 4), mlp(9, 4)]
    for net in commons:
        net.load_state_dict(federation.participants["p0"].models["common"].weights())
    federation.run(2)

    nets = [mlp(0), cnn(1)]
    for _ in range(2):
        for net, common, person in zip(nets, commons, people, strict=True):
            x, y = person.data.x, person.data.y
            p, q = net(x), common(x)
            for learner, mine, other, share, lr in ((net, p, q, 0.8, 0.1), (common, q, p, 0.6, 0.2)):
                said = other.detach().softmax(1)
                distance = (said * (said.log() - mine.log_softmax(1))).sum(1).mean()
                loss = share * F.cross_entropy(mine, y) + (1 - share) * distance
                parameters = list(learner.parameters())
                for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                    parameter.data -= lr * gradient
        mean = {n: (e + commons[1].state_dict()[n]) / 2 for n, e in commons[0].state_dict().items()}
        for common in commons:
            common.load_state_dict(mean)
    for person, net, common in zip(people, nets, commons, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(person.models["common"].weights(), dict(common.state_dict()), rtol=1e-9, atol=1e-9)


def test_with_alpha_one_the_private_model_learns_alone():
    runs = [participants([mlp(0), cnn(1)]) for _ in range(2)]
    for people, method in zip(runs, [FML(alpha=1, common=COMMON), Local()], strict=True):
        potluck.Federation(people, method, seed=4, engine="serial").run(2)
    weights_agree(*runs, 1e-12)


def test_both_models_are_reported():
    people = participants([mlp(0), cnn(1)], test=(participants([mlp(0)])[0].data.x, [0] * 24))
    rows = potluck.Federation(people, FML(common=COMMON), seed=4).run(1).rows()
    assert {row.get("model") for row in rows} >= {"common"}
