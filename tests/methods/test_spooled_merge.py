"""Merges of what waits on disk: by position, or of all that the same participants hold; blocks make no difference."""

from __future__ import annotations

import pytest
import torch

from potluck.methods import spooled_merge
from potluck.methods.robust import GeometricMedian, Krum, Median, Trimmed
from potluck.methods.windows import Part

OLD = {"w": torch.full((3, 2), 9.0), "n": torch.tensor(5)}


def merged(rule, *told, old=OLD):
    merge = rule.merge(old)
    for sender, *parts in told:
        for part in parts:
            merge.take(sender, part)
    return merge.results()


def whole(value):
    return Part("w", torch.full((3, 2), float(value)))


def test_the_median_of_whole_tensors():
    found = merged(Median(), ("a", whole(1)), ("c", whole(100)), ("b", whole(3)))
    assert found.keys() == {"w"}
    assert found["w"].tolist() == [[3.0, 3.0]] * 3
    assert found["w"].dtype == torch.float32


def test_integers_are_rounded():
    told = [(name, Part("n", torch.tensor(value))) for name, value in (("a", 1), ("b", 2))]
    assert merged(Median(), *told)["n"].item() == 2
    assert merged(Median(), *told)["n"].dtype == torch.int64


def test_windows_are_merged_over_those_who_hold_a_position():
    """a holds all; b the first column; c rows 2 and 0, in that order, of the first column."""
    a = Part("w", torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    b = Part("w", torch.tensor([[11.0], [13.0], [15.0]]), at=[0, 0])
    c = Part("w", torch.tensor([[105.0], [101.0]]), at=[torch.tensor([2, 0]), 0])
    assert merged(Median(), ("a", a), ("b", b), ("c", c))["w"].tolist() == [[11, 2], [8, 4], [15, 6]]


def test_what_nobody_holds_stays():
    first = Part("w", torch.ones(1, 2))
    masked = Part("w", torch.tensor([[7.0, 8.0]] * 3), mask=torch.tensor([False, False, True]).view(-1, 1))
    assert merged(Median(), ("a", first), ("b", masked))["w"].tolist() == [[1, 1], [9, 9], [7, 8]]


def test_whole_models_are_merged_as_one_where_all_hold_the_same():
    """Entry by entry Krum would mix a's first with b's second: as one model it takes all of one."""
    old = {"w": torch.zeros(1), "v": torch.zeros(1)}
    told = {"a": (0, 9.0), "b": (1, 1.0), "c": (2, 1.5), "d": (3, 1.0), "e": (99, 50.0)}
    found = merged(
        Krum(),
        *((name, Part("w", torch.tensor([float(w)])), Part("v", torch.tensor([v]))) for name, (w, v) in told.items()),
        old=old,
    )
    assert (found["w"].item(), found["v"].item()) == (2, 1.5)


def test_windows_are_merged_by_those_who_hold_the_same():
    """The first column, which all five hold, by Krum over five; the second, which three hold, over these."""
    columns = {"a": 0.0, "b": 1.0, "c": 2.0, "d": 3.0, "e": 100.0}
    parts = [(name, Part("w", torch.full((3, 1), value), at=[0, 0])) for name, value in columns.items() if name > "b"]
    parts += [(name, Part("w", torch.tensor([[columns[name], 50.0 + columns[name]]] * 3))) for name in "ab"]
    found = merged(Krum(), *parts)["w"]
    assert found[:, 0].tolist() == [1.0] * 3
    assert found[:, 1].tolist() == [50.5] * 3  # of two nobody can be told apart: their mean


def test_counters_do_not_outweigh_what_is_trained():
    old = {"w": torch.zeros(1), "n": torch.tensor(0)}
    rows = {"a": (0.0, 0), "b": (1.0, 10**6), "c": (2.0, 0), "d": (3.0, 0), "e": (100.0, 0)}
    told = [(name, Part("w", torch.tensor([w])), Part("n", torch.tensor(n))) for name, (w, n) in rows.items()]
    found = merged(Krum(), *told, old=old)
    assert (found["w"].item(), found["n"].item()) == (1.0, 10**6)


@pytest.mark.parametrize("rule", [Median(), Trimmed(), Krum(), GeometricMedian()])
@pytest.mark.parametrize("windows", [False, True])
def test_neither_blocks_nor_the_order_make_a_difference(rule, windows, monkeypatch):
    draw = torch.Generator().manual_seed(1)
    told = []
    for number in range(40):
        rows, columns = (3 + number % 5, 2 + number % 3) if windows else (7, 4)
        part = Part("w", torch.randn(rows, columns, generator=draw), at=[number % 3, 0] if windows else None)
        told.append((f"p{number:02}", part))
    old = {"w": torch.zeros(9 if windows else 7, 4)}
    expected = merged(rule, *told, old=old)["w"]
    assert bool(expected.any())
    monkeypatch.setattr(spooled_merge, "BLOCK_VALUES", 50)
    torch.testing.assert_close(merged(rule, *reversed(told), old=old)["w"], expected, rtol=0, atol=1e-6)
