"""What merges answers by a method's rule: who is in it, who is refused for the size of an update, who is shortened."""

from __future__ import annotations

import logging

import pytest
import torch

from potluck.federation.server import Server
from potluck.methods import FedAvg, averaging
from potluck.methods.averaging import Merger, UpdateSizes
from potluck.methods.robust import NormBound
from potluck.methods.windows import Part

OLD = {"w": torch.zeros(2)}


def part(*values, **more):
    return Part("w", torch.tensor(values, dtype=torch.float32), **more)


def merged(method, server, told, old=OLD):
    merger = Merger(method, server, old)
    for sender, parts in told.items():
        merger.add(sender, parts)
    return merger


def test_the_mean_is_weighted():
    found = merged(FedAvg(), Server(0, {}), {"a": [part(1, 2)], "b": [part(5, 6, weight=3)]})
    assert found.results()["w"].tolist() == [4, 5]
    assert found.senders == ["a", "b"]


def test_a_norm_bound_shortens_what_is_longer():
    """Of (6, 8), which is 10 long, and (1, 0), with weights ¼ and ¾, at a bound of 5: (1.5, 1)."""
    rule = FedAvg(robust=NormBound(most=5))
    told = {"a": [part(6, 8, weight=1)], "b": [part(1, 0, weight=3)]}
    torch.testing.assert_close(merged(rule, Server(0, {}), told).results()["w"], torch.tensor([1.5, 1.0]))


def test_a_norm_bound_is_of_whole_models_and_of_what_changes():
    old = {"w": torch.tensor([1.0]), "v": torch.tensor([-1.0])}
    told = {"a": [Part("w", torch.tensor([7.0])), Part("v", torch.tensor([7.0]))]}
    found = merged(FedAvg(robust=NormBound(most=5)), Server(0, {}), told, old).results()
    assert (found["w"].item(), found["v"].item()) == pytest.approx((4, 3))


def test_without_a_bound_of_its_own_it_is_the_median_of_earlier_rounds():
    server, rule = Server(0, {}), FedAvg(robust="norm-bound")
    first = merged(rule, server, {"a": [part(1, 1)], "b": [part(2, 2)], "c": [part(50, 50)]})
    first.results()  # nothing is known yet: values start from 0, and 1 is taken for a usual change
    found = merged(rule, server, {"a": [part(2, 2)], "b": [part(20, 20)]}).results()["w"]
    assert found.tolist() == pytest.approx([2, 2])


def test_what_is_far_beyond_earlier_rounds_is_refused_by_name():
    server = Server(0, {})
    merged(FedAvg(), server, {"a": [part(1, 1)], "b": [part(1, 1)], "c": [part(9, 9)]}).results()
    found = merged(FedAvg(), server, {"a": [part(2, 2)], "b": [part(99, 99)], "c": [part(101, 101)]})
    assert found.senders == ["a", "b"]
    assert server.refused == {
        "c": "it changes trained values by 101 in the root mean square; expected at most 100 (norm_limit = 100)"
    }
    assert found.results()["w"].tolist() == [50.5, 50.5]


def test_in_the_first_round_it_is_held_against_the_weights():
    server, old = Server(0, {}), {"w": torch.full((2,), 3.0)}
    found = merged(FedAvg(), server, {"a": [part(302, 302)], "b": [part(304, 304)]}, old)
    assert found.senders == ["a"]
    assert "expected at most 300" in server.refused["b"]


def test_a_change_as_large_as_the_values_is_never_refused():
    server, old = Server(0, {}), {"w": torch.full((2,), 1000.0)}
    merged(FedAvg(), server, {"a": [part(1000.1, 1000.1)]}, old).results()
    assert merged(FedAvg(), server, {"a": [part(2000, 2000)]}, old).senders == ["a"]
    assert merged(FedAvg(), server, {"a": [part(2001, 2001)]}, old).senders == []


def test_what_layers_measure_is_of_any_size_at_first_and_then_held_against_itself():
    server = Server(0, {})
    found = merged(FedAvg(), server, {"a": [part(1e9, 1e9, measured=True)]})
    found.results()
    assert found.senders == ["a"]
    assert merged(FedAvg(), server, {"a": [part(2e9, 2e9, measured=True)]}).senders == ["a"]
    assert merged(FedAvg(), server, {"a": [part(2e11, 2e11, measured=True)]}).senders == []
    assert "measured values" in server.refused["a"]


def measured(**sizes):
    """What layers have measured, beside a weight."""
    old = {"w": torch.zeros(2), "mean": torch.zeros(2)}
    told = {
        name: [part(1, 1), Part("mean", torch.full((2,), float(size)), measured=True)] for name, size in sizes.items()
    }
    return old, told


@pytest.mark.parametrize("rule", [None, "norm-bound"])
def test_what_layers_measure_at_first_is_held_against_what_most_have_measured(rule):
    old, told = measured(a=40, liar=1e30, b=50, c=3000)
    server, method = Server(0, {}), FedAvg(robust=rule)
    found = merged(method, server, told, old)
    results = found.results()
    assert found.senders == ["a", "b", "c"]
    assert server.refused == {
        "liar": "it changes measured values by 1e+30 in the root mean square; expected at most 5000 (norm_limit = 100)"
    }
    torch.testing.assert_close(results["mean"], torch.full((2,), 3090 / 3))
    assert server.state["update sizes"]["measured"] == [pytest.approx(50)]
    assert merged(method, server, measured(a=6000)[1], old).senders == [], "and later against that"


def test_whoever_has_measured_next_to_nothing_makes_nobody_odd():
    old, told = measured(a=90, liar=0)
    found = merged(FedAvg(), Server(0, {}), told, old)
    found.results()
    assert found.senders == ["a", "liar"]


def test_a_round_in_which_nothing_changed_says_nothing():
    server = Server(0, {})
    merged(FedAvg(), server, {"a": [part(0, 0)]}).results()
    assert merged(FedAvg(), server, {"a": [part(50, 50)]}).senders == ["a"]


def test_what_starts_from_nothing_may_be_small_at_first():
    """As scores of networks that are hardly trained: those of a tree, hundreds of times as large, are in."""
    nothing, server = {"w": torch.zeros(2)}, Server(0, {})
    merged(FedAvg(), server, {name: [part(0.1, 0.1)] for name in "abc"}, nothing).results()
    assert merged(FedAvg(), server, {"tree": [part(99, 99)]}, nothing).senders == ["tree"]
    assert merged(FedAvg(), server, {"liar": [part(101, 101)]}, nothing).senders == []


def test_without_a_limit_nobody_is_refused():
    server = Server(0, {})
    assert merged(FedAvg(norm_limit=None), server, {"a": [part(1e17, 0)]}).senders == ["a"]


def test_counters_have_no_size():
    old = {"n": torch.tensor(0)}
    assert merged(FedAvg(), Server(0, {}), {"a": [Part("n", torch.tensor(10**9))]}, old).senders == ["a"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (torch.tensor([3, 4]), torch.tensor([3.5, 4.5])),  # moved by halves, as FedNova does with counters
        (torch.tensor(3.0), torch.tensor(3.5)),
        (torch.zeros(2), torch.tensor([1e30, 0.0])),
        (torch.zeros(0), torch.zeros(0)),
    ],
    ids=["integers", "a number", "overflow", "nothing"],
)
def test_sizes_of_all_kinds_of_values(old, new):
    sizes = UpdateSizes({}, {"w": old}, 100.0, 1.0)
    size = sizes.of([Part("w", new)]).get(False)
    assert size is not None
    expected = float((new.double() - old.double()).square().sum())
    assert size.squares == pytest.approx(expected, rel=1e-6)
    assert sizes.too_large({False: size}) is None or float(new.max()) == pytest.approx(1e30)


def test_a_long_update_has_the_size_of_its_blocks_together(monkeypatch):
    monkeypatch.setattr(averaging, "BLOCK_VALUES", 6)
    old, new = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
    size = UpdateSizes({}, {"w": old}, 100.0, 1.0).of([Part("w", new)])[False]
    assert size.change == pytest.approx(float((new - old).square().mean().sqrt()), rel=1e-12)


def test_what_is_known_of_sizes_is_in_the_checkpoint():
    server = Server(0, {})
    merged(FedAvg(), server, {"a": [part(3, 3)]}).results()
    assert server.snapshot()["state"]["update sizes"] == {"trained": [pytest.approx(3.0)]}


def test_too_few_holders_are_told(caplog):
    with caplog.at_level(logging.WARNING):
        FedAvg(robust="krum").tell_few({"w": 4, "v": 5})
        merged(FedAvg(robust="median"), Server(0, {}), {"a": [part(1, 1)], "b": [part(3, 3)]}).results()
    assert [record.message for record in caplog.records] == [
        "robust = 'krum' needs 5 who hold the same; it protects nobody of those who hold w (4)",
        "robust = 'median' needs 3 who hold the same; it protects nobody of those who hold w (2)",
    ]


def test_one_liar_does_not_move_a_robust_merge():
    honest = {name: [part(value, -value)] for name, value in zip("abcd", (1.0, 1.1, 0.9, 1.0), strict=True)}
    lie = {"liar": [part(50, 50)]}
    for rule in ("median", "trimmed", "krum", "multikrum", "geometric-median"):
        found = merged(FedAvg(robust=rule), Server(0, {}), {**honest, **lie}).results()["w"]
        torch.testing.assert_close(found, torch.tensor([1.0, -1.0]), rtol=0, atol=0.11)
