"""DENSE by numbers worked out by hand, the server's half against plain PyTorch, and a student that learns."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck.core.randomness import derive, seeded
from potluck.methods import DENSE
from potluck.methods.dense import disagreement, norm_distance, said_together, synthesis_loss
from potluck.methods.input_generator import InputGenerator
from tests.tables import cnn, made_data, mlp, participants

L3 = math.log(3)
FLAT, CONVOLVING = partial(mlp, None, dtype=torch.float32), partial(cnn, None, 2, dtype=torch.float32)


class Saying:
    """A network that says the same of everything, with what enters one BatchNorm layer."""

    def __init__(self, logits, entering=None):
        self.logits, self.entering = torch.tensor(logits), entering

    def __call__(self, x):
        return self.logits.expand(len(x), 2)

    def taps(self, x, at):
        return self(x), dict.fromkeys(at, self.entering)


def test_all_together_worked_by_hand():
    """The mean logits of (2 ln 3, 0) and (0, 0) give (¾, ¼); the mean probabilities would give (.7, .3)."""
    context = {"teachers": {"a": Saying([2 * L3, 0.0]), "b": Saying([0.0, 0.0])}, "running": {}}
    together, norms = said_together(torch.zeros(1, 1), context)
    torch.testing.assert_close(together.softmax(1), torch.tensor([[0.75, 0.25]]))
    assert norms.item() == 0
    assert F.cross_entropy(together, torch.tensor([0])).item() == pytest.approx(0.287682, abs=1e-6)


def test_the_disagreement_worked_by_hand():
    """Two samples: KL .549306 where the labels differ, .092332 where they do not."""
    together = torch.tensor([[L3, 0.0], [L3, 0.0]])
    student = torch.tensor([[0.0, L3], [2 * L3, 0.0]])
    assert disagreement(together, student).item() == pytest.approx(-0.274653, abs=1e-6)


def test_the_distance_of_statistics_worked_by_hand():
    """What enters, −1 and 3, has the mean 1 and the variance 4."""
    entering = torch.tensor([[-1.0], [3.0]])
    for (mean, var), expected in (((0.0, 1.0), 4.0), ((1.0, 4.0), 0.0)):
        running = {"mean": torch.tensor([mean]), "var": torch.tensor([var])}
        assert norm_distance(entering, running).item() == expected


def test_the_generators_loss_worked_by_hand():
    """.287682 + 1 · 2 − .5 · .274653; of two models L_BN has the mean 2, and the sum 4."""
    entering = torch.tensor([[-1.0], [3.0]])
    running = {
        name: {"n": {"mean": torch.tensor([mean]), "var": torch.tensor([var])}}
        for name, mean, var in (("a", 0.0, 1.0), ("b", 1.0, 4.0))
    }

    class Student:
        def __call__(self, x):
            return torch.tensor([[0.0, L3], [2 * L3, 0.0]])

    context = {
        "teachers": {"a": Saying([2 * L3, 0.0], entering), "b": Saying([0.0, 0.0], entering)},
        "running": running,
        "student": Student(),
        "precision": torch.zeros(()),
        "lambda_bn": 1.0,
        "lambda_div": 0.5,
    }
    batch = {"x": torch.zeros(2, 1), "y": torch.tensor([0, 0])}
    assert synthesis_loss(lambda x: x, batch, context).item() == pytest.approx(2.150355, abs=1e-6)


def people():
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=2, batch_size=1000)
    return participants([FLAT, CONVOLVING], plan=plan, dtype="float32")


def played(epochs, **settings):
    method = DENSE(
        architectures=(FLAT, CONVOLVING),
        student=FLAT,
        epochs=epochs,
        generator_steps=2,
        batch_size=12,
        noise=4,
        width=3,
        bounded=False,
        server_plan={"lr": 0.1},
        generator_lr=0.01,
        **settings,
    )
    federation = potluck.Federation(people(), method, seed=2, engine="serial")
    federation.run(1)
    return federation


AS_THE_CODE = {"norms": "sum", "pool": True, "train_noise": True, "fresh_generator": True, "inputs": "best"}


@pytest.mark.parametrize("settings", [{}, {"norms": "sum", "pool": True}, AS_THE_CODE])
def test_two_epochs_of_the_server_equal_plain_pytorch(settings):
    idle, federation = played(0), played(2, **settings)
    generator, student = InputGenerator(4, 3, (1, 6, 6), False), FLAT()
    if settings != AS_THE_CODE:
        generator.load_state_dict(idle.server.models["generator"].weights())
    student.load_state_dict(idle.server.models["student"].weights())
    flat, convolving = FLAT(), CONVOLVING()
    for net, person in ((flat, "p0"), (convolving, "p1")):
        net.load_state_dict(idle.participants[person].weights())
        net.eval().requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    learning = list(generator.parameters())
    adam = torch.optim.Adam(learning, lr=0.01, betas=(0.5, 0.999))
    made = []
    for epoch in range(2):
        draw = federation.server.generator(f"epoch {epoch}")
        noise, y = torch.randn(12, 4, generator=draw), torch.randint(3, (12,), generator=draw)
        if settings == AS_THE_CODE:
            with seeded(derive(federation.server.seed, "generator", 1, epoch)):
                generator = InputGenerator(4, 3, (1, 6, 6), False)
            learning = [noise.requires_grad_(), *generator.parameters()]
            adam = torch.optim.Adam(learning, lr=0.01, betas=(0.5, 0.999))
        student.eval()
        met = []
        for _ in range(2):
            now = generator.eval()(noise).detach()
            x = generator.train()(noise)
            together = (flat(x) + convolving(x)) / 2
            inner = convolving[0](x).transpose(0, 1).flatten(1)
            norm = (inner.mean(1) - convolving[1].running_mean).norm()
            norm = norm + (inner.var(1, unbiased=False) - convolving[1].running_var).norm()
            p, q = together.softmax(1), student(x).softmax(1)
            differ = (p.argmax(1) != q.argmax(1)).float()
            apart = -((p * (p.log() - q.log())).sum(1) * differ).mean()
            loss = F.cross_entropy(together, y) + norm / (1 if "norms" in settings else 2) + 0.5 * apart
            adam.zero_grad()
            loss.backward(inputs=learning)
            adam.step()
            met.append((loss.item(), now))
        last = generator.eval()(noise).detach()
        inputs = min(met, key=lambda each: each[0])[1] if settings == AS_THE_CODE else last
        made = [*made, inputs] if settings else [inputs]
        x = torch.cat(made)
        p = ((flat(x) + convolving(x)) / 40).softmax(1)
        student.train()
        loss = 400 * (p * (p.log() - (student(x) / 20).log_softmax(1))).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for network, name in ((generator, "generator"), (student, "student")):
        found = federation.server.models[name].weights()
        if "noise" in found:
            torch.testing.assert_close(found.pop("noise"), noise.detach(), rtol=1e-3, atol=1e-5)
            found = {entry.removeprefix("generator."): value for entry, value in found.items()}
        torch.testing.assert_close(found, dict(network.state_dict()), rtol=1e-3, atol=1e-5)


def test_a_network_that_the_server_does_not_know_is_refused_by_name():
    people = participants([FLAT, partial(mlp, None, 5, dtype=torch.float32)], dtype="float32")
    method = DENSE(architectures=(FLAT,), student=FLAT, epochs=0)
    with pytest.raises(potluck.RequirementsError, match=r"p1 .* name it in `architectures`"):
        potluck.Federation(people, method, seed=2, engine="serial").run(1)


def test_a_student_that_never_saw_a_sample_learns():
    """The same two networks, trained for longer: the student knows more than a guess, which is a third."""
    plan = potluck.Plan(optimizer="adam", lr=0.01, epochs=10, batch_size=16)
    people = participants([FLAT, CONVOLVING], sizes=(80, 80), plan=plan, dtype="float32")
    method = DENSE(
        architectures=(FLAT, CONVOLVING), student=FLAT, epochs=40, generator_steps=5, batch_size=32, noise=16, width=8,
        bounded=False, pool=True,
    )  # fmt: skip
    test = made_data(200, 91, dtype="float32")
    history = potluck.Federation(people, method, test=test, seed=2, engine="serial").run(1)
    student = next(row for row in history.rows() if row.get("model") == "student")
    assert student["accuracy"] > 0.6
