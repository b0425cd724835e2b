"""FedMRL by numbers worked out by hand, rounds against plain PyTorch, and how a participant answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.core.model_view import ModelView
from potluck.methods import FedMRL
from potluck.methods.fedmrl import fused_loss
from tests.tables import cnn, made_data, mlp, narrow_mlp, participants

L3 = math.log(3)
HEADS = {"own": "input of 1", "common": "input of 1", "own head": ("1",), "common head": ("1",)}


def fixed(rows, head):
    """A network whose feature is constant."""
    body, last = nn.Linear(1, len(rows)), nn.Linear(len(head[0]), 2, bias=False)
    body.weight.data.zero_()
    body.bias.data = torch.tensor(rows)
    last.weight.data = torch.tensor(head)
    return nn.Sequential(body, last)


def test_the_losses_worked_by_hand():
    """R = (2, 4): the common head says (2 ln 3, 0) of its first number, one's own (ln 3, 0) of both."""
    small, own = fixed([1.0], [[L3], [0.0]]), fixed([2.0, 3.0], [[0.0, L3 / 4], [0.0, 0.0]])
    projector = nn.Sequential(nn.Linear(3, 2, bias=False))
    projector[0].weight.data = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    views = {"common": ModelView(small), "own": ModelView(own), "map": ModelView(projector)}
    loss = fused_loss(views, {"x": torch.zeros(1, 1), "y": torch.tensor([0])}, HEADS)
    assert loss.item() == pytest.approx(0.105361 + 0.287682, abs=1e-6)
    loss.backward()
    torch.testing.assert_close(small[0].bias.grad, torch.tensor([-0.068663]), atol=1e-6, rtol=0)
    expected = torch.tensor([-0.109861, -0.068663])
    torch.testing.assert_close(own[0].bias.grad, expected, atol=1e-5, rtol=0)


def test_two_rounds_equal_plain_pytorch():
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = participants([mlp(0), cnn(1, 3)], plan=plan)
    federation = potluck.Federation(people, FedMRL(common=narrow_mlp), seed=4, engine="serial")
    projectors = [[e.requires_grad_() for e in me.models["map"].weights().values()] for me in people]
    commons = [mlp(9, 4), mlp(9, 4)]
    for net in commons:
        net.load_state_dict(people[0].models["common"].weights())
    federation.run(2)

    nets, bodies = [mlp(0), cnn(1, 3)], [slice(0, 3), slice(0, 4)]
    shares = [len(person.data) / sum(len(other.data) for other in people) for person in people]
    for _ in range(2):
        for net, body, common, projector, person in zip(nets, bodies, commons, projectors, people, strict=True):
            x, y = person.data.x, person.data.y
            fused = F.linear(torch.cat([common[:3](x), net[body](x)], 1), *projector)
            loss = F.cross_entropy(common[3](fused[:, :4]), y) + F.cross_entropy(net[-1](fused), y)
            parameters = [*net.parameters(), *common.parameters(), *projector]
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data -= 0.1 * gradient
        states = [common.state_dict() for common in commons]
        mean = {name: sum(w * one[name] for w, one in zip(shares, states, strict=True)) for name in states[0]}
        for common in commons:
            common.load_state_dict(mean)
    x = torch.from_numpy(made_data(7, 5)[0])
    for person, net, body, common, projector in zip(people, nets, bodies, commons, projectors, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-8, atol=1e-8)
        found = person.models["common"].weights()
        torch.testing.assert_close(found, dict(common.state_dict()), rtol=1e-8, atol=1e-8)
        with torch.no_grad():
            net.eval()
            answer = net[-1](F.linear(torch.cat([common[:3](x), net[body](x)], 1), *projector)).softmax(1)
        np.testing.assert_allclose(person.predict_proba(x.numpy()), answer.float().numpy(), rtol=1e-5)


def test_a_transform_of_inputs_does_not_touch_features():
    """The plan's transform is for inputs: what it makes of them stays in the answer, and features are as they are."""
    plan = potluck.Plan(epochs=0, transform=halved)
    x = made_data(5, 0)[0]
    answers = []
    for scale, settings in ((1.0, {"plan": plan}), (0.5, {"plan": potluck.Plan(epochs=0)})):
        people = participants([mlp(0)], **settings)
        potluck.Federation(people, FedMRL(common=narrow_mlp), seed=4, engine="serial").run(1)
        answers.append(people[0].predict_proba(scale * x))
    np.testing.assert_allclose(*answers)


def halved(x):
    return x / 2


def test_a_common_model_that_is_too_wide_is_told():
    with pytest.raises(potluck.RequirementsError, match="64 numbers and p0's 8"):
        potluck.Federation(participants([mlp(0)]), FedMRL())


def test_values_are_learned_as_labels_are():
    """Regression: two losses of the task, and answers in its units."""
    x, y = made_data(60, 0)[0], made_data(60, 0)[0][:, 0, 0, 0] * 3 + 100

    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    plan = potluck.Plan(lr=0.01, epochs=5)
    people = [potluck.Participant(f"p{i}", model(), (x, y), task="regression", plan=plan) for i in range(2)]
    potluck.Federation(people, FedMRL(common="tests.tables:narrow_regressor"), seed=4, engine="serial").run(4)
    assert np.corrcoef(people[0].predict(x).ravel(), y)[0, 1] > 0.9
