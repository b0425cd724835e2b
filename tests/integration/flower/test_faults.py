"""What happens when something breaks, with real processes: nothing is lost, and it is said what happened."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.flower.programs import THINGS, Site
from tests.tables import agree

pytestmark = pytest.mark.slow

CNN = f'"{THINGS}:cnn"'


def marked(tmp_path, name="p1"):
    """A model that a test can hold up while it trains."""
    folder = tmp_path / f"marks-{name}"
    folder.mkdir()
    return folder, f'{{ name = "{THINGS}:marked", folder = "{folder}" }}'


def at_work(folder):
    return lambda: any(folder.glob("at-work-*"))


def layerwise(tmp_path, **settings):
    """Three participants, p1's model in our hands; FedAvg takes models of different kinds layer by layer."""
    marks, model = marked(tmp_path)
    models = {"p0": f'"{THINGS}:mlp"', "p1": model, "p2": f'"{THINGS}:mlp"'}
    method = '{ name = "FedAvg", aggregation = "layerwise" }'
    return marks, Site(tmp_path, method, models, **settings)


def test_a_participant_killed_in_the_middle_of_a_round_and_started_again_continues(tmp_path):
    marks, site = layerwise(tmp_path, rounds=2)
    (marks / "hold").touch()
    with site:
        site.serve()
        site.join("p0", "p1", "p2")
        site.until(at_work(marks), "p1 to train")
        site.kill("p1")
        (marks / "hold").unlink()
        site.join("p1")
        site.wait("serve", "p0", "p1", "p2")
    agree(site.rows(), site.serial(), 1e-12)
    assert "You have agreed to this before" in site.said("p1")
    assert "p1 is back" in site.said("serve")


def test_a_round_ends_at_its_timeout_and_a_late_answer_is_ignored(tmp_path):
    marks, site = layerwise(tmp_path, rounds=3, answer_timeout=25, min_participants=2)
    (marks / "hold").touch()
    with site:
        site.serve()
        site.join("p0", "p1", "p2")
        site.until(lambda: "round 1 of 3" in site.said("serve"), "round 1 to end")
        (marks / "hold").unlink()
        site.wait("serve", "p0", "p1", "p2")
    first, second = site.rows()[1], site.rows()[4]
    assert first["refused"] == "no answer within 25 s"
    assert first["accuracy"] is None
    assert "goes on without p1: no answer within 25 s" in site.said("serve")
    assert "p1 answered late; its answer is ignored" in site.said("serve")
    assert second["took_part"]
    assert second["refused"] is None
    assert [row["refused"] for row in site.rows() if row["participant"] != "p1"] == [None] * 6


def test_a_participant_that_raises_is_left_out_and_says_nothing_private(tmp_path):
    marks, site = layerwise(tmp_path, rounds=1, min_participants=2)
    (marks / "raise").touch()
    with site:
        site.serve()
        site.join("p0", "p1", "p2")
        site.wait("serve", "p0", "p1", "p2")
    assert [row["refused"] for row in site.rows()] == [None, "it failed there with RuntimeError", None]
    assert "a secret of the participant's" in site.said("p1")
    everything = site.said("serve") + "".join(
        path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*.log")
    )
    assert "a secret of the participant's" not in everything


def test_the_server_killed_and_started_again_goes_on_to_the_same_result(tmp_path):
    site = Site(tmp_path, '"FedAvg"', {"p0": CNN, "p1": CNN}, rounds=3)
    with site:
        site.serve()
        site.join("p0", "p1")
        site.until(lambda: "round 1 of 3" in site.said("serve"), "round 1 to end")
        site.until(lambda: site.said("p0").count("round 2: the server asks for step 0"), "round 2 to begin")
        site.kill("serve")
        site.serve("--resume")
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)
    assert "already holds a run" not in site.said("serve")


def test_a_server_app_that_ends_alone_is_noticed(tmp_path):
    site = Site(tmp_path, '"FedAvg"', {"p0": CNN, "p1": CNN}, rounds=2)
    with site:
        site.serve()
        site.join("p0", "p1")
        site.until(lambda: "round 1 of 2" in site.said("serve"), "round 1 to end")
        marks = (b"flwr-serverapp", str(tmp_path).encode())
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if marks[0] in path.read_bytes() and marks[1] in path.with_name("environ").read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        site.wait("serve", code=2)
        assert "go on with --resume" in " ".join(site.said("serve").split())
        site.serve("--resume")
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)


def test_a_participant_that_joins_late_takes_part_from_then_on(tmp_path):
    marks, site = layerwise(tmp_path, rounds=3, join_timeout=40, min_participants=2)
    (marks / "hold").touch()
    with site:
        site.serve()
        site.join("p0", "p1")  # p1 is held, so that round 1 lasts until p2 has come
        site.until(at_work(marks), "round 1 to begin")
        site.join("p2")
        site.until(lambda: "p2 is here" in site.said("serve"), "p2 to come")
        (marks / "hold").unlink()
        site.wait("serve", "p0", "p1", "p2")
    took_part = [row["took_part"] for row in site.rows() if row["participant"] == "p2"]
    assert took_part == [False, True, True]
    late = [row for row in site.rows() if row["participant"] == "p2"]
    assert late[0]["accuracy"] is None
    assert late[1]["accuracy"] is not None
    assert late[1]["refused"] is None


def test_too_few_participants_fail_clearly(tmp_path):
    site = Site(tmp_path, '"FedAvg"', {"p0": CNN, "p1": CNN}, join_timeout=20, on_too_few='"fail"')
    with site:
        site.serve()
        site.join("p0")
        site.wait("serve", code=2)
    assert "1 participants are here (p0); a round needs 2" in site.said("serve")


def test_ctrl_c_ends_both_sides_and_leaves_nothing_running(tmp_path):
    marks, site = layerwise(tmp_path, rounds=2)
    (marks / "hold").touch()
    with site:
        site.serve()
        site.join("p0", "p1", "p2")
        site.until(at_work(marks), "p1 to train")
        for name in ("p1", "serve", "p0", "p2"):
            site.running[name].send_signal(signal.SIGINT)
        site.wait("p1", "serve", "p0", "p2", code=130)
        assert site.left() == []
        assert "Participants wait; go on with" in site.said("serve")
        assert "the same command goes on" in site.said("p1")
        (marks / "hold").unlink()
        site.serve("--resume")
        site.join("p0", "p1", "p2")
        site.wait("serve", "p0", "p1", "p2")
    agree(site.rows(), site.serial(), 1e-12)
