"""Robust rules against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from potluck.core.errors import SettingsError
from potluck.methods import FedAvg
from potluck.methods.robust import (
    RULES,
    GeometricMedian,
    Krum,
    MultiKrum,
    Trimmed,
    geometric_median,
    krum_scores,
    median,
    trimmed_mean,
)

NAN = math.nan


def points(*rows):
    return torch.tensor(rows, dtype=torch.float64).view(len(rows), -1)


def squared(values):
    return torch.cdist(values, values).square()


def merged(rule, values, weights=None):
    weights = torch.ones(len(values)) if weights is None else torch.tensor(weights)
    return (rule.shares(squared(values), weights.double()) @ values).tolist()


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two():
    assert median(points(1, 2, 10, 100)).item() == 6
    assert median(points(1, 5, 100)).item() == 5


def test_the_median_is_over_those_who_hold_a_position():
    assert median(points((1, NAN), (5, NAN), (NAN, NAN), (100, 7))).tolist() == [5, 7]
    assert median(points(NAN, NAN)).isnan().all()


def test_the_trimmed_mean():
    assert trimmed_mean(points((1, 50), (2, 4), (3, 5), (4, 6), (100, -90)), 0.2).tolist() == [3, 5]
    assert trimmed_mean(points(1, NAN, 3), 0.2).tolist() == [2]  # of two nothing is dropped


def test_a_share_of_29_percent_of_100_is_29():
    values = torch.cat([torch.zeros(29), torch.ones(42), torch.full((29,), 1e9)]).double().view(-1, 1)
    assert trimmed_mean(values, 0.29).tolist() == [1]


def test_krum():
    values = points(0, 1, 2, 3, 100)
    assert krum_scores(squared(values), 1).tolist() == [5, 2, 2, 5, 19013]
    assert merged(Krum(), values) == [1]
    assert merged(MultiKrum(keep=3), values) == [1]


def test_krum_by_distances_that_are_not_squared_chooses_another():
    values = points(0, 1, 6, 9, 13)
    assert krum_scores(squared(values), 1).tolist()[:4:3] == pytest.approx([37, 25])
    assert merged(Krum(), values) == [9]
    assert merged(Krum(unsquared=True), values) == [1]


def test_multi_krum_can_weigh_by_samples():
    values = points(0, 1, 2, 3, 100)
    assert merged(MultiKrum(keep=3, weighted=True), values, [1.0, 3, 0, 9, 9]) == [0.75]


def test_of_two_krum_takes_the_mean():
    assert merged(Krum(), points(0, 10), [1.0, 9.0]) == [5]
    assert merged(MultiKrum(liars=3), points(0, 10, 11, 12)) == [11]


def test_the_geometric_median_lies_where_the_diagonals_cross():
    values = points((0, 0), (9, 9), (1, 4), (7, 1))
    assert merged(GeometricMedian(), values) == pytest.approx([3, 3], abs=1e-6)
    assert merged(GeometricMedian(steps=1), values) == pytest.approx([3.839047, 3.052340], abs=1e-6)
    assert median(values).tolist() == [4, 2.5]


def test_the_geometric_median_counts_by_weights():
    shares = geometric_median(squared(points(0, 1, 10)), torch.tensor([1.0, 1, 9]).double(), 1e-6, None)
    assert shares.tolist() == pytest.approx([0, 0, 1], abs=1e-5)


def test_one_who_is_far_away_moves_none_of_them():
    honest = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = torch.cat([honest, torch.full((1, 4), 1e15).double()])
    for rule in (Krum(), MultiKrum(), GeometricMedian()):
        assert (torch.tensor(merged(rule, values)).abs() < 3).all()


def test_how_many_must_hold_the_same():
    fewest = {name: kind().fewest for name, kind in RULES.items()}
    assert fewest == {
        "median": 3,
        "trimmed": 5,
        "krum": 5,
        "multikrum": 5,
        "geometric-median": 3,
        "norm-bound": 2,
    }
    assert Trimmed(share=0.3).fewest == 4
    assert Krum(liars=2).fewest == 7


def test_a_table_names_a_rule_and_its_settings():
    rule = FedAvg(robust={"name": "multikrum", "liars": 2}).robust
    assert rule == MultiKrum(liars=2)
    assert FedAvg(**FedAvg(robust=rule).model_dump(mode="json")).robust == rule


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("meadian", "Did you mean 'median'"),
        ({"liars": 1}, "expected a name"),
        (3, "expected a name"),
        ({"name": "krum", "lairs": 1}, "Krum has no setting 'lairs'. Did you mean 'liars'"),
        ({"name": "trimmed", "share": 0.5}, "share = 0.5"),
    ],
)
def test_what_is_no_rule_is_told(given, told):
    with pytest.raises(SettingsError, match=told.replace("(", r"\(")):
        FedAvg(robust=given)
