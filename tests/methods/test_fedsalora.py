"""FedSA-LoRA by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import copy

import torch

import potluck
from potluck.core.payload import Payload
from potluck.methods import METHODS, FedSALoRA
from tests.low_rank import ADAPTER_PLAN, A, B, adapter_step, head_mean, low_rank_people, state_of


def test_a_is_averaged_and_b_stays():
    """n = 1, 3: A = [1, 3] and [5, −1] → [4, 0], and ΔW = [[4, 0], [0, 0]] and [[0, 0], [8, 0]]."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    still = ADAPTER_PLAN.replace(epochs=0)
    people = [
        potluck.Participant(
            f"p{i}",
            copy.deepcopy(net),
            (torch.randn(n, 2), [0, 1, 0][:n]),
            plan=still,
            labels=[0, 1],
        )
        for i, n in enumerate((1, 3))
    ]
    federation = potluck.Federation(people, FedSALoRA(rank=1, alpha=1), seed=1)
    federation.run(0)
    own = [([[1.0, 3.0]], [[1.0], [0.0]]), ([[5.0, -1.0]], [[0.0], [2.0]])]
    for person, (a, b) in zip(people, own, strict=True):
        person.network.load({A: torch.tensor(a), B: torch.tensor(b)})
    federation.run(1)
    assert [person.weights()[A].tolist() for person in people] == [[[4, 0]]] * 2
    found = [(person.weights()[B] @ person.weights()[A]).tolist() for person in people]
    assert found == [[[4, 0], [0, 0]], [[0, 0], [8, 0]]]


def test_two_rounds_are_what_the_paper_says():
    people = low_rank_people(3)
    federation = potluck.Federation(people, FedSALoRA(rank=2, alpha=4, head="average"), seed=1)
    federation.run(0)
    models, sizes = [state_of(person) for person in people], [len(person.data) for person in people]
    assert all(torch.equal(w[A], models[0][A]) and not w[B].any() for w in models)
    federation.run(2)
    for _ in range(2):
        models = [adapter_step(w, person, 2.0) for w, person in zip(models, people, strict=True)]
        mean_a = sum(n * w[A] for n, w in zip(sizes, models, strict=True)) / sum(sizes)
        models = [{**w, **head_mean(models, sizes), A: mean_a} for w in models]
    for person, expected in zip(people, models, strict=True):
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)
    assert not torch.equal(people[0].weights()[B], people[1].weights()[B])


def test_a_alone_travels():
    people = low_rank_people(2)
    rows = potluck.Federation(people, FedSALoRA(rank=2), seed=1).run(2).rows()
    size = Payload({A: people[0].weights()[A]}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(size, size)}


def test_it_is_found_by_its_published_name():
    assert METHODS["FedSA-LoRA"] is FedSALoRA
