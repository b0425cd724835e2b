"""Class means and their mean over holders, worked out by hand: A has (1, 0), (3, 0) of class 0, (0, 4) of class 1."""

from __future__ import annotations

import pytest
import torch

from potluck import Payload, PayloadError
from potluck.methods.prototypes import class_means, class_means_payload, class_means_schema, mean_over_holders

A = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0, 1])
B = torch.tensor([[6.0, 0.0]]), torch.tensor([0])


def test_the_means_of_a_participant():
    means, counts = class_means(*A, 3)
    assert means.tolist() == [[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]
    assert counts.tolist() == [2, 1, 0]


def test_feature_maps_are_flattened():
    assert class_means(A[0].reshape(3, 1, 2), A[1], 2)[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize(("weighting", "expected", "counts"), [("uniform", 4, [2, 1]), ("samples", 10 / 3, [3, 1])])
def test_the_mean_over_those_who_have_a_class(weighting, expected, counts):
    means, told = mean_over_holders(class_means_payload(*one, 2, weighting) for one in (A, B))
    torch.testing.assert_close(means, torch.tensor([[expected, 0.0], [0.0, 4.0]], dtype=torch.float64))
    assert told.tolist() == counts


def test_a_class_that_nobody_has_is_zero_and_counts_nothing():
    means, counts = mean_over_holders([class_means_payload(*B, 2)])
    assert means.tolist() == [[6.0, 0.0], [0.0, 0.0]]
    assert counts.tolist() == [1, 0]


@pytest.mark.parametrize(("weighting", "counts", "told"), [("samples", 5, None), ("uniform", 5, "at most 1")])
def test_nobody_counts_more_than_is_told(weighting, counts, told):
    schema = class_means_schema(2, 2, weighting)
    schema.check(class_means_payload(*A, 2, weighting))
    payload = Payload({"means": torch.zeros(2, 2), "counts": torch.tensor([1, counts])})
    if told is None:
        schema.check(payload)
    else:
        with pytest.raises(PayloadError, match=told):
            schema.check(payload)


def test_negative_counts_are_refused():
    with pytest.raises(PayloadError, match="at least 0"):
        class_means_schema(2, 2).check(Payload({"means": torch.zeros(2, 2), "counts": torch.tensor([1, -1])}))
