"""How the command that serves follows a run that Flower carries out."""

from __future__ import annotations

import subprocess

import pytest
from filelock import FileLock

from potluck.core.errors import PotluckError, SettingsError
from potluck.flower import superlink
from potluck.flower.config import FederationFile, read_federation
from potluck.flower.key_folder import make_keys
from potluck.flower.progress import ProgressLog
from tests.flower.lines import timeless


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """A SuperLink whose run goes on until Flower says otherwise."""
    monkeypatch.setattr(superlink, "STATUS_INTERVAL", 0.0)
    file = FederationFile(rounds=1, method="FedAvg", participants=[{"name": "p0"}])
    return superlink.SuperLink(tmp_path / "server.toml", file, tmp_path / "run", False)


def says(monkeypatch, *statuses):
    """What Flower says of the run, one after the other; an error is raised."""
    left = list(statuses)

    def flwr(environment, *arguments):
        assert arguments[0] == "list"
        status = left.pop(0)
        if isinstance(status, Exception):
            raise status
        return {"success": True, "runs": [{"status": status() if callable(status) else status}]}

    monkeypatch.setattr(superlink, "flwr", flwr)
    return left


def test_a_run_whose_process_ended_alone_is_not_waited_for(followed, monkeypatch):
    busy = [PotluckError("busy"), subprocess.TimeoutExpired("flwr", 120)]
    left = says(monkeypatch, "running", *busy, "finished:failed")
    assert "go on with --resume" in followed.follow(print)
    assert left == []


@pytest.mark.parametrize("error", ["", "too few"])
def test_a_run_that_ended_while_flower_was_asked_has_its_own_word(error, followed, tmp_path, monkeypatch):
    def finish():
        ProgressLog(tmp_path / "run" / "flower" / "progress.log").finish(error)
        return "finished:completed"

    says(monkeypatch, "running", finish)
    assert followed.follow(print) == error


def test_a_folder_that_is_being_served_is_left_as_it_is(followed, tmp_path):
    home = tmp_path / "run" / "flower"
    ProgressLog(home / "progress.log").report("round 1")
    (home / "ready").touch()
    with FileLock(home / ".lock"), pytest.raises(SettingsError, match="is being served already"):
        followed.__enter__()
    assert (home / "ready").exists()
    assert timeless(ProgressLog(home / "progress.log").new_lines()) == ["round 1"]


def test_flowers_store_of_another_version_is_not_taken_up(followed, tmp_path, monkeypatch):
    home = tmp_path / "run" / "flower"
    for name in ("state.db", "state.db-wal", "superlink.log"):
        (home / name).touch()
    followed._forget_other_versions()
    assert sorted(path.name for path in home.iterdir()) == ["flwr-version", "superlink.log"]
    (home / "state.db").touch()
    followed._forget_other_versions()
    assert (home / "state.db").exists()
    monkeypatch.setattr(superlink, "version", lambda name: "99")
    followed._forget_other_versions()
    assert not (home / "state.db").exists()


@pytest.mark.parametrize(("days", "lines"), [(5, 2), (30, 0)])
def test_certificates_that_end_soon_are_warned_of_once_a_day(days, lines, tmp_path, monkeypatch):
    make_keys(tmp_path / "keys", ["a"], ["localhost", "127.0.0.1"], days)
    tls = 'certificate = "keys/server.pem"\nkey = "keys/server.key"\nauthority = "keys/ca.crt"'
    text = f'rounds = 1\nmethod = "Local"\n[tls]\n{tls}\n[[participants]]\nname = "a"\nkey = "keys/a.pub"\n'
    (tmp_path / "server.toml").write_text(text)
    file = read_federation(tmp_path / "server.toml")
    link = superlink.SuperLink(tmp_path / "server.toml", file, tmp_path / "run", False)
    monkeypatch.setattr(superlink, "STATUS_INTERVAL", 0.0)

    def finish():
        ProgressLog(tmp_path / "run" / "flower" / "progress.log").finish("")
        return "finished:completed"

    says(monkeypatch, "running", "running", finish)
    said: list[str] = []
    assert link.follow(said.append) == ""
    assert len(said) == lines
    assert all("`potluck keys renew`" in line for line in said)
