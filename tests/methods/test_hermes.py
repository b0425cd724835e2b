"""Hermes by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, Hermes
from potluck.methods.pruning import sparse
from tests.tables import cnn, mlp, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
SENT = {"A": ([1.0, 2.0, 0.0], [1, 1, 0]), "B": ([3.0, 0.0, 5.0], [1, 0, 1]), "C": ([5.0, 6.0, 0.0], [1, 1, 0])}


def served(method, sent=SENT):
    """What each receives, put into what it had; filters of one value."""
    server = Server(0, dict.fromkeys(sent, 1.0))
    told = {"samples": 7, "layout": {"w": ["float32", 3, 1]}, "prunable": ["w"]}
    method.greet(server, iter((name, Payload(facts=told)) for name in sent))
    method.start(server, iter([("A", Payload({"w": torch.zeros(3, 1)}))] + [(n, Payload()) for n in "BC"]))
    answers = {n: sparse({"w": tensor(own)[:, None]}, {"w": tensor(kept).bool()}) for n, (own, kept) in sent.items()}
    replies, found = method.weights(server, iter(answers.items())), {}
    for name, (own, _) in sent.items():
        masks = method.returned(server, name)["w"]
        found[name] = tensor(own)
        found[name][masks] = replies[name]["w"].flatten()
        assert replies[name]["w"].shape == (int(masks.sum()), 1)
    return {name: entry.tolist() for name, entry in found.items()}


def test_the_numbers_worked_by_hand():
    assert served(Hermes()) == {"A": [3, 2, 0], "B": [3, 0, 5], "C": [3, 6, 0]}
    assert served(Hermes(overlap="holders")) == {"A": [3, 4, 0], "B": [3, 0, 5], "C": [3, 4, 0]}


def test_two_rounds_are_what_the_paper_says():
    """Everybody prunes at once: half of eight units go in two rounds, the weakest by ℓ1, different ones for each."""
    people = participants([mlp(0), mlp(0)], plan=PLAIN, validation=0.25)
    federation = potluck.Federation(people, Hermes(threshold=0.0, step_size=0.25), seed=1)
    federation.run(0)
    for i, person in enumerate(people):  # models of their own, so that they keep different units
        person.network.load(mlp(i).state_dict())
    models = [{name: entry.clone() for name, entry in person.weights().items()} for person in people]
    notes = federation.run(2).rows()

    kept = [torch.ones(8).bool(), torch.ones(8).bool()]
    for left in (6, 4):
        trained = []
        for i, (person, w) in enumerate(zip(people, models, strict=True)):
            strength = torch.where(kept[i], w["1.weight"].abs().sum(1), -1.0)
            kept[i] = strength >= strength.sort(descending=True).values[left - 1]
            w["1.weight"][~kept[i]] = 0
            leaves = {name: entry.clone().requires_grad_() for name, entry in w.items()}
            z = torch.tanh(person.data.x.flatten(1) @ leaves["1.weight"].T + leaves["1.bias"])
            F.cross_entropy(z @ leaves["3.weight"].T + leaves["3.bias"], person.data.y).backward()
            leaves["1.weight"].grad[~kept[i]] = 0
            trained.append({name: (leaf - 0.1 * leaf.grad).detach() for name, leaf in leaves.items()})
        sizes = [len(person.data) for person in people]
        both = kept[0] & kept[1]
        for i in range(2):
            for name in models[i]:
                mean = (sizes[0] * trained[0][name] + sizes[1] * trained[1][name]) / sum(sizes)
                where = both[:, None] if name == "1.weight" else torch.tensor(True)
                models[i][name] = torch.where(where, mean, trained[i][name])
    assert not torch.equal(*kept)
    for person, expected in zip(people, models, strict=True):
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)
    assert [row["kept"] for row in notes if row["round"] == 2] == [0.5, 0.5]


def test_without_pruning_it_is_fedavg():
    ours, theirs = (participants([cnn(i) for i in range(3)], plan=PLAIN, validation=0.25) for _ in range(2))
    potluck.Federation(ours, Hermes(threshold=1.0, target=0.01), seed=1).run(2)
    potluck.Federation(theirs, FedAvg(), seed=1).run(2)
    weights_agree(ours, theirs, 1e-12)


def test_who_is_not_good_enough_prunes_nothing():
    people = participants([cnn(0), cnn(1)], plan=PLAIN.replace(epochs=0), validation=0.25)
    rows = potluck.Federation(people, Hermes(threshold=1.0), seed=1).run(2).rows()
    assert {row["kept"] for row in rows} == {1.0}


def test_less_travels_once_something_is_gone():
    people = participants([cnn(0, 8), cnn(1, 8)], validation=0.25)
    rows = potluck.Federation(people, Hermes(threshold=0.0, overlap="holders"), seed=1).run(5).rows()
    filters, mask = 8 * 9 * 8, 1
    whole = Payload({**people[0].weights(), "kept/0.weight": torch.zeros(mask, dtype=torch.uint8)}).size
    for row in rows[-2:]:
        assert row["bytes_up"] == pytest.approx(whole - filters / 2, abs=16)
        assert row["bytes_down"] == row["bytes_up"]
    assert {row["kept"] for row in rows[-2:]} == {0.5}


def test_the_head_keeps_all_its_rows():
    person = participants([cnn(0)], validation=0.25)[0]
    assert Hermes().prunable(person) == ["0.weight"]


def test_who_sat_out_goes_on_from_its_own():
    people = participants([cnn(0), cnn(1), cnn(2)], validation=0.25)

    def but_the_last(round, names, _):
        return names[: 2 if round == 1 else 3]

    federation = potluck.Federation(people, Hermes(), seed=1, participation=but_the_last)
    federation.run(0)
    before = {name: entry.clone() for name, entry in people[2].weights().items()}
    federation.run(1)
    torch.testing.assert_close(people[2].weights(), before, rtol=0, atol=0)
    federation.run(1)
    assert not torch.equal(people[2].weights()["0.weight"], before["0.weight"])
