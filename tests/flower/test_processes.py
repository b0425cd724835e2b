"""Flower's programs: who ends with whom, and what its command says."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from potluck.core.errors import PotluckError, SettingsError
from potluck.flower import processes
from potluck.flower.processes import check_listenable, environment

FOLLOWER = """
import sys, time
from potluck.flower.processes import end_with
end_with(int(sys.argv[1]))
print("watches", flush=True)
time.sleep(60)
"""


def test_a_process_ends_with_the_one_it_needs():
    leader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    follower = subprocess.Popen([sys.executable, "-c", FOLLOWER, str(leader.pid)], stdout=subprocess.PIPE, text=True)
    try:
        assert follower.stdout.readline() == "watches\n"
        assert follower.poll() is None
        leader.kill()
        leader.wait(10)
        assert follower.wait(10) == 1
    finally:
        for process in (leader, follower):
            process.kill()
            process.wait(10)


def test_telemetry_and_updates_are_off(tmp_path):
    settings = environment(tmp_path)
    assert settings["FLWR_TELEMETRY_ENABLED"] == "0"
    assert settings["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert settings["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Has Flower's command be a script that prints what it is told to, and ends as it is told to."""

    def is_replaced(printed, code=0, complaint=""):
        script = tmp_path / "flwr"
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\necho \"$@\" >{tmp_path / 'given'}\n")
        with script.open("a") as file:
            file.write(f"echo '{complaint}' >&2\nexit {code}\n")
        script.chmod(0o755)
        monkeypatch.setattr(processes.sys, "executable", str(tmp_path / "python"))

    return is_replaced


def test_what_flowers_command_prints_is_read(command, tmp_path):
    command('Some words first.\n{"success": true, "run-id": 7}')
    assert processes.flwr({}, "run", "app", "here")["run-id"] == 7
    assert (tmp_path / "given").read_text() == "run app here --format json\n"


@pytest.mark.parametrize(
    ("printed", "code", "reason"),
    [
        ('{"success": false, "error-message": "no such run"}', 0, "no such run"),
        ('{"success": false, "error-message": "no such run"}', 1, "no such run"),
        ('{"success": true}', 1, r'"success": true'),
        ('{"run-id": 7}', 0, r'"run-id": 7'),
        ("no JSON at all", 0, "no JSON at all"),
        ('{"success": tru', 0, r'"success": tru'),
        ("", 2, "it broke"),
    ],
)
def test_a_command_of_flowers_that_fails_is_an_error(printed, code, reason, command):
    command(printed, code, "it broke")
    with pytest.raises(PotluckError, match=rf"`flwr stop 7` failed: .*{reason}"):
        processes.flwr({}, "stop", "7", "superlink")


def test_a_port_that_is_taken_is_told_before_anything_is_started():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"server.toml, port: nobody can listen at 127.0.0.1:{port}: another"):
            check_listenable("127.0.0.1", port, "server.toml, port")
    check_listenable("127.0.0.1", port, "server.toml, port")


def test_an_address_that_is_not_here_is_told():
    with pytest.raises(SettingsError, match=r"nobody can listen at 192\.0\.2\.1:8443: .*Expected an address of this"):
        check_listenable("192.0.2.1", 8443, "server.toml, port")
