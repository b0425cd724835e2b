"""LotteryFL by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, LotteryFL
from potluck.methods.pruning import sparse
from tests.tables import cnn, mlp, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)


def test_the_global_model_is_the_mean_over_those_who_kept_a_weight():
    sent = {"A": ([1.0, 2.0, 0.0], [1, 1, 0]), "B": ([3.0, 0.0, 5.0], [1, 0, 1]), "C": ([5.0, 6.0, 0.0], [1, 1, 0])}
    method, server = LotteryFL(), Server(0, dict.fromkeys(sent, 1.0))
    told = {"samples": 7, "layout": {"w": ["float32", 1, 3]}, "prunable": ["w"]}
    method.greet(server, iter((name, Payload(facts=told)) for name in sent))
    method.start(server, iter([("A", Payload({"w": torch.full((1, 3), 9.0)}))] + [(n, Payload()) for n in "BC"]))
    answers = {n: sparse({"w": tensor([own])}, {"w": tensor([kept]).bool()}) for n, (own, kept) in sent.items()}
    replies = method.weights(server, iter(answers.items()))
    assert method.entries(server, "A")["w"].tolist() == [[3, 4, 5]]
    assert {name: reply["w"].tolist() for name, reply in replies.items()} == {"A": [3, 4], "B": [3, 5], "C": [3, 4]}
    method.weights(server, iter([("A", answers["A"])]))
    assert method.entries(server, "A")["w"].tolist() == [[1, 2, 5]]  # what nobody keeps stays


@pytest.mark.parametrize("rewind", [True, False])
def test_two_rounds_are_what_the_paper_says(rewind):
    people = participants([mlp(0, 4), mlp(1, 4)], plan=PLAIN, validation=0.25)
    federation = potluck.Federation(people, LotteryFL(threshold=0.0, step_size=0.25, rewind=rewind), seed=1)
    federation.run(0)
    first = {name: entry.clone() for name, entry in people[0].weights().items()}
    federation.run(2)

    matrices = ("1.weight", "3.weight")
    whole = {name: entry.clone() for name, entry in first.items()}
    kept = [{name: torch.ones_like(first[name]).bool() for name in matrices} for _ in people]
    for _ in range(2):
        sums = {name: torch.zeros_like(entry) for name, entry in first.items()}
        counts = {name: torch.zeros_like(entry) for name, entry in first.items()}
        for person, masks in zip(people, kept, strict=True):
            for name in matrices:
                own = torch.where(masks[name], whole[name].abs(), -1.0)
                left = max(own.numel() // 2, int(masks[name].sum()) * 3 // 4)
                masks[name] &= own >= own.flatten().sort(descending=True).values[left - 1]
            begin = first if rewind else whole
            w = {n: (e * masks[n] if n in matrices else e).clone().requires_grad_() for n, e in begin.items()}
            z = torch.tanh(person.data.x.flatten(1) @ w["1.weight"].T + w["1.bias"])
            F.cross_entropy(z @ w["3.weight"].T + w["3.bias"], person.data.y).backward()
            for name, leaf in w.items():
                counted = masks[name].double() if name in matrices else torch.ones_like(leaf)
                sums[name] += (leaf - 0.1 * leaf.grad).detach() * counted
                counts[name] += counted
        whole = {n: torch.where(counts[n] > 0, sums[n] / counts[n].clamp(min=1), whole[n]) for n in whole}
    for person, masks in zip(people, kept, strict=True):
        expected = {name: entry * masks[name] if name in matrices else entry for name, entry in whole.items()}
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)


def test_without_pruning_it_is_fedavg():
    ours, theirs = (participants([cnn(i) for i in range(3)], plan=PLAIN, validation=0.25) for _ in range(2))
    potluck.Federation(ours, LotteryFL(threshold=1.0, target=0.001), seed=1).run(2)
    potluck.Federation(theirs, FedAvg(weighting="uniform"), seed=1).run(2)
    weights_agree(ours, theirs, 1e-12)


def test_who_sat_out_fetches_its_own_part():
    people = participants([cnn(i) for i in range(3)], plan=PLAIN, validation=0.25)

    def mostly(round, names, _):
        return names if round != 2 else names[:2]

    federation = potluck.Federation(people, LotteryFL(threshold=0.0), seed=1, participation=mostly)
    federation.run(3)
    for person in people:
        for name, mask in person.state["kept"].items():
            whole = federation.server.state["global"]
            (key,) = [key for key in whole if key.startswith(f"{name} ")]
            torch.testing.assert_close(person.weights()[name], whole[key] * mask)
