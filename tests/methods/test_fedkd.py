"""FedKD by numbers worked out by hand, and rounds against plain PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck.methods import FedKD
from potluck.methods.fedkd import adaptive_losses
from tests.tables import cnn, mlp, narrow_mlp, participants


@pytest.mark.parametrize("detach", [True, False])
def test_the_losses_worked_by_hand(detach):
    """Teacher (0, 0), student (ln 3, 0), label 0, so S = ln 2 + ln(4/3); features (1, 3) and (1, 1) are 2 apart."""
    logits = {"own": torch.zeros(1, 2), "common": torch.tensor([[math.log(3), 0.0]])}
    features = {"own": torch.tensor([[1.0, 3.0]]), "common": torch.tensor([[1.0, 1.0]])}
    batch = {"x": logits["own"], "y": torch.tensor([0])}
    teacher, student = adaptive_losses(logits, features, batch, {"detach": detach})
    assert teacher.item() == pytest.approx(0.693147 + 0.133369 + 2.039091, abs=1e-5)
    assert student.item() == pytest.approx(0.287682 + 0.146652 + 2.039091, abs=1e-5)


def test_detached_nothing_of_the_other_is_moved():
    logits = {name: torch.randn(3, 2, requires_grad=True) for name in ("own", "common")}
    features = {name: torch.randn(3, 2, requires_grad=True) for name in ("own", "common")}
    teacher, student = adaptive_losses(logits, features, {"x": None, "y": torch.tensor([0, 1, 0])}, {"detach": True})
    teacher.backward()
    assert logits["common"].grad is None
    assert features["common"].grad is None
    student.backward()
    assert logits["common"].grad is not None


def test_the_energy_rises_in_a_line():
    method = FedKD(energy=(0.9, 1.0), rounds=10)
    assert [method.energy_in(number) for number in (1, 5, 10, 11)] == pytest.approx([0.91, 0.95, 1.0, 1.0])


@pytest.mark.parametrize("detach", [True, False])
def test_two_rounds_equal_plain_pytorch(detach):
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = participants([mlp(0), cnn(1, 3)], plan=plan)
    method = FedKD(common=narrow_mlp, energy=(0.5, 0.7), rounds=2, detach=detach)
    federation = potluck.Federation(people, method, seed=4, engine="serial")
    maps = [me.models["map"].weights()["0.weight"].requires_grad_() for me in people]
    student = mlp(9, 4)
    student.load_state_dict(people[0].models["common"].weights())
    federation.run(2)

    def truncated(entry, energy):
        if entry.ndim < 2:
            return entry
        u, s, v = torch.linalg.svd(entry, full_matrices=False)
        rank = next(k for k in range(1, len(s) + 1) if (s[:k] ** 2).sum() >= energy * (s**2).sum())
        return u[:, :rank] @ torch.diag(s[:rank]) @ v[:rank]

    nets, bodies = [mlp(0), cnn(1, 3)], [slice(0, 3), slice(0, 4)]
    for energy in (0.6, 0.7):
        old, updates = {n: e.clone() for n, e in student.state_dict().items()}, []
        for net, body, w, person in zip(nets, bodies, maps, people, strict=True):
            student.load_state_dict(old)
            x, y = person.data.x, person.data.y
            h, hs = net[body](x), student[:3](x)
            z, zs = net[-1](h), student[-1](hs)
            ce, ces = F.cross_entropy(z, y), F.cross_entropy(zs, y)
            fix = torch.Tensor.detach if detach else (lambda tensor: tensor)
            p, ps = z.softmax(1), zs.softmax(1)
            teacher = (fix(ps) * (fix(ps).log() - p.log())).sum(1).mean() + ((h - fix(hs @ w.T)) ** 2).mean()
            taught = (fix(p) * (fix(p).log() - ps.log())).sum(1).mean() + ((fix(h) - hs @ w.T) ** 2).mean()
            loss = ce + ces + (teacher + taught) / fix(ce + ces)
            parameters = [*net.parameters(), *student.parameters(), w]
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data -= 0.1 * gradient
            updates.append({n: truncated(e - old[n], energy) for n, e in student.state_dict().items()})
        mean = {n: truncated((updates[0][n] + updates[1][n]) / 2, energy) for n in old}
        student.load_state_dict({n: old[n] + mean[n] for n in old})
    for person, net, w in zip(people, nets, maps, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(person.models["map"].weights()["0.weight"], w.detach(), rtol=1e-8, atol=1e-8)
        found = person.models["common"].weights()
        torch.testing.assert_close(found, dict(student.state_dict()), rtol=1e-8, atol=1e-8)


def test_the_server_and_all_participants_have_one_student():
    people = participants([mlp(0), cnn(1, 3), mlp(2)])
    method = FedKD(common=narrow_mlp)
    federation = potluck.Federation(people, method, seed=4, participation=2)
    federation.run(3)
    current = method.entries(federation.server, "p0")
    for person in people:
        if person.state["round"] == 3:
            torch.testing.assert_close(person.models["common"].weights(), current, rtol=0, atol=1e-12)


def test_fewer_numbers_travel_at_less_energy():
    sent = []
    for energy in (0.3, 1.0):
        people = participants([mlp(0), mlp(1)])
        rows = potluck.Federation(people, FedKD(energy=(energy, energy)), seed=4).run(2).rows()
        sent.append(sum(row["bytes_up"] for row in rows if row["round"] == 2 and "model" not in row))
    assert sent[0] < sent[1] / 4
