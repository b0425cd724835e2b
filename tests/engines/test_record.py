"""What an engine says of itself to a checkpoint, to the run folder, and in a summary."""

from __future__ import annotations

import torch

from potluck.engines import Batched, Serial

CPU = torch.device("cpu")


def test_a_change_of_the_engine_is_said_once_and_its_own_return_is_not(caplog):
    kept = Batched(CPU).snapshot()
    Batched(CPU).restore(kept)
    assert not caplog.text
    other = Serial(CPU)
    for _ in range(2):
        other.restore(kept)
    [incident] = other.incidents
    assert "goes on with engine serial" in incident
    assert "up to here it was engine batched" in incident
    assert caplog.text.count("goes on with") == 1


def test_a_summary_has_decisions_incidents_and_a_profile_where_there_is_one():
    engine = Serial(CPU)
    assert engine.report() == {"decisions": {"cores": torch.get_num_threads()}, "incidents": []}
    engine.profile()
    engine.restore({"engine": {"name": "another"}, "memory": 5})
    report = engine.report()
    assert report["decisions"]["memory"] == 5
    assert len(report["incidents"]) == 1
    assert report["profile"] == {}
