"""HeteroFL by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, HeteroFL
from potluck.methods.width_scaling import masked_loss
from potluck.models import build, cnn
from tests.tables import SHAPE, agree, made_data, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
TEST = made_data(60, 91)


def narrow(rate, seed=0, classes=3):
    torch.manual_seed(seed)
    return build("mlp", SHAPE, classes, hidden=(8, 4), rate=rate).double()


def served(layouts, old, answers, **told):
    """The global entries after a round: what participants hold, what there was, what they send."""
    method, server = HeteroFL(), Server(0, dict.fromkeys(layouts, 1.0))
    greeting = {"samples": 1, "head": [], "labels": [0], "owned": [True], "statistics": []}
    method.greet(
        server,
        iter((name, Payload(facts={**greeting, "layout": own, **told.get(name, {})})) for name, own in layouts.items()),
    )
    server.state["global"] = {name: torch.tensor(entry) for name, entry in old.items()}
    replies = method.weights(server, iter(answers.items()))
    return {name: entry.tolist() for name, entry in server.state["global"].items()}, replies


def test_positions_are_averaged_over_those_who_hold_them():
    layouts = {"A": {"w": ["float32", 2, 2]}, "B": {"w": ["float32", 1, 1]}}
    sent = {"A": Payload({"w": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}), "B": Payload({"w": torch.tensor([[5.0]])})}
    old = {"w": [[9.0, 9.0], [9.0, 9.0]]}
    assert served(layouts, old, sent)[0] == {"w": [[3, 2], [3, 4]]}
    found, replies = served(layouts, old, {"B": sent["B"]})
    assert found == {"w": [[5, 9], [9, 9]]}
    assert replies["B"]["w"].tolist() == [[5]]


def test_a_row_of_the_head_is_averaged_over_who_owns_the_class():
    layout = {"fc.bias": ["float32", 3]}
    told = {name: {"head": ["fc"], "labels": [0, 1, 2]} for name in "AB"}
    told["A"]["owned"], told["B"]["owned"] = [True, True, False], [False, True, False]
    sent = {"A": Payload({"fc.bias": torch.tensor([1.0, 2, 3])}), "B": Payload({"fc.bias": torch.tensor([4.0, 6, 8])})}
    found, _ = served({"A": layout, "B": layout}, {"fc.bias": [7.0, 7, 7]}, sent, **told)
    assert found == {"fc.bias": [1, 4, 7]}


def test_absent_classes_logits_count_as_zero():
    batch = {"x": torch.tensor([[2.0, 1.0, 3.0]]), "y": torch.tensor([0])}
    loss = masked_loss(lambda x: x, batch, {"owned": torch.tensor([True, True, False])})
    assert loss.item() == pytest.approx(0.407606, abs=1e-6)


def test_a_round_is_what_the_paper_says():
    """Rates 1, ½ and ½; the third has no sample of class 2."""
    people = participants([narrow(1.0, 0), narrow(0.5, 1), narrow(0.5, 2)], plan=PLAIN)
    third = potluck.Participant("p2", people[2].model, made_data(17, 2, [0, 1]), plan=PLAIN, labels=range(3))
    people[2] = third
    whole = {name: entry.clone() for name, entry in people[0].weights().items()}
    data = [(torch.from_numpy(made_data(n, i, c)[0]), torch.from_numpy(made_data(n, i, c)[1])) for n, i, c in PARTS]
    potluck.Federation(people, HeteroFL(), seed=1).run(1)

    total, count = ({name: torch.zeros_like(entry) for name, entry in whole.items()} for _ in range(2))
    for (x, y), (h1, h2), owned in zip(data, ((8, 4), (4, 2), (4, 2)), ((1, 1, 1), (1, 1, 1), (1, 1, 0)), strict=True):
        sizes = {"1": (h1, 36), "3": (h2, h1), "5": (3, h2)}
        cuts = {f"{k}.weight": (slice(o), slice(i)) for k, (o, i) in sizes.items()}
        cuts |= {f"{k}.bias": (slice(o),) for k, (o, _) in sizes.items()}
        w = {name: whole[name][cut].clone().requires_grad_() for name, cut in cuts.items()}
        z = torch.tanh(x.flatten(1) @ w["1.weight"].T + w["1.bias"])
        z = torch.tanh(z @ w["3.weight"].T + w["3.bias"])
        logits = (z @ w["5.weight"].T + w["5.bias"]) * torch.tensor(owned)
        F.cross_entropy(logits, y).backward()
        for name, cut in cuts.items():
            counts = torch.ones_like(w[name])
            if name.startswith("5."):
                counts[~torch.tensor(owned).bool()] = 0
            total[name][cut] += counts * (w[name] - 0.1 * w[name].grad).detach()
            count[name][cut] += counts
    expected = {name: torch.where(count[name] > 0, total[name] / count[name], whole[name]) for name in whole}
    torch.testing.assert_close(people[0].weights(), expected, rtol=0, atol=1e-12)
    for name, entry in people[1].weights().items():
        torch.testing.assert_close(entry, expected[name][tuple(map(slice, entry.shape))], rtol=0, atol=1e-12)


PARTS = ((24, 0, range(3)), (31, 1, range(3)), (17, 2, [0, 1]))


def test_with_equal_networks_it_is_fedavg():
    people, theirs = ([narrow(1.0, i) for i in range(3)] for _ in range(2))
    ours, fedavg = participants(people), participants(theirs)
    mine = potluck.Federation(ours, HeteroFL(weighting="samples"), test=TEST, seed=1).run(3)
    other = potluck.Federation(fedavg, FedAvg(), test=TEST, seed=1).run(3)
    weights_agree(ours, fedavg, 1e-12)
    for row, expected in zip(mine.rows(), other.rows(), strict=True):
        assert row["accuracy"] == expected["accuracy"]


def test_the_server_s_whole_network_is_reported():
    whole = partial(cnn, channels=(4,), norm=True)
    people = participants([cnn(SHAPE, 3, (4,), norm=True, rate=0.5, scale=True).double() for _ in range(3)])
    federation = potluck.Federation(people, HeteroFL(model=whole), test=TEST, seed=1)
    rows = federation.run(2).rows()
    of_server = [row for row in rows if row["participant"] == "server"]
    assert [(row["round"], row["model"]) for row in of_server] == [(1, "global"), (2, "global")]
    entries = federation.server.models["global"].weights()
    own = people[0].weights()
    torch.testing.assert_close(entries["conv1.weight"][:2].double(), own["conv1.weight"], rtol=0, atol=1e-7)
    assert entries["conv1.weight"].shape[0] == 4


def norms(net):
    return {name: entry for name, entry in net.weights().items() if "running" in name}


def test_statistics_stay_at_home_and_the_server_has_those_of_the_widest():
    whole = partial(cnn, channels=(4,), norm=True)
    people = participants([cnn(SHAPE, 3, (4,), norm=True, rate=r, scale=True).double() for r in (1.0, 0.5, 1.0)])
    federation = potluck.Federation(people, HeteroFL(model=whole, weighting="samples"), seed=1)
    federation.run(1)
    server = norms(federation.server.models["global"])
    one, narrow, other = (norms(person.network) for person in people)
    sizes = [len(people[0].data), len(people[2].data)]
    for name, entry in server.items():
        mean = (sizes[0] * one[name] + sizes[1] * other[name]) / sum(sizes)
        torch.testing.assert_close(entry.double(), mean, rtol=1e-6, atol=1e-6)
        assert not torch.equal(one[name], other[name])
        assert narrow[name].shape == (2,)


def test_label_spaces_may_differ():
    """Each holds the rows of its own labels of the common head."""

    def person(name, labels, seed):
        x, y = made_data(40, seed, range(len(labels)))
        return potluck.Participant(
            name, narrow(1.0, seed, len(labels)), (x, [labels[i] for i in y]), plan=PLAIN, labels=labels
        )

    people = [person("a", ["cat", "dog"], 0), person("b", ["dog", "owl", "yak"], 1)]
    before = copy.deepcopy(people)
    federation = potluck.Federation(people, HeteroFL(), seed=1)
    federation.run(0)
    start = federation.server.state["global"]["5.bias"]
    torch.testing.assert_close(start[1:], before[1].weights()["5.bias"])
    torch.testing.assert_close(start[:1], before[0].weights()["5.bias"][:1])
    federation.run(1)
    whole, (cat, dog) = federation.server.state["global"]["5.bias"], people[0].weights()["5.bias"]
    torch.testing.assert_close(whole[:2], torch.stack([cat, dog]))
    torch.testing.assert_close(whole[1:], people[1].weights()["5.bias"])


def test_a_class_may_be_known_to_narrow_networks_alone():
    """Then the features that they do not have say nothing of it: they stay at 0."""
    wide, small = narrow(1.0, 0, classes=2), narrow(0.5, 1, classes=2)
    people = [
        potluck.Participant(name, net, made_data(20, 0, labels), plan=PLAIN, labels=labels)
        for name, net, labels in (("a", wide, [0, 1]), ("b", small, [1, 2]))
    ]
    federation = potluck.Federation(people, HeteroFL(), seed=1)
    federation.run(2)
    whole = federation.server.state["global"]["5.weight"]
    assert whole.shape == (3, 4)
    assert not whole[2, 2:].any()
    assert whole[2, :2].all()


def test_what_is_no_family_is_refused():
    def start(*nets, **settings):
        potluck.Federation(participants(nets), HeteroFL(**settings)).run(0)

    other = nn.Sequential(nn.Identity(), nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 4), nn.Flatten()).double()
    crossed = [build("mlp", SHAPE, 3, hidden=sizes).double() for sizes in ((8, 2), (4, 4))]
    with pytest.raises(potluck.RequirementsError, match=r"No participant has all of '3.weight', \(4, 8\)"):
        start(*crossed)
    with pytest.raises(potluck.RequirementsError, match="expected networks of one family"):
        start(narrow(1.0), other)
    with pytest.raises(potluck.RequirementsError, match="Its `model` must be the whole"):
        start(narrow(1.0), model=partial(build, "mlp", hidden=(4, 4)))


def test_engines_agree_where_classes_are_missing():
    def play(engine):
        people = [
            potluck.Participant(f"p{i}", narrow(rate, i), made_data(20, i, classes), plan=PLAIN, labels=range(3))
            for i, (rate, classes) in enumerate(((1.0, [0, 1]), (0.5, [1, 2]), (0.5, [0, 2])))
        ]
        return potluck.Federation(people, HeteroFL(), test=TEST, seed=1, engine=engine).run(2).rows()

    agree(play("serial"), play("batched"), 1e-9)
