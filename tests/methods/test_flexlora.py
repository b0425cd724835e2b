"""FlexLoRA by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods import FlexLoRA
from potluck.methods.flexlora import best_of_rank
from tests.low_rank import A, B, adapter_step, head_mean, low_rank_people, low_rank_server, state_of

PAIRS = {"p": ([[1.0, 0.0]], [[3.0], [4.0]]), "q": ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 10.0]])}


def test_the_numbers_worked_by_hand():
    """α = 2 and equal samples: ΔW = [[3, 0], [4, 5]], with singular values √45 and √5."""
    _, found = low_rank_server(FlexLoRA(alpha=2), PAIRS, {"p": 1, "q": 1}, {"p": 2.0, "q": 1.0})
    whole = torch.tensor([[3.0, 0.0], [4.0, 5.0]])
    a, b = found["p"]
    torch.testing.assert_close(2.0 * b @ a, torch.tensor([[1.5, 1.5], [4.5, 4.5]]))
    assert (2.0 * b @ a - whole).norm().item() == pytest.approx(5**0.5, abs=1e-6)
    a, b = found["q"]
    torch.testing.assert_close(b @ a, whole)
    torch.testing.assert_close(b.norm(dim=0), torch.tensor([45.0, 5.0]).sqrt())


def test_the_paper_leaves_the_scale_out():
    _, found = low_rank_server(FlexLoRA(alpha=2, scaled=False), PAIRS, {"p": 1, "q": 1}, {"p": 2.0, "q": 1.0})
    a, b = found["q"]
    torch.testing.assert_close(b @ a, torch.tensor([[1.5, 0.0], [2.0, 5.0]]))


def test_signs_do_not_depend_on_chance():
    torch.manual_seed(0)
    whole = torch.randn(6, 4, dtype=torch.float64)
    a, b = best_of_rank(whole, 3)
    assert all(column[column.abs().argmax()] > 0 for column in b.T)
    u, s, v = torch.linalg.svd(whole, full_matrices=False)
    torch.testing.assert_close(b @ a, u[:, :3] * s[:3] @ v[:3])


def test_a_rank_above_the_layer_s_is_padded():
    a, b = best_of_rank(torch.eye(2), 3)
    assert (a.shape, b.shape) == ((3, 2), (2, 3))
    torch.testing.assert_close(b @ a, torch.eye(2))


def test_two_rounds_are_what_the_paper_says():
    """What matters of adapters is their product: both of a pair may change sign."""
    people, ranks = low_rank_people(2), (1, 2)
    federation = potluck.Federation(people, FlexLoRA(rank=1, ranks={"p1": 2}, alpha=4), seed=1)
    federation.run(0)
    models, sizes = [state_of(person) for person in people], [len(person.data) for person in people]
    federation.run(2)
    for _ in range(2):
        scales = [4 / rank for rank in ranks]
        models = [adapter_step(w, person, s) for w, person, s in zip(models, people, scales, strict=True)]
        n = sum(sizes)
        whole = sum(k / n * s * w[B] @ w[A] for k, s, w in zip(sizes, scales, models, strict=True))
        u, s, v = torch.linalg.svd(whole)
        mean = head_mean(models, sizes)
        models = [
            {**w, **mean, A: v[:rank], B: u[:, :rank] * s[:rank] / (4 / rank)}
            for w, rank in zip(models, ranks, strict=True)
        ]
    for person, expected in zip(people, models, strict=True):
        found = person.weights()
        torch.testing.assert_close(found[B] @ found[A], expected[B] @ expected[A], rtol=0, atol=1e-10)
        torch.testing.assert_close(found["3.weight"], expected["3.weight"], rtol=0, atol=1e-12)


def test_with_full_rank_nothing_is_lost():
    """What everybody's adapters add after a round is the mean of what they added, as if whole layers were averaged."""
    people = low_rank_people(3)
    federation = potluck.Federation(people, FlexLoRA(rank=5, alpha=5), seed=1)
    federation.run(0)
    before = [state_of(person) for person in people]
    federation.run(1)
    trained = [adapter_step(w, person, 1.0) for w, person in zip(before, people, strict=True)]
    sizes = [len(person.data) for person in people]
    mean = sum(n * w[B] @ w[A] for n, w in zip(sizes, trained, strict=True)) / sum(sizes)
    for person in people:
        torch.testing.assert_close(person.weights()[B] @ person.weights()[A], mean, rtol=0, atol=1e-12)
