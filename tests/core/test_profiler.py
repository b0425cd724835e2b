"""The profiler: every second of a phase is counted once, and where it is off nothing is."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import potluck
from potluck.core.profiler import PHASES, PhaseTiming, Profiler
from potluck.methods import CoFED, DraftFed, FedAvg
from tests.tables import cnn, made_data, mlp, participants


def test_an_inner_phase_pauses_the_outer_one():
    profiler = Profiler()
    with profiler("merge"):
        time.sleep(0.02)
        with profiler("train"):
            time.sleep(0.05)
        with profiler("train"):
            time.sleep(0.05)
        time.sleep(0.02)
    assert profiler.seconds["train"] == pytest.approx(0.1, abs=0.03)
    assert profiler.seconds["merge"] == pytest.approx(0.04, abs=0.02)


def test_a_phase_ends_where_something_goes_wrong():
    profiler = Profiler()
    with pytest.raises(ValueError, match="wrong"), profiler("merge"), profiler("train"):
        raise ValueError("wrong")
    before = dict(profiler.seconds)
    time.sleep(0.01)
    with profiler("evaluate"):
        pass
    assert {name: profiler.seconds[name] for name in before} == before


def test_nobody_profiles_unless_asked():
    federation = potluck.Federation(participants([mlp(0)]), FedAvg())
    assert federation.engine.profiler is None
    federation.run(1)
    assert federation.engine.profiler is None


def test_the_table_adds_up():
    profiler = Profiler()
    profiler.seconds = {"train": 3.0, "merge": 1.0}
    lines = profiler.table().splitlines()
    train, merge, everything = (
        next(line for line in lines if f"│ {name} " in line) for name in ("train", "merge", "all")
    )
    headings = next(line for line in lines if "phase" in line)
    assert headings.replace("┃", " ").split() == ["phase", "seconds", "share", "what", "it", "is"]
    assert "3.00" in train
    assert "75.0%" in train
    assert "25.0%" in merge
    assert "4.00" in everything
    assert lines.index(train) < lines.index(merge)


def profiled(method, models, storage="memory", **settings):
    federation = potluck.Federation(
        participants(models), method, public=made_data(30, 5), test=made_data(20, 6), storage=storage, **settings
    )
    federation.profile()
    began = time.perf_counter()
    federation.run(2)
    return federation, time.perf_counter() - began


def test_a_federation_is_timed_by_phases():
    federation, took = profiled(CoFED(update_batch_size=8), [mlp(i) for i in range(3)])
    seconds = federation.profile().seconds
    assert {"train", "predict", "method", "merge", "evaluate", "other"} <= set(seconds) <= set(PHASES)
    assert "tap" not in seconds
    assert sum(seconds.values()) == pytest.approx(took, rel=0.1)
    assert seconds["train"] > seconds["merge"]


def test_taps_rest_and_checkpoints_are_phases_of_their_own(tmp_path):
    federation, _ = profiled(DraftFed(samples=10), [cnn(i) for i in range(3)], storage="disk")
    assert federation.profile().seconds["tap"] > 0
    assert federation.profile().seconds["storage"] > 0
    federation.run(1, run_dir=tmp_path)
    assert federation.profile().seconds["checkpoint"] > 0


def test_timing_changes_no_result():
    plain = potluck.Federation(participants([cnn(i) for i in range(3)]), FedAvg(), test=made_data(20, 6)).run(2)
    timed = potluck.Federation(participants([cnn(i) for i in range(3)]), FedAvg(), test=made_data(20, 6))
    timed.profile()
    assert [row["loss"] for row in timed.run(2).rows()] == [row["loss"] for row in plain.rows()]


def test_whoever_holds_a_timing_counts_from_the_profiler_on():
    timing, profiler = PhaseTiming(), Profiler()
    with timing["merge"]:
        pass
    assert profiler.seconds == {}
    timing.begin(profiler)
    with timing["merge"], timing["train"]:
        time.sleep(0.01)
    assert profiler.seconds["train"] >= 0.01
    assert set(profiler.seconds) == {"merge", "train"}


def test_where_nobody_profiles_a_phase_costs_no_call_of_ours():
    timing, called = PhaseTiming(), []
    timing["merge"]
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        with timing["merge"]:
            pass
    finally:
        sys.setprofile(None)
    assert [path for path in called if "potluck" in Path(path).parts] == []
