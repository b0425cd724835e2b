"""FLoRA by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import torch

import potluck
from potluck.methods import FLoRA
from potluck.methods.adapter_pairs import product
from tests.low_rank import LAYER, A, B, adapter_step, head_mean, low_rank_people, low_rank_server, state_of
from tests.tables import cnn, participants

PAIRS = {"p": ([[2.0, 0.0]], [[1.0], [0.0]]), "q": ([[0.0, 1.0]], [[0.0], [4.0]])}


def test_the_stack_s_product_has_no_cross_terms():
    _, found = low_rank_server(FLoRA(), PAIRS, {"p": 1, "q": 3}, {"p": 1.0, "q": 1.0})
    a, b = found["p"]
    assert (b @ a).tolist() == [[0.5, 0], [0, 3]]
    assert a.tolist() == [[0.5, 0], [0, 0.75]]  # p is on one factor
    assert b.tolist() == [[1, 0], [0, 4]]


def test_scales_are_folded_in():
    _, found = low_rank_server(FLoRA(), PAIRS, {"p": 1, "q": 3}, {"p": 2.0, "q": 0.5})
    assert product(found["q"]).tolist() == [[1, 0], [0, 1.5]]


def test_two_rounds_are_what_the_paper_says():
    people = low_rank_people(2)
    method = FLoRA(rank=1, ranks={"p1": 2}, scale=2.0)
    federation = potluck.Federation(people, method, seed=1)
    federation.run(0)
    models, sizes = [state_of(person) for person in people], [len(person.data) for person in people]
    for _ in range(2):
        federation.run(1)
        for i, person in enumerate(people):
            # The same draw of A, which is random: uniform between ±1/√inputs.
            fresh = method.fresh(person)["1"][0]
            assert fresh.abs().max() <= 1 / 6
            models[i] = adapter_step({**models[i], A: fresh, B: torch.zeros_like(models[i][B])}, person, 2.0)
        n = sum(sizes)
        added = sum(k / n * 2.0 * w[B] @ w[A] for k, w in zip(sizes, models, strict=True))
        mean = head_mean(models, sizes)
        for i, w in enumerate(models):
            models[i] = {**w, **mean, f"{LAYER}.weight": w[f"{LAYER}.weight"] + added, B: torch.zeros_like(w[B])}
    for person, expected in zip(people, models, strict=True):
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)


def test_who_sat_out_adds_what_it_missed():
    people = low_rank_people(3)

    def mostly(round, names, _):
        return names[:2] if round in (2, 3) else names

    potluck.Federation(people, FLoRA(rank=2), seed=1, participation=mostly).run(4)
    for name in (f"{LAYER}.weight", "3.weight"):
        torch.testing.assert_close(people[0].weights()[name], people[2].weights()[name], rtol=0, atol=1e-12)


def test_convolutions_have_stacks_too():
    people = participants([cnn(0) for _ in range(2)])
    before = state_of(people[0])["0.weight"]
    potluck.Federation(people, FLoRA(rank=1), seed=1).run(1)
    one, other = (person.weights()["0.base_layer.weight"] for person in people)
    assert torch.equal(one, other)
    assert not torch.equal(one, before)
