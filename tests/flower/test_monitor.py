"""What the monitor answers, to whom it is asked, and that it can only be asked."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from potluck.core.errors import SettingsError
from potluck.flower import monitor as monitor_module
from potluck.flower.monitor import Monitor, address_of, fetch_status
from potluck.flower.status import StatusBoard
from tests.flower.statuses import standing


@pytest.fixture
def boards(tmp_path):
    """Two studies that are played."""
    now = time.time()
    found = [StatusBoard(tmp_path / name / "status.json", standing(study=name)) for name in ("one", "two")]
    for board in found:
        board.run("playing")
        assert board.status.since >= now
    return found


@pytest.fixture
def monitor(boards, tmp_path):
    """One that watches them, and a third that has not begun."""
    files = [tmp_path / name / "status.json" for name in ("one", "two", "three")]
    with Monitor("127.0.0.1:0", lambda: files) as found:
        yield found


def ask(monitor, path, **more):
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{monitor.port}{path}", **more), timeout=10
        ) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_status_is_what_is_in_the_files(monitor, boards):
    assert fetch_status(f"127.0.0.1:{monitor.port}") == [board.status for board in boards]


def test_metrics_are_told_of_all(monitor):
    status, text = ask(monitor, "/metrics")
    assert status == 200
    assert 'potluck_round{study="one"}' in text
    assert 'potluck_round{study="two"}' in text


def test_a_server_is_healthy_unless_a_run_failed_or_says_nothing(monitor, boards, monkeypatch):
    assert ask(monitor, "/health") == (200, '{"one": "playing", "two": "playing"}')
    boards[0].run("finished")
    assert ask(monitor, "/health")[0] == 200
    boards[1].run("failed")
    assert ask(monitor, "/health") == (503, '{"one": "finished", "two": "failed"}')
    boards[1].run("paused")
    monkeypatch.setattr(monitor_module, "SILENT_AFTER", -1.0)
    status, text = ask(monitor, "/health")
    assert (status, json.loads(text)) == (503, {"one": "finished", "two": "silent"})


def test_nothing_else_is_answered(monitor):
    assert ask(monitor, "/")[0] == 404
    assert ask(monitor, "/status/../../etc/passwd")[0] == 404
    assert ask(monitor, "/status", data=b"{}")[0] == 501  # POST


def test_an_address_that_is_taken_is_said(monitor):
    with pytest.raises(SettingsError, match=f"cannot listen at 127.0.0.1:{monitor.port}: Address already in use"):
        Monitor(f"127.0.0.1:{monitor.port}", list)


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":80", ("127.0.0.1", 80)), ("[::1]:80", ("::1", 80)), ("h:0", ("h", 0))],
)
def test_addresses(text, found):
    assert address_of(text) == found


@pytest.mark.parametrize("text", ["localhost", "localhost:http", "localhost:99999", ""])
def test_what_is_no_address(text):
    with pytest.raises(SettingsError, match=r"expected HOST:PORT, such as 127\.0\.0\.1:9464"):
        address_of(text)


def test_where_no_monitor_is_that_is_said():
    with pytest.raises(SettingsError, match=r"No monitor answers at 127\.0\.0\.1:1"):
        fetch_status("127.0.0.1:1")


def test_without_prometheus_client_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(monitor_module, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"needs prometheus-client: .*monitoring"):
        Monitor("127.0.0.1:0", list)
