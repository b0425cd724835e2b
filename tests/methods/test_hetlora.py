"""HetLoRA by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.payload import Payload
from potluck.methods import HetLoRA
from potluck.methods.hetlora import fewer, tails
from tests.low_rank import A, B, adapter_step, head_mean, low_rank_people, low_rank_server, state_of

PAIRS = {"p": ([[2.0, 0.0]], [[3.0], [0.0]]), "q": ([[0.0, 1.0], [2.0, 0.0]], [[0.0, 0.0], [2.0, 0.0]])}
SAMPLES, SCALES = {"p": 1, "q": 3}, {"p": 1.0, "q": 1.0}


def test_adapters_count_by_what_they_say():
    """‖B A‖ is 6 and 2: p = ¾ and ¼."""
    _, found = low_rank_server(HetLoRA(), PAIRS, SAMPLES, SCALES)
    assert [part.tolist() for part in found["q"]] == [[[1.5, 0.25], [0.5, 0]], [[2.25, 0], [0.5, 0]]]
    assert [part.tolist() for part in found["p"]] == [[[1.5, 0.25]], [[2.25], [0.5]]]


def test_or_by_samples():
    _, found = low_rank_server(HetLoRA(importance="samples"), PAIRS, {"p": 2, "q": 2}, SCALES)
    assert [part.tolist() for part in found["q"]] == [[[1, 0.5], [1, 0]], [[1.5, 0], [1, 0]]]


def test_each_factor_may_count_with_the_root_of_its_scale():
    """α/r is 4 for p, whose factors double before the mean."""
    method = HetLoRA(importance="samples", scaled=True)
    _, found = low_rank_server(method, PAIRS, {"p": 2, "q": 2}, {"p": 4.0, "q": 1.0})
    assert [part.tolist() for part in found["q"]] == [[[2, 0.5], [1, 0]], [[3, 0], [1, 0]]]


def test_where_all_say_nothing_all_count_the_same():
    silent = {name: (a, [[0.0 * v for v in row] for row in b]) for name, (a, b) in PAIRS.items()}
    _, found = low_rank_server(HetLoRA(), silent, SAMPLES, SCALES)
    assert found["q"][0].tolist() == [[1, 0.5], [1, 0]]
    assert not found["q"][1].any()


@pytest.mark.parametrize(("rank", "left"), [(50, 49), (5, 4), (1, 1), (100, 99)])
def test_how_much_of_a_rank_is_left(rank, left):
    assert fewer(rank, 0.99) == left


def test_what_the_last_rows_weigh():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[9.0, 6.0], [9.0, 8.0]])
    assert tails({A: a, B: b}, {"1": 1}).item() == pytest.approx(50)
    flat = {A: a.requires_grad_(), B: torch.zeros(2, 2, requires_grad=True)}
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(tails(flat, {"1": 1}), list(flat.values())))


def test_two_rounds_are_what_the_paper_says():
    """Ranks 1 and 3; in the second round the larger one's last row has a weight that decays."""
    people = low_rank_people(2)
    federation = potluck.Federation(people, HetLoRA(rank=1, ranks={"p1": 3}, share=0.7, decay=0.3), seed=1)
    federation.run(0)
    models, sizes = [state_of(person) for person in people], [len(person.data) for person in people]
    rows = federation.run(2).rows()

    ranks, kept = [1, 3], {1: 1, 2: 1, 3: 2}
    for _ in range(2):
        for i, person in enumerate(people):
            k = kept[ranks[i]]

            def tail(w, k=k):
                return w[B][:, k:].norm() * w[A][k:].norm()

            before = tail(models[i])
            models[i] = adapter_step(models[i], person, 1.0, lambda w, tail=tail: 0.3 * tail(w))
            if tail(models[i]) < before:
                ranks[i] = k
                models[i][A][k:], models[i][B][:, k:] = 0, 0
        norms = [float((w[B] @ w[A]).norm()) for w in models]
        padded_a = [torch.cat([w[A], w[A].new_zeros(3 - len(w[A]), 36)]) for w in models]
        padded_b = [torch.cat([w[B], w[B].new_zeros(5, 3 - w[B].shape[1])], 1) for w in models]
        whole_a = sum(p * part for p, part in zip(norms, padded_a, strict=True)) / sum(norms)
        whole_b = sum(p * part for p, part in zip(norms, padded_b, strict=True)) / sum(norms)
        mean = head_mean(models, sizes)
        for i, w in enumerate(models):
            own_a, own_b = torch.zeros_like(w[A]), torch.zeros_like(w[B])
            own_a[: ranks[i]], own_b[:, : ranks[i]] = whole_a[: ranks[i]], whole_b[:, : ranks[i]]
            models[i] = {**w, **mean, A: own_a, B: own_b}
    assert ranks == [1, 2]
    assert [row["rank"] for row in rows if row["round"] == 2] == [1, 2]
    for person, expected in zip(people, models, strict=True):
        torch.testing.assert_close(person.weights(), expected, rtol=0, atol=1e-12)


def test_no_adapter_is_larger_than_was_told():
    method = HetLoRA()
    server, _ = low_rank_server(method, PAIRS, SAMPLES, SCALES)
    schema = method.adapter_schema(server, "q")
    schema.check(Payload({A: torch.zeros(1, 2), B: torch.zeros(2, 1)}))
    for a, b in ((3, 3), (2, 1), (0, 0)):
        with pytest.raises(potluck.PayloadError, match="rows of A in 1"):
            schema.check(Payload({A: torch.zeros(a, 2), B: torch.zeros(2, b)}))
