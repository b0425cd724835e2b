"""What is tried of a setting, as a user writes it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from potluck.comparison.sweeps import Span, Sweep, kind_of, parse_sweep, parse_sweeps
from potluck.core.errors import SettingsError
from potluck.methods import CoFED

METHODS = ["CoFED", "MHAT", "Local"]


def test_values_and_whose_they_are():
    assert parse_sweep("plan.lr=0.1, 0.2", METHODS) == Sweep("plan.lr", ("0.1", "0.2"))
    assert parse_sweep("cofed.alpha=0.1", METHODS) == Sweep("method.alpha", ("0.1",), "CoFED")
    own = parse_sweep("CoFED.alpha=0.1", METHODS)
    assert [own.applies(method) for method in METHODS] == [True, False, False]
    common = parse_sweep("method.alpha=0.1", METHODS)
    assert [common.applies(method) for method in METHODS] == [True, False, False]
    assert Sweep("plan.lr", ("1",)).applies("Pooled")


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("plan.lr=1e-4..0.1:log", Span(1e-4, 0.1, log=True, whole=False)),
        ("plan.lr= 0.1 .. 0.5", None),
        ("plan.epochs=1..20", Span(1, 20, log=False, whole=True)),
        ("plan.epochs=1..20.0", Span(1, 20, log=False, whole=False)),
        ("plan.optimizer=a..b", None),
    ],
)
def test_a_range_is_two_numbers(text, span):
    found = parse_sweep(text, METHODS)
    assert found.span == span
    assert bool(found.values) == (span is None)


@pytest.mark.parametrize(
    "text", ["plan.lr=2..1", "plan.lr=1..1", "plan.lr=0..1:log", "plan.lr=-1..1:log", "plan.lr=1..inf"]
)
def test_what_is_no_range(text):
    with pytest.raises(SettingsError, match="is no range"):
        parse_sweep(text, METHODS)


def test_one_sweep_for_each_setting():
    with pytest.raises(SettingsError, match=r"plan\.lr is swept twice"):
        parse_sweeps(["plan.lr=1", "plan.lr=2"], METHODS)


@pytest.mark.parametrize("text", ["plan.lr=1,2", "CoFED.alpha=0.1..0.5"])
def test_it_survives_json(text):
    sweep = parse_sweep(text, METHODS)
    assert Sweep.from_json(json.loads(json.dumps(dataclasses.asdict(sweep)))) == sweep


def test_the_class_of_a_method():
    assert kind_of("cofed") is CoFED
    with pytest.raises(SettingsError, match="is no method"):
        kind_of("potluck.core.plan:Plan")
