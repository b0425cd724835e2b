"""Matrices as factors: ranks worked out by hand, and what must come back."""

from __future__ import annotations

import pytest
import torch

from potluck import Payload, PayloadError, Schema
from potluck.core.architecture import layout_of
from potluck.methods.low_rank import as_matrix, compressed, compressed_specs, factors, rank_for, restored


@pytest.mark.parametrize(
    ("values", "energy", "rank"),
    [
        ((10, 2, 1), 0.95, 1),  # 100 of 105 is .9524
        ((10, 2, 1), 0.965, 2),
        ((10, 2, 1), 0.98, 2),  # 104 of 105 is .9905
        ((1, 1), 0.98, 2),  # the full rank, where the authors' loop finds none
        ((1, 1), 1.0, 2),
        ((0, 0), 0.95, 1),
    ],
)
def test_the_rank_worked_by_hand(values, energy, rank):
    assert rank_for(torch.tensor(values, dtype=torch.float32), energy) == rank
    left, kept, right = factors(torch.diag(torch.tensor(values, dtype=torch.float32)), energy)
    assert left.shape == (len(values), rank)
    assert kept.tolist() == pytest.approx(list(values)[:rank])
    assert right.shape == (rank, len(values))


def test_what_is_not_finite_has_factors_of_one_rank_which_say_so():
    found = factors(torch.full((3, 5), torch.nan), 0.9)
    assert [tuple(part.shape) for part in found] == [(3, 1), (1,), (1, 5)]
    assert all(part.isnan().all() for part in found)


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [
        ((4, 3), (4, 3)),
        ((4, 2, 3, 3), (4, 18)),
        ((4,), None),
        ((1, 3), None),
        ((4, 1, 1, 1), None),
        ((4, 2, 1, 1), (4, 2)),
    ],
)
def test_what_is_a_matrix(shape, matrix):
    assert as_matrix(shape) == matrix


def entries():
    torch.manual_seed(0)
    return {"conv": torch.randn(4, 2, 3, 3), "bias": torch.randn(4), "count": torch.tensor(3), "fc": torch.randn(3, 5)}


def test_with_all_energy_everything_comes_back():
    torch.testing.assert_close(restored(compressed(entries(), 1.0), entries()), entries())


def test_a_share_of_the_energy_comes_back():
    found = restored(compressed(entries(), 0.8), entries())
    for name in ("conv", "fc"):
        held = (found[name].square().sum() / entries()[name].square().sum()).item()
        assert 0.8 <= held < 1
    assert torch.equal(found["bias"], entries()["bias"])


def test_what_is_sent_fits_its_schema_whatever_its_rank():
    schema = Schema(compressed_specs(layout_of(entries())))
    for energy in (0.1, 1.0):
        schema.check(Payload(compressed(entries(), energy)))
    with pytest.raises(PayloadError):
        schema.check(Payload(entries()))


def test_ranks_that_contradict_each_other_harm_nobody():
    sent = compressed(entries(), 1.0)
    sent["fc left"] = sent["fc left"][:, :1]
    assert restored(sent, entries())["fc"].shape == (3, 5)


def test_what_is_not_finite_is_refused_by_its_schema_and_breaks_nothing():
    broken = {**entries(), "fc": torch.full((3, 5), torch.nan)}
    with pytest.raises(PayloadError):
        Schema(compressed_specs(layout_of(broken))).check(Payload(compressed(broken, 0.9)))
