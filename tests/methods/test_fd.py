from __future__ import annotations

import pytest
import torch
from torch.func import functional_call

import potluck
from potluck.core.model_view import ModelView
from potluck.core.objectives import hard_and_soft
from potluck.core.payload import Payload
from potluck.core.samples import Samples
from potluck.federation.server import Server
from potluck.methods import FD
from tests.tables import cnn, made_data, mlp, participants

PUBLIC = made_data(30, 60)


def test_the_server_takes_the_uniform_mean():
    """Eq. 3: credibility and sample counts play no part."""
    server = Server(0, {"a": 5.0, "b": 1.0}, Samples({"x": torch.zeros(1, 1)}))
    answers = [("a", Payload({"probabilities": torch.tensor([[0.8, 0.2]])}))]
    answers += [("b", Payload({"probabilities": torch.tensor([[0.6, 0.4]])}))]
    reply = FD().probabilities(server, iter(answers))
    assert isinstance(reply, Payload)
    torch.testing.assert_close(reply["probabilities"], torch.tensor([[0.7, 0.3]]))


def test_the_loss_adds_hard_and_soft_terms_by_hand():
    """Output (½, ½): the label gives ln 2, each soft label ln 2; a mean over three samples of one term each."""

    class Constant(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(len(x), 2)

    own = Samples({"x": torch.zeros(1, 1), "y": torch.tensor([0])})
    soft = Samples({"x": torch.zeros(2, 1)}).with_targets(soft=torch.tensor([[0.8, 0.2], [0.6, 0.4]]))
    mixed = Samples.concat([own, soft])
    loss = hard_and_soft(ModelView(Constant()), dict(mixed.columns), {"temperature": 5.0})
    assert 3 * loss.item() == pytest.approx(2.079442, abs=1e-6)


@pytest.mark.parametrize("labelled", [True, False])
def test_whole_method_equals_a_plain_recomputation(labelled):
    """Two rounds of full-batch gradient descent, written out."""
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = participants([cnn(0), mlp(1)], plan=plan)
    plain = [cnn(0), mlp(1)]
    data = [(p.data.x, p.data.y) for p in people]
    public = PUBLIC if labelled else PUBLIC[0]
    method = FD(temperature=2.0, distill_lr=0.05)
    history = potluck.Federation(people, method, public=public, seed=4).run(2)

    x_public, y_public = torch.from_numpy(PUBLIC[0]), torch.from_numpy(PUBLIC[1])
    soft = None
    for _ in range(2):
        answers = []
        for net, (x, y) in zip(plain, data, strict=True):
            net.train()
            sets = [x] + ([x_public] if labelled else []) + ([x_public] if soft is not None else [])
            logits = net(torch.cat(sets))
            hard_rows = len(x) + (len(x_public) if labelled else 0)
            hard_labels = torch.cat([y, y_public]) if labelled else y
            log_hard = logits[:hard_rows].log_softmax(1)
            total = -log_hard[torch.arange(hard_rows), hard_labels].sum()
            if soft is not None:
                total = total - (soft * (logits[hard_rows:] / 2.0).log_softmax(1)).sum()
            loss = total / len(logits)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= (0.1 if soft is None else 0.05) * p.grad
            net.eval()
            answers.append((functional_call(net, {}, (x_public,)) / 2.0).softmax(1).detach().float())
        soft = (answers[0].double() + answers[1].double()).div(2).float()
    for person, net in zip(people, plain, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-10, atol=1e-10)
    message = Payload({"probabilities": torch.zeros(30, 3)}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in history.rows()[2:]} == {(message, message)}


def test_first_epochs_and_later_epochs():
    class Counting(FD):
        def round(self, me):
            steps, epochs = super().round(me), []
            request = next(steps)
            while request is not None:
                if isinstance(request, potluck.Fit):
                    epochs.append(request.plan.epochs)
                answer = yield request
                try:
                    request = steps.send(answer)
                except StopIteration:
                    request = None
            return {"epochs": epochs}

    method = Counting(first_epochs=5, epochs=1)
    rows = potluck.Federation(participants([mlp(0), mlp(1)]), method, public=PUBLIC[0]).run(2).rows()
    assert [row["epochs"] for row in rows] == [[5], [5], [1], [1]]


def test_it_needs_public_data():
    with pytest.raises(potluck.RequirementsError, match="needs public data"):
        potluck.Federation(participants([mlp(0)]), FD())
