"""A node runs the app that is installed, and nothing of the server's."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
import zipfile

import pytest
from flwr.cli.build import build_fab_from_disk

from potluck.flower.processes import environment
from potluck.flower.verified_clientapp import APP, check


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
