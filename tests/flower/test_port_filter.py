"""What the public port lets through, and which app a node runs."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk

from potluck.flower.port_filter import PortFilter
from potluck.flower.processes import HERE, OTHER_APPS, environment, only_our_app
from potluck.flower.verified_clientapp import APP, check


def ask(path, port=8443, length=b"10", ready=Path(__file__)):
    """The status that a request gets."""
    seen = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        seen.append(message)

    headers = [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "path": path, "server": ("127.0.0.1", port), "client": ("x", 1), "headers": headers}
    asyncio.run(PortFilter(app, 8443, 100, ready)(scope, None, send))
    return seen[0]["status"]


def test_only_nodes_may_ask_at_the_public_port():
    assert ask("/v1/fleet/pull-messages") == 200
    for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/get-nodes", "/docs", "/"):
        assert ask(path) == 403
        assert ask(path, port=9000) == 200  # the port on this machine


def test_nodes_are_asked_to_come_back_until_the_keys_are_registered(tmp_path):
    assert ask("/v1/fleet/activate-node", ready=tmp_path / "ready") == 503
    assert ask("/v1/control/register-node", port=9000, ready=tmp_path / "ready") == 200


@pytest.mark.parametrize("length", [b"101", b"99999999999", None, b"-1"])
def test_no_request_may_be_too_large(length):
    assert ask("/v1/fleet/push-object", length=length) == 413


def bundle(**changes):
    """Potluck's app as Flower packs it, with other contents or more files."""
    own, data = zipfile.ZipFile(io.BytesIO(build_fab_from_disk(APP))), io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for entry in own.infolist():
            packed.writestr(
                zipfile.ZipInfo(entry.filename, entry.date_time), changes.pop(entry.filename, own.read(entry))
            )
        for name, content in changes.items():
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def test_a_node_runs_our_app():
    check(build_fab_from_disk(APP))
    check(bundle())


PROJECT = (APP / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "changes",
    [
        {"potluck_app/client.py": "import os"},
        {"potluck_app/more.py": "import os"},
        {"../client.py": "import os"},
        {"pyproject.toml": '[tool.flwr.app.components]\nclientapp = "os:system"\nserverapp = "os:system"'},
        {"pyproject.toml": PROJECT.replace("1.0.0", "/../../../../outside")},
        {"pyproject.toml": PROJECT + "\n[more]\n"},
        {".info/CONTENT": ""},
        {".info/more": "x" * 2**20},
        {".info/../../outside": "x"},
        {".info/zeros": bytes(2**26)},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_a_node_runs_and_unpacks_no_other_app(changes, tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    sent = bundle(**changes)
    tracemalloc.start()
    with pytest.raises(PermissionError, match="not the one installed here, byte for byte"):
        check(sent, skip_prompt=True)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_with_something_behind_it_is_another():
    with pytest.raises(PermissionError):
        check(build_fab_from_disk(APP) + b"x")
    with pytest.raises(PermissionError):
        check(b"")


ONE_MESSAGE = """
import sys
from pathlib import Path
from potluck.flower import verified_clientapp as clientapp
import flwr.supernode.runtime.run_clientapp as runtime

def run(*_):
    runtime.install_from_fab(bytes.fromhex(sys.stdin.read()), skip_prompt=True)
    app = runtime.get_load_client_app_fn(default_app_ref="", app_path=None, multi_app=True)
    print(runtime.get_project_dir("a/b/c", "../..", "0"), app("evil/evil", "../../..", "0"))
    import potluck_app.client
    print(potluck_app.client.__file__)

runtime.run_clientapp = run
sys.argv = ["x", "--runtime-api-address", "x", "--token", "x"]
clientapp.main()
"""


def test_the_app_is_run_where_it_is_installed_whatever_the_server_calls_it(tmp_path):
    def run(content):
        return subprocess.run(
            [sys.executable, "-c", ONE_MESSAGE],
            input=content.hex(),
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
            timeout=60,
        )

    done = run(build_fab_from_disk(APP))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[-2:]
    assert first.startswith(f"{APP} <flwr.clientapp")
    assert second == str(APP / "potluck_app" / "client.py")
    assert "byte for byte" in run(bundle(**{".info/more": "x"})).stderr
    assert not (tmp_path / "home" / "apps").exists()


NODE = """
import runpy, sys
import flwr.supernode.cli
import flwr.supernode.start_client_internal as node

flwr.supernode.cli.flower_supernode = lambda: print(node.get_fused_config_from_fab(b"no bundle", None))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_node_reads_nothing_of_a_bundle():
    """Flower's node looks for settings in it before anything is checked; the function must be there to be replaced."""
    program = [sys.executable, "-c", NODE, str(HERE / "verified_supernode.py")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.stdout == "{}\n", done.stderr


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
