"""A run folder that somebody has changed is told in words, or gives the very history that the run has."""

from __future__ import annotations

import json
import random
import shutil

import pytest

import potluck
from potluck.runs import CheckpointError
from tests.flower.things import mlp
from tests.tables import PLAN, made_data
from tests.tampering import forged, tamper


def federation():
    people = [
        potluck.Participant(f"p{n}", mlp, made_data(12, n), plan=PLAN, labels=range(3), test=made_data(8, 50 + n))
        for n in range(2)
    ]
    return potluck.Federation(people, potluck.methods.FedAvg(), seed=3, engine="serial", device="cpu")


def rows(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history.rows()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with three rounds, and the rows of four."""
    folder = tmp_path_factory.mktemp("run")
    federation().run(3, run_dir=folder)
    return folder, rows(federation().run(4))


def outcome(folder, expected):
    """Whether the run goes on to its own history; a CheckpointError is the only other way."""
    try:
        found = rows(federation().run(4, run_dir=folder, resume=True))
    except CheckpointError:
        return "told"
    assert found == expected == rows(potluck.History.load(folder))
    return "the same"


def played(run, tmp_path, seeds):
    folder, expected = run
    found = []
    for seed in seeds:
        copy = tmp_path / str(seed)
        shutil.copytree(folder, copy)
        said = tamper(copy, random.Random(seed))
        try:
            found.append(outcome(copy, expected))
        except Exception as error:
            raise AssertionError(f"{said} (seed {seed})") from error
        shutil.rmtree(copy)
    assert set(found) == {"told", "the same"}
    return found


def test_a_changed_folder_is_told_or_changes_nothing(run, tmp_path):
    played(run, tmp_path, range(60))


@pytest.mark.slow
def test_four_hundred_changed_folders(run, tmp_path):
    assert played(run, tmp_path, range(1000, 1400)).count("told") > 20


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("history", None),
        ("history", {"list": []}),
        ("history", {"list": [1, 2]}),
        ("history", {"list": [{"list": [1, 2, "x"]}]}),
        ("server", {"dict": {}}),
        ("joined", {"dict": {"p0": {"dict": {"x": 1}}}}),
        ("engine", None),
    ],
)
def test_a_forged_state_is_told(part, value, run, tmp_path):
    """Also where its checksums fit, in both checkpoints."""
    folder, expected = run
    shutil.copytree(folder, tmp_path / "run")
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        path = checkpoint / "state.json"
        state = json.loads(path.read_text())
        state["dict"][part] = value
        path.write_text(json.dumps(state))
        forged(checkpoint, lambda manifest, path=path: manifest["sha256"].update({path.name: sha256(path)}))
    assert outcome(tmp_path / "run", expected) == "told"


def sha256(path):
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()
