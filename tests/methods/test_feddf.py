from __future__ import annotations

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.core.model_view import ModelView
from potluck.methods import FedAvg, FedDF
from potluck.methods.feddf import Said, distil
from tests.methods.plain import PLAN, begun, data_of, descended, mean, same
from tests.tables import made_data, mlp, participants, weights_agree

SGD = potluck.Plan(optimizer="sgd", lr=0.3, batch_size=1000)
NETS = (partial(mlp, None, 4), partial(mlp, None, 6))
PUBLIC = made_data(20, 5)


class Logits(nn.Module):
    """Says the same of everything."""

    def __init__(self, *logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([logits], dtype=torch.float64))

    def forward(self, x):
        return self.logits.expand(len(x), -1)


@pytest.mark.parametrize(
    ("ensemble", "target", "expected"),
    [("avg_logits", 0.75, 0.130812), ("avg_probabilities", 0.7, 0.082283), ("avg_losses", 0.7, 0.184032)],
)
def test_what_two_teachers_say_by_hand(ensemble, target, expected):
    """Teachers [2 ln 3, 0] and [0, 0], a student that says [0, 0]: the loss, and its gradient on the logits."""
    said = Said(ensemble, 1.0)
    for logits in ([2 * math.log(3), 0.0], [0.0, 0.0]):
        said.add(torch.tensor([logits]))
    student = Logits(0.0, 0.0)
    loss = distil(ModelView(student), {"x": torch.zeros(1, 1), **said.targets()}, {"temperature": 1.0})
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    loss.backward()
    assert student.logits.grad[0].tolist() == pytest.approx([0.5 - target, target - 0.5], abs=1e-6)


def test_a_round_in_plain_pytorch():
    """Two architectures: each mean begins where its own uploads are, and both learn the mean logits of all three."""
    method = FedDF(architectures=NETS, steps=3, temperature=2.0, server_plan=SGD)
    federation, models = begun(method, [mlp(0, 4), mlp(1, 6), mlp(2, 4)], public=PUBLIC[0])
    people = list(federation.participants.values())
    trained = [descended(model, data_of(person)) for model, person in zip(models, people, strict=True)]
    x = torch.from_numpy(PUBLIC[0])
    soft = (sum(net(x) for net in trained) / 3 / 2.0).softmax(dim=1).detach()

    def distillation(net, inputs, _):
        return F.kl_div((net(inputs) / 2.0).log_softmax(dim=1), soft, reduction="batchmean")

    n = [len(person.data) for person in people]
    pair = mlp(0, 4)
    pair.load_state_dict(mean([trained[0].state_dict(), trained[2].state_dict()], [n[0], n[2]]))
    students = [descended(net, (x, x), steps=3, lr=0.3, loss=distillation) for net in (pair, trained[1])]
    federation.run(1)
    for person, student in zip(people, (students[0], students[1], students[0]), strict=True):
        same(person.weights(), student.state_dict(), 1e-6)


def test_without_a_step_it_is_fedavg_by_architecture():
    models = [(0, 4), (1, 6), (2, 4)]
    ours, _ = begun(FedDF(architectures=NETS, steps=0), [mlp(*m) for m in models], public=PUBLIC[0])
    theirs, _ = begun(FedAvg(aggregation="same-architecture"), [mlp(*m) for m in models])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 1e-12)


def test_those_no_better_than_chance_may_be_left_out():
    """One whose labels are all wrong: without it the mean is that of the others."""

    def people():
        found = participants([mlp(i, 4) for i in range(3)], plan=PLAN.replace(epochs=60, lr=0.5))
        found[2].held["brought"] = found[2].held["brought"].with_targets(y=(found[2].data.y + 1) % 3)
        return found

    method = FedDF(architectures=NETS, steps=0, drop_worst=True)
    everybody = people()
    federation = potluck.Federation(everybody, method, public=PUBLIC, engine="serial", seed=1)
    federation.run(1)
    federation_of_two = potluck.Federation(people()[:2], FedAvg(), engine="serial", seed=1)
    federation_of_two.run(1)
    weights_agree(everybody[2:], [federation_of_two.participants["p0"]], 1e-12)
    with pytest.raises(potluck.RequirementsError, match="labels on the public data"):
        potluck.Federation(people(), method, public=PUBLIC[0])


@pytest.mark.parametrize(("samples", "epochs"), [(128, 1000), (129, 500), (20, 1000), (12800, 10)])
def test_as_many_epochs_as_the_steps_take(samples, epochs):
    assert FedDF().epochs(samples) == epochs
