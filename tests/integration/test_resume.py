"""A run folder loses nothing: not by going on, not by kill -9, not by damage."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import ModelError, SettingsError
from potluck.methods import FD, CoFED, FedAvg, Local
from potluck.runs import CheckpointError, checkpoint
from tests.resumable import METHODS, PUBLIC, TEST, resumable
from tests.tables import PLAN, agree, made_data, mlp, participants, weights_agree


@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_resumed_run_equals_an_unbroken_one(method, engine, tmp_path):
    unbroken = resumable(method, engine)
    unbroken.run(4)
    resumable(method, engine).run(2, run_dir=tmp_path)
    resumed = resumable(method, engine)
    history = resumed.run(4, run_dir=tmp_path, resume=True)
    agree(unbroken.history.rows(), history.rows(), 0)
    nets = [name for name in unbroken.participants if name.startswith("p")]
    weights_agree([unbroken.participants[n] for n in nets], [resumed.participants[n] for n in nets], 0)


def test_participants_are_kept_a_few_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARD", 2)
    unbroken = resumable(FedAvg()).run(3).rows()
    resumable(FedAvg()).run(2, run_dir=tmp_path)
    newest = tmp_path / "checkpoints" / "round-00000002"
    assert len(list(newest.glob("participants-*.safetensors"))) == 2
    agree(unbroken, resumable(FedAvg()).run(3, run_dir=tmp_path, resume=True).rows(), 0)


def test_a_damaged_file_of_participants_is_refused(tmp_path, caplog):
    unbroken = resumable(FedAvg()).run(3).rows()
    resumable(FedAvg()).run(2, run_dir=tmp_path)
    (tmp_path / "checkpoints" / "round-00000002" / "participants-00000.safetensors").unlink()
    agree(unbroken, resumable(FedAvg()).run(3, run_dir=tmp_path, resume=True).rows(), 0)
    assert "using the checkpoint before it" in caplog.text


def test_partial_participation_resumes(tmp_path):
    unbroken = resumable(FedAvg(), participation=0.4).run(6)
    resumable(FedAvg(), participation=0.4).run(3, run_dir=tmp_path)
    agree(unbroken.rows(), resumable(FedAvg(), participation=0.4).run(6, run_dir=tmp_path, resume=True).rows(), 0)


def test_of_who_sat_out_nothing_is_written(tmp_path):
    history = resumable(Local(), participation=0.4).run(5, run_dir=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert lines == list(history.recorded())
    assert [row["round"] for row in lines] == [1, 1, 1, 2, 3, 4, 5]
    assert all(row["took_part"] for row in lines[3:])
    assert len(history.rows()) == 15
    agree(potluck.History.load(tmp_path).rows(), history.rows(), 0)


def test_a_round_in_which_nothing_happens_is_counted(tmp_path):
    class Idle(potluck.Method):
        def join(self, me):
            yield potluck.Exchange("nobody", potluck.Payload())

        def round(self, me):
            yield potluck.Fit()

        @potluck.exchange(lambda self, server, sender: potluck.Schema({"x": potluck.TensorSpec(())}), phase="join")
        def nobody(self, server, answers):
            return potluck.Payload()

    history = resumable(Idle()).run(3, run_dir=tmp_path)
    assert [row["participant"] for row in history.recorded()] == ["p0", "p1", "p2", "p0", "p0"]
    assert [row["took_part"] for row in history.rows()] == [False] * 9
    assert [row["refused"] is None for row in history.rows()] == [False] * 3 + [True] * 6
    assert resumable(Idle()).run(5, run_dir=tmp_path, resume=True).rounds == 5


def test_callbacks_see_a_row_of_everybody(tmp_path):
    seen = []
    resumable(Local(), participation=0.4).run(3, run_dir=tmp_path, callbacks=[lambda _, rows: seen.extend(rows)])
    agree(seen, resumable(Local(), participation=0.4).run(3).rows(), 0)


def test_a_run_that_was_cut_off_between_checkpoints_resumes(tmp_path):
    def cut_off(federation, rows):
        if federation.history.rounds == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        resumable(FedAvg(), participation=0.4).run(6, run_dir=tmp_path, checkpoint_every=2, callbacks=[cut_off])
    assert potluck.History.load(tmp_path).rounds == 5
    resumed = resumable(FedAvg(), participation=0.4)
    resumed.run(7, run_dir=tmp_path, checkpoint_every=2, resume=True)
    unbroken = resumable(FedAvg(), participation=0.4).run(8).rows()
    agree(unbroken, resumable(FedAvg(), participation=0.4).run(8, run_dir=tmp_path, resume=True).rows(), 0)


def test_the_servers_own_model_resumes(tmp_path):
    class Taught(potluck.Method):
        def round(self, me):
            reply = yield potluck.Exchange("ask", potluck.Payload())
            return dict(reply.facts)

        def server_models(self, server):
            return {"auxiliary": lambda: mlp(0)}

        @potluck.exchange(lambda self, server, sender: potluck.Schema())
        def ask(self, server, answers):
            list(answers)
            fitted = yield potluck.Fit(on=server.public, plan=PLAN, model="auxiliary")
            return potluck.Payload(facts={"taught": fitted.losses[-1][0]})

    unbroken = resumable(Taught()).run(4).rows()
    resumable(Taught()).run(2, run_dir=tmp_path)
    agree(unbroken, resumable(Taught()).run(4, run_dir=tmp_path, resume=True).rows(), 0)


def test_the_folder_holds_what_was_run(tmp_path):
    federation = resumable(FedAvg(), seed=5)
    history = federation.run(2, run_dir=tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["method"] == {"name": "FedAvg", **FedAvg().model_dump(mode="json")}
    assert settings["seed"] == 5
    assert settings["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert [p["name"] for p in settings["participants"]] == ["p0", "p1", "p2"]
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert lines == history.rows()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["accuracy"] == history.final.accuracy
    assert (summary["bytes_up"], summary["bytes_down"]) == history.bytes()
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["round-00000001", "round-00000002"]
    everything = [path.suffix for path in tmp_path.rglob("*") if path.is_file()]
    assert not {".pkl", ".pt", ".pickle"} & set(everything)


def test_going_on_in_the_same_folder(tmp_path):
    unbroken = resumable(Local()).run(4).rows()
    federation = resumable(Local())
    federation.run(1)
    federation.run(1, run_dir=tmp_path)
    federation.run(2, run_dir=tmp_path)
    agree(unbroken, federation.history.rows(), 0)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert lines == federation.history.rows()


def test_callbacks_see_every_round():
    seen = []
    resumable(Local()).run(3, callbacks=[lambda federation, rows: seen.append((federation.history.rounds, len(rows)))])
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_checkpoints_every_few_rounds_and_at_the_end(tmp_path):
    resumable(Local()).run(5, run_dir=tmp_path, checkpoint_every=2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["round-00000004", "round-00000005"]


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(file, harm, tmp_path, caplog):
    unbroken = resumable(FD()).run(4).rows()
    resumable(FD()).run(3, run_dir=tmp_path)
    path = tmp_path / "checkpoints" / "round-00000003" / file
    data = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
    else:
        data[len(data) // 2] ^= 0x55
        path.write_bytes(data if harm == "flip" else data[: len(data) // 2])
    agree(unbroken, resumable(FD()).run(4, run_dir=tmp_path, resume=True).rows(), 0)
    assert "round-00000003" in caplog.text
    assert "using the checkpoint before it" in caplog.text


@pytest.mark.parametrize("text", [b"[1]", b"7", b"\xff", b"[" * 100_000, b"{}", b'{"own sha256": 1}'])
def test_a_manifest_of_any_kind_is_refused(text, tmp_path, caplog):
    unbroken = resumable(Local()).run(3).rows()
    resumable(Local()).run(2, run_dir=tmp_path)
    (tmp_path / "checkpoints" / "round-00000002" / "manifest.json").write_bytes(text)
    agree(unbroken, resumable(Local()).run(3, run_dir=tmp_path, resume=True).rows(), 0)
    assert "round-00000002 has no readable manifest" in caplog.text


def test_nothing_but_damage_is_an_error(tmp_path):
    resumable(Local()).run(2, run_dir=tmp_path)
    for path in (tmp_path / "checkpoints").glob("*/state.json"):
        path.write_text("{}")
    with pytest.raises(CheckpointError, match=r"Every checkpoint in .* is damaged"):
        resumable(Local()).run(3, run_dir=tmp_path, resume=True)


def test_a_half_written_line_of_history_is_dropped(tmp_path):
    unbroken = resumable(Local()).run(3).rows()
    resumable(Local()).run(2, run_dir=tmp_path)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"round": 3, "partici')
    agree(unbroken, resumable(Local()).run(3, run_dir=tmp_path, resume=True).rows(), 0)


def test_missing_lines_of_history_are_an_error(tmp_path):
    resumable(Local()).run(2, run_dir=tmp_path)
    (tmp_path / "history.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="lines are missing"):
        resumable(Local()).run(3, run_dir=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (lambda: resumable(FD()), "method"),
        (lambda: resumable(Local(), seed=2), "seed"),
        (lambda: resumable(Local(), plan=PLAN), "participants"),
        (lambda: resumable(Local(), participation=0.5), "participation"),
    ],
)
def test_a_checkpoint_of_another_federation_is_refused(other, named, tmp_path):
    resumable(Local()).run(1, run_dir=tmp_path)
    with pytest.raises(CheckpointError, match=f"belongs to another federation: .*{named}"):
        other().run(2, run_dir=tmp_path, resume=True)


def test_other_data_are_another_federation(tmp_path):
    potluck.Federation(participants([mlp(0)]), Local()).run(1, run_dir=tmp_path)
    changed = participants([mlp(0)])
    changed[0].held["brought"].x[0] += 1
    with pytest.raises(CheckpointError, match="participants' data differ"):
        potluck.Federation(changed, Local()).run(2, run_dir=tmp_path, resume=True)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    resumable(Local()).run(1, run_dir=tmp_path)
    with pytest.raises(SettingsError, match="already holds a run"):
        resumable(Local()).run(1, run_dir=tmp_path)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(SettingsError, match="is a file"):
        resumable(Local()).run(1, run_dir=tmp_path / "x")


def test_resuming_needs_a_folder():
    with pytest.raises(SettingsError, match="nothing to resume"):
        resumable(Local()).run(1, resume=True)


def test_two_runs_cannot_share_a_folder(tmp_path):
    def meddle(federation, rows):
        with pytest.raises(SettingsError, match="being written by another run"):
            resumable(Local()).run(1, run_dir=tmp_path, resume=True)

    resumable(Local()).run(1, run_dir=tmp_path, callbacks=[meddle])


class Opaque:
    """An estimator of one's own that skops cannot hold: it keeps a function made on the spot."""

    def fit(self, x, y):
        self.common = max(set(y.tolist()), key=y.tolist().count)
        self.answer = lambda rows: np.full(len(rows), self.common)
        return self

    def predict(self, x):
        return self.answer(x)


class Keeping(Opaque):
    def save(self, path):
        Path(path).write_text(str(self.common))

    def load(self, path):
        self.common = int(Path(path).read_text())
        self.answer = lambda rows: np.full(len(rows), self.common)


def with_estimator(estimator):
    person = potluck.Participant("odd", estimator, made_data(30, 3), labels=range(3))
    return potluck.Federation([*participants([mlp(0)]), person], CoFED(), public=PUBLIC[0], test=TEST)


def test_an_estimator_that_cannot_be_kept_is_refused_before_training(tmp_path):
    federation = with_estimator(Opaque())
    with pytest.raises(ModelError, match=r"odd: Opaque cannot be kept .* save\(path\) and load\(path\)"):
        federation.run(1, run_dir=tmp_path)
    assert len(federation.history) == 0
    federation.run(1)


def test_an_estimator_may_keep_itself(tmp_path):
    unbroken = with_estimator(Keeping()).run(2).rows()
    with_estimator(Keeping()).run(1, run_dir=tmp_path)
    agree(unbroken, with_estimator(Keeping()).run(2, run_dir=tmp_path, resume=True).rows(), 0)


def test_a_checkpoint_cannot_bring_in_strange_types(tmp_path):
    """A kept estimator with another type inside is refused, even under valid checksums."""
    from potluck.learners import serialization as keeping

    x, y = _rows(made_data(10, 0))
    trusted = keeping.try_out(
        DecisionTreeClassifier(), lambda tree: tree.fit(x, y), lambda tree: tree.predict(x).tolist(), owner="x"
    )
    strange = SVC()
    strange.kernel = with_estimator
    with pytest.raises(ModelError, match="types it should not consist of"):
        keeping.load_estimator(keeping.dump_estimator(strange), DecisionTreeClassifier(), trusted)


def _rows(pair):
    return pair[0].reshape(len(pair[0]), -1), pair[1]


CHILD = """
import sys
from tests.resumable import METHODS, resumable
method = next(m for m in METHODS if type(m).__name__ == sys.argv[1])
resumable(method, sys.argv[2]).run(int(sys.argv[4]), run_dir=sys.argv[3], resume=True)
"""


@pytest.mark.parametrize(("method", "engine"), [("FedAvg", "batched"), ("CoFED", "serial")])
def test_kill_9_at_random_moments_changes_nothing(method, engine, tmp_path):
    """A real process, killed again and again while it works and writes, ends with the same history."""
    rounds, moments = 40, random.Random(f"{method} {engine}")
    command = [sys.executable, "-c", CHILD, method, engine, str(tmp_path), str(rounds)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    killed = 0
    for _ in range(30):
        child = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2])
        begun, start = _progress(tmp_path), time.monotonic()
        while child.poll() is None and _progress(tmp_path) == begun and time.monotonic() - start < 60:
            time.sleep(0.01)
        if killed < 4:
            time.sleep(moments.uniform(0, 0.3))
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                killed += 1
        if child.wait(timeout=120) == 0:
            break
    assert killed >= 2
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    which = next(m for m in METHODS if type(m).__name__ == method)
    agree(resumable(which, engine).run(rounds).rows(), lines, 1e-9)


def _progress(folder):
    checkpoints = sorted(path.name for path in (folder / "checkpoints").glob("round-*"))
    return checkpoints[-1] if checkpoints else ""
