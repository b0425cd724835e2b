"""What is going on stands in the run folder: who works, who waits, who dropped out, and how it ended."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest

import potluck
from potluck.core.processes import started_at
from potluck.methods import FedAvg, Local
from potluck.runs import live
from potluck.runs.live import LIVE, LiveFile
from tests.resumable import resumable


def told(folder):
    return json.loads((folder / LIVE).read_text())


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(live, "PAUSE", 0.0)


def test_a_run_tells_who_plays_it_and_how_far_it_is(tmp_path):
    seen = []
    resumable(Local()).run(2, run_dir=tmp_path, callbacks=[lambda federation, rows: seen.append(told(tmp_path))])
    assert [(each["state"], each["round"], each["rounds"], each["doing"]) for each in seen] == [
        ("playing", 1, 2, {"done": 3}),
        ("playing", 2, 2, {"done": 3}),
    ]
    assert seen[0]["pid"] == os.getpid()
    assert seen[0]["started"] == started_at(os.getpid())
    assert seen[0]["began"] <= seen[0]["since"] <= seen[0]["now"] <= time.time()
    assert (told(tmp_path)["state"], told(tmp_path)["why"]) == ("ended", "")
    resumable(Local()).run(3, run_dir=tmp_path, resume=True, callbacks=[lambda *_: seen.append(told(tmp_path))])
    assert (seen[-1]["played"], seen[-1]["round"], seen[-1]["rounds"]) == (2, 3, 3)


def test_within_a_round_it_tells_who_works_and_who_waits(tmp_path):
    seen = []

    class Method(potluck.Method):
        def round(self, me):
            yield potluck.Fit()
            yield potluck.Exchange("hello", potluck.Payload())
            seen.append((me.name, told(tmp_path)["doing"], told(tmp_path)["working"]))

        @potluck.exchange(lambda self, server, sender: potluck.Schema())
        def hello(self, server, answers):
            for _ in answers:
                seen.append(told(tmp_path)["doing"])
            return potluck.Payload()

    resumable(Method()).run(1, run_dir=tmp_path)
    assert seen[0] == {"waiting": 1, "working": 2}
    assert seen[2] == {"waiting": 3}
    assert seen[3] == ("p0", {"working": 1, "waiting": 2}, ["p0"])


def test_whoever_drops_out_is_named_with_the_reason(tmp_path):
    seen = []
    gone = potluck.Availability(trace={"p1": {1: "leaves"}})
    federation = resumable(FedAvg(), availability=gone)
    federation.run(1, run_dir=tmp_path, callbacks=[lambda *_: seen.append(told(tmp_path))])
    assert seen[0]["out"] == {"p1": "it left before its answer arrived"}
    assert seen[0]["doing"] == {"done": 2, "out": 1}


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [(KeyboardInterrupt(), "interrupted", ""), (OSError("disk full"), "failed", "OSError: disk full")],
)
def test_how_it_ended(tmp_path, error, state, why):
    def ends(federation, rows):
        raise error

    with pytest.raises(type(error)):
        resumable(Local()).run(2, run_dir=tmp_path, callbacks=[ends])
    assert (told(tmp_path)["state"], told(tmp_path)["why"]) == (state, why)


def test_why_it_ended_early(tmp_path):
    resumable(Local()).run(5, run_dir=tmp_path, callbacks=[lambda federation, rows: federation.stop("enough")])
    assert (told(tmp_path)["state"], told(tmp_path)["why"]) == ("ended", "enough")


def test_it_is_not_written_more_often_than_anybody_looks(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "PAUSE", 60.0)
    file = LiveFile(tmp_path / LIVE)
    file.begin(3, 0)
    file.phase("round", 1, ["a"])
    assert "phase" not in told(tmp_path)
    file.end(None)
    assert told(tmp_path)["round"] == 1


def test_of_many_some_are_named(tmp_path):
    file = LiveFile(tmp_path / LIVE)
    file.begin(1, 0)
    file.phase("round", 1, [f"p{number}" for number in range(live.SHOWN + 5)])
    assert (len(told(tmp_path)["working"]), told(tmp_path)["doing"]) == (live.SHOWN, {"working": live.SHOWN + 5})


def test_who_dropped_out_of_an_earlier_phase_is_not_named_again(tmp_path):
    file = LiveFile(tmp_path / LIVE)
    file.begin(2, 0)
    file.phase("round", 1, [f"p{number}" for number in range(live.SHOWN + 5)])
    for number in range(live.SHOWN + 5):
        file.now(f"p{number}", "out", f"reason {number}")
    assert len(told(tmp_path)["out"]) == live.SHOWN
    assert told(tmp_path)["out"]["p3"] == "reason 3"
    file.phase("round", 2, ["a", "b"])
    assert (told(tmp_path)["out"], told(tmp_path)["doing"]) == ({}, {"working": 2})
    assert (told(tmp_path)["format"], told(tmp_path)["host"]) == (1, socket.gethostname())


def test_whoever_ends_the_process_on_purpose_is_no_failure(tmp_path):
    file = LiveFile(tmp_path / LIVE)
    file.begin(2, 0)
    file.end(SystemExit(3), "a reason of before")
    assert (told(tmp_path)["state"], told(tmp_path)["why"]) == ("interrupted", "")


def test_a_disk_that_refuses_disturbs_nothing(tmp_path):
    file = LiveFile(tmp_path / "gone" / LIVE)
    file.begin(1, 0)
    file.end(None)
    unbegun = LiveFile(tmp_path / LIVE)
    unbegun.end(None)
    assert not (tmp_path / LIVE).exists()
