"""InclusiveFL by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, InclusiveFL
from tests.tables import deep_cnn, made_data, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)


def deep_mlp(layers, seed):
    """``layers`` hidden layers of one width, and a head."""
    torch.manual_seed(seed)
    steps = [nn.Flatten(), nn.Linear(36, 5), nn.Tanh()]
    for _ in range(layers - 1):
        steps += [nn.Linear(5, 5), nn.Tanh()]
    return nn.Sequential(*steps, nn.Linear(5, 3)).double()


def served(old, sent, samples, method):
    """The global values of each one's layers after a round; each layer is one number."""
    server = Server(0, dict.fromkeys(sent, 1.0))
    layout = {name: {f"{k}.weight": ["float32", 1, 1] for k in range(len(own))} for name, own in sent.items()}
    told = {n: {"samples": samples[n], "layout": layout[n], "buffers": []} for n in sent}
    method.greet(server, iter((name, Payload(facts=facts)) for name, facts in told.items()))
    for name, own in old.items():
        keys = method.keys(server, name)
        server.state["global"].update({keys[f"{k}.weight"]: torch.full((1, 1), float(v)) for k, v in enumerate(own)})
    answers = {
        name: Payload({f"{k}.weight": torch.full((1, 1), float(v)) for k, v in enumerate(own)})
        for name, own in sent.items()
    }
    method.weights(server, iter(answers.items()))
    return {name: [round(e.item(), 6) for e in method.entries(server, name).values()] for name in sent}


def test_layers_are_averaged_but_each_size_s_last():
    """S has two layers and M three; both have a head besides."""
    sent = {"S": [1, 20, 7], "M": [5, 40, 60, 9]}
    found = served(sent, sent, {"S": 3, "M": 1}, InclusiveFL(beta=0))
    assert found == {"S": [2, 20, 7], "M": [2, 40, 60, 9]}


def test_a_last_layer_also_learns_from_the_next_larger_size():
    """M's updates 0.4 and 0.8 from S's last layer up, S's own 1.0: 0.2 · 0.6 + 0.8 · 1.0 = 0.92."""
    zeros, method = {"S": [0, 0, 0], "M": [0, 0, 0, 0]}, InclusiveFL()
    found = served(zeros, {"S": [1, 1, 7], "M": [5, 0.4, 0.8, 9]}, {"S": 3, "M": 1}, method)
    assert found == {"S": [2, 0.92, 7], "M": [2, 0.4, 0.8, 9]}


def test_a_size_that_did_not_take_part_passes_nothing_on():
    zeros = {"S": [0, 0, 0], "M": [0, 0, 0, 0]}
    found = served(zeros, {"S": [1, 1, 7], "M": [0, 0, 0, 0]}, {"S": 3, "M": 1}, InclusiveFL())
    assert found["S"][1] == 1


def test_a_round_is_what_the_paper_says():
    people = participants([deep_mlp(1 + seed % 2, seed) for seed in range(4)], plan=PLAIN)
    federation = potluck.Federation(people, InclusiveFL(), seed=1)
    federation.run(0)
    start = [{name: entry.clone() for name, entry in person.weights().items()} for person in people]
    federation.run(1)

    sizes, trained = (24, 31, 17, 40), []
    for i, weights in enumerate(start):
        x, y = map(torch.from_numpy, made_data(sizes[i], i))
        w = {name: entry.clone().requires_grad_() for name, entry in weights.items()}
        z = x.flatten(1)
        *hidden, last = sorted({int(name.split(".")[0]) for name in w})
        for k in hidden:
            z = torch.tanh(z @ w[f"{k}.weight"].T + w[f"{k}.bias"])
        loss = F.cross_entropy(z @ w[f"{last}.weight"].T + w[f"{last}.bias"], y)
        gradients = torch.autograd.grad(loss, list(w.values()))
        trained.append({n: (e - 0.1 * g).detach() for (n, e), g in zip(w.items(), gradients, strict=True)})

    def mean(name, who):
        return sum(sizes[i] * trained[i][name] for i in who) / sum(sizes[i] for i in who)

    small, large = (0, 2), (1, 3)
    expected_small = {name: mean(name, small) for name in trained[0]}
    expected_large = {name: mean(name, large) for name in trained[1]}
    for part in ("weight", "bias"):  # the small ones' one hidden layer is their last: it learns from the large ones'
        own = expected_small[f"1.{part}"] - start[0][f"1.{part}"]
        above = expected_large[f"1.{part}"] - start[1][f"1.{part}"]
        expected_small[f"1.{part}"] = start[0][f"1.{part}"] + 0.2 * above + 0.8 * own
    for i, person in enumerate(people):
        expected = expected_small if i in small else expected_large
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)


def test_with_one_size_it_is_fedavg():
    ours, theirs = (participants([deep_cnn(i, 1) for i in range(3)]) for _ in range(2))
    potluck.Federation(ours, InclusiveFL(), seed=1).run(2)
    potluck.Federation(theirs, FedAvg(), seed=1).run(2)
    weights_agree(ours, theirs, 1e-12)


def test_without_layers_of_their_own_only_heads_are_a_size_s():
    """Then layers are averaged as in layer-wise FedAvg, whose heads of the same shape would meet."""
    ours, theirs = (participants([deep_cnn(i, 1 + i % 2) for i in range(4)]) for _ in range(2))
    potluck.Federation(ours, InclusiveFL(own_layers=0), seed=1).run(1)
    potluck.Federation(theirs, FedAvg(aggregation="layerwise"), seed=1).run(1)
    weights_agree(ours, theirs, 1e-12)
