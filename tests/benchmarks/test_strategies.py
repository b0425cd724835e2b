"""The automatic engine's rule beside the clock: measured after the trials, one figure for each engine and the ratio."""

from __future__ import annotations

import pytest

from benchmarks import strategies
from potluck.bench.scenarios import MLP, federation
from potluck.engines.auto import autotune
from potluck.methods import Local

SMALL = MLP.replace(count=6, samples=8, shape=(12,))


@pytest.fixture
def always_trying(monkeypatch):
    monkeypatch.setattr(autotune, "WORTH_TRYING", 0.0)


def test_rounds_of_both_engines_are_measured(always_trying):
    figures, taken = strategies.measure(SMALL, repeats=3)
    assert [figure.name for figure in figures] == ["MLP, autotune", "MLP, auto", "MLP, auto over autotune"]
    assert [figure.repeats for figure in figures] == [3, 3, 3]
    assert figures[-1].goal == 0.9
    assert taken["auto"] == ["stacked"]
    assert taken["autotune"] in (["alone"], ["stacked"])


def test_trials_are_over_before_anything_is_measured(always_trying):
    tuned = federation(SMALL, "autotune", method=Local())
    strategies.finish_trials(tuned)
    [tried] = tuned.engine.trials.timings.values()
    assert {name: len(seconds) for name, seconds in tried.items()} == {"stacked": 2, "alone": 2}
    assert 3 < tuned.history.rounds <= strategies.MOST_ROUNDS
