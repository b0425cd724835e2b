"""What the public door lets through, and which app a node runs."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from potluck.engines.flower.clientapp import APP, check
from potluck.engines.flower.processes import OTHER_APPS, environment, only_our_app
from potluck.engines.flower.superlink import Doors


def ask(path, port=8443, length=b"10", opened=Path(__file__)):
    """The status that a request gets."""
    seen = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        seen.append(message)

    headers = [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "path": path, "server": ("127.0.0.1", port), "client": ("x", 1), "headers": headers}
    asyncio.run(Doors(app, 8443, 100, opened)(scope, None, send))
    return seen[0]["status"]


def test_only_nodes_may_ask_at_the_public_door():
    assert ask("/v1/fleet/pull-messages") == 200
    for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/get-nodes", "/docs", "/"):
        assert ask(path) == 403
        assert ask(path, port=9000) == 200  # the door on this machine


def test_nodes_are_asked_to_come_back_until_the_keys_are_registered(tmp_path):
    assert ask("/v1/fleet/activate-node", opened=tmp_path / "opened") == 503
    assert ask("/v1/control/register-node", port=9000, opened=tmp_path / "opened") == 200


@pytest.mark.parametrize("length", [b"101", b"99999999999", None, b"-1"])
def test_no_request_may_be_too_large(length):
    assert ask("/v1/fleet/push-object", length=length) == 413


def bundle(**changes):
    """An app as Flower packs it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for path in sorted(APP.rglob("*")):
            name = str(path.relative_to(APP))
            if path.is_file() and "__pycache__" not in name:
                packed.writestr(name, changes.get(name, path.read_text()))
        for name in set(changes) - set(packed.namelist()):
            packed.writestr(name, changes[name])
    return data.getvalue()


def test_a_node_runs_our_app():
    check(bundle())


@pytest.mark.parametrize(
    "changes",
    [
        {"potluck_app/client.py": "import os"},
        {"potluck_app/more.py": "import os"},
        {"../client.py": "import os"},
        {"pyproject.toml": '[tool.flwr.app.components]\nclientapp = "os:system"\nserverapp = "os:system"'},
    ],
)
def test_a_node_runs_no_other_app(changes):
    with pytest.raises(PermissionError, match="is not potluck's"):
        check(bundle(**changes))


def test_the_programs_of_a_node_refuse_everything_else(tmp_path):
    folder = only_our_app(tmp_path)
    for name in OTHER_APPS:
        done = subprocess.run([folder / name, "--token", "x"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        assert "nobody here agreed" in done.stderr


def test_telemetry_and_updates_are_off(tmp_path):
    settings = environment(tmp_path)
    assert settings["FLWR_TELEMETRY_ENABLED"] == "0"
    assert settings["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert settings["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"


def test_the_client_app_imports_no_torch():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import potluck_app.client; "
        "assert 'torch' not in sys.modules; assert 'potluck' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(APP)], check=True, timeout=60)
