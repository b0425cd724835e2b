"""FedGen by numbers worked out by hand, and both halves against plain PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck import Payload
from potluck.core.model_view import FrozenModel, ModelView
from potluck.methods import FedGen
from potluck.methods.fedgen import FeatureGenerator, diversity_loss, ensemble_loss, generated_loss
from tests.tables import headed_cnn, mlp, participants

L3 = math.log(3)


@pytest.mark.parametrize(
    ("ensemble", "expected"),
    [("labels", (0.389048, 0.693147)), ("samples", (0.508225, 0.920205)), ("logits", (0.455746, 1.005053))],
)
def test_the_ensemble_worked_by_hand(ensemble, expected):
    """A has 3 samples of class 0 and says (ln 3, 0); B has 1 and 4 and says (0, 0)."""
    heads = [Payload({"weight": torch.zeros(2, 1), "bias": torch.tensor(bias)}) for bias in ([L3, 0.0], [0.0, 0.0])]
    counts = torch.tensor([[3.0, 0.0], [1.0, 4.0]])
    context = {**FedGen(ensemble=ensemble).ensemble_of(heads, counts), "ensemble": ensemble}
    for label, value in enumerate(expected):
        loss = ensemble_loss(torch.zeros(1, 1), torch.tensor([label]), context)
        assert loss.item() == pytest.approx(value, abs=1e-6)


def test_a_generator_in_double_precision_reads_the_heads_as_they_travel():
    heads = [Payload({"weight": torch.ones(2, 1), "bias": torch.tensor([L3, 0.0])})]
    context = {**FedGen().ensemble_of(heads, torch.tensor([[1.0, 1.0]])), "ensemble": "samples"}
    loss = ensemble_loss(torch.zeros(1, 1, dtype=torch.float64), torch.tensor([0]), context)
    assert loss.item() == pytest.approx(0.287682, abs=1e-6)


def test_diversity_worked_by_hand():
    """Noise 0 and 2, features 0 and 3: of four pairs two are apart, by 4·3 = 12; exp(−6)."""
    loss = diversity_loss(torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0], [3.0]]))
    assert loss.item() == pytest.approx(math.exp(-6))


def test_the_participants_loss_in_plain_pytorch():
    """Classes are drawn by their shares; the head learns from generated features, the generator stays."""
    net, generator = mlp(0), FeatureGenerator(2, 3, 4, 8).double().eval()
    x, y, noise = torch.randn(6, 1, 6, 6).double(), torch.tensor([0, 1, 2, 0, 1, 2]), torch.randn(6, 2).double()
    drawn = torch.tensor([-3.0, -0.1, 0.1, 0.5, 1.0, 3.0]).double()[:, None]  # below ½ twice, below .75 up to .67
    context = {
        "cumulated": torch.tensor([0.5, 0.75, 1.0]),
        "head": "3",
        "generator": FrozenModel(dict(generator.state_dict()), generator),
        "alpha": 0.7,
        "beta": 0.3,
    }
    view = ModelView(net)
    context["generator"] = generator
    loss = generated_loss(view, {"x": x, "y": y, "noise": noise, "class": drawn}, context)

    classes = torch.tensor([0, 0, 1, 1, 2, 2])
    made = net[3](generator(torch.cat([noise, F.one_hot(classes, 3).double()], 1)))
    said = net[3](generator(torch.cat([noise, F.one_hot(y, 3).double()], 1))).softmax(1).detach()
    distance = (said * (said.log() - net(x).log_softmax(1))).sum(1).mean()
    expected = F.cross_entropy(net(x), y) + 0.7 * F.cross_entropy(made, classes) + 0.3 * distance
    torch.testing.assert_close(loss, expected)


def test_a_round_of_the_server_equals_plain_pytorch():
    """One batch of generated features against the uploaded heads, then the mean head."""
    people = participants([mlp(0), headed_cnn(1)])
    method = FedGen(noise=2, hidden=4, server_steps=1, server_plan={"optimizer": "sgd", "lr": 0.1, "batch_size": 10})
    untrained = method.model_copy(update={"server_plan": method.server_plan.replace(epochs=0)})
    idle = potluck.Federation(participants([mlp(0), headed_cnn(1)]), untrained)
    idle.run(1)
    generator = FeatureGenerator(2, 3, 4, 8)
    generator.load_state_dict(idle.server.models["generator"].weights())
    alone = participants([mlp(0), headed_cnn(1)])
    alone[1] = potluck.Participant(
        "p1", _headed(mlp(0)[3]), (alone[1].data.x, alone[1].data.y), plan=alone[1].plan, labels=range(3)
    )
    potluck.Federation(alone, potluck.methods.Local(), engine="serial").run(1)
    federation = potluck.Federation(people, method, engine="serial")
    federation.run(1)

    server = federation.server
    counts = torch.stack([person.data.y.bincount(minlength=3) for person in people]).double()
    server.round = 1
    y = torch.multinomial(counts.sum(0), 10, True, generator=server.generator("classes"))
    noise = torch.randn(10, 2, generator=server.generator("noise"))
    optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
    features = generator(torch.cat([noise, F.one_hot(y, 3).float()], 1))
    loss = 0
    for person, count in zip(alone, counts, strict=True):
        weight, bias = person.weights()["3.weight"].float(), person.weights()["3.bias"].float()
        shares = (count / counts.sum(0))[y].float()
        loss = loss + (shares * F.cross_entropy(features @ weight.T + bias, y, reduction="none")).mean()
    pairs = [
        ((noise[i] - noise[j]) ** 2).mean() * (features[i] - features[j]).abs().mean()
        for i in range(10)
        for j in range(10)
    ]
    (loss + torch.exp(-torch.stack(pairs).mean())).backward()
    optimizer.step()
    first, second = (torch.cat([sample.sum()[None] for sample in counts]) / counts.sum()).tolist()
    heads = [person.weights()["3.weight"] for person in alone]
    for person in people:
        torch.testing.assert_close(person.weights()["3.weight"], first * heads[0] + second * heads[1])
        for name, entry in generator.state_dict().items():
            found = person.models["generator"].weights()[name]
            torch.testing.assert_close(found.to(entry.dtype), entry, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(people[0].state["cumulated"], (counts.sum(0) / counts.sum()).cumsum(0).float())


def _headed(head):
    net = headed_cnn(1)
    net[3].load_state_dict(head.state_dict())
    return net


def test_nothing_is_generated_in_the_first_round():
    steps = FedGen().training(participants([mlp(0)])[0])
    assert steps.plain


def test_what_is_generated_counts_less_from_round_to_round():
    """The authors count rounds from 0: in the second one, the first with a generator, α is 10 · 0.98."""
    people = participants([mlp(0), headed_cnn(1)])
    method = FedGen(alpha=10, beta=5, decay=0.98, server_steps=1)
    federation = potluck.Federation(people, method, engine="serial")
    federation.run(1)
    for number, share in ((2, 0.98), (3, 0.98**2)):
        people[0].round = number
        context = method.training(people[0]).context
        assert [context["alpha"], context["beta"]] == pytest.approx([10 * share, 5 * share])
