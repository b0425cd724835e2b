"""TLS, keys and names, with real processes: who is let in, who is not, and what is said about it."""

from __future__ import annotations

import http.client
import os
import re
import signal
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from potluck.flower.key_folder import make_keys
from tests.flower.other_user import as_another_user, needs_another_user
from tests.flower.programs import THINGS, Site
from tests.tables import agree

pytestmark = pytest.mark.slow

MLP = f'"{THINGS}:mlp"'


def guarded(tmp_path, **settings):
    """A federation with TLS and keys."""
    keys = tmp_path / "keys"
    make_keys(keys, ["p0", "p1", "stranger"], ["localhost", "127.0.0.1"], 1)
    make_keys(tmp_path / "other", ["p0"], ["localhost", "127.0.0.1"], 1)
    tls = f'[tls]\ncertificate = "{keys}/server.pem"\nkey = "{keys}/server.key"\nauthority = "{keys}/ca.crt"'
    entries = {name: f'key = "{keys}/{name}.pub"' for name in ("p0", "p1")}
    own = f'root_certificates = "{keys}/ca.crt"\nkey = "{keys}/NAME"'
    models = settings.pop("models", {"p0": MLP, "p1": MLP})
    return Site(tmp_path, '"FedAvg"', models, extra=tls, entries=entries, own=own, **settings)


def test_tls_and_keys(tmp_path):
    """One server, and everyone who should not be let in; then those who should."""
    site = guarded(tmp_path, rounds=1, host='"0.0.0.0"')
    keys = tmp_path / "keys"
    with site:
        site.serve()
        site.until(lambda: "waiting for p0, p1" in site.said("serve"), "the server to wait")
        superlink = tmp_path / "run" / "flower" / "superlink.log"

        # A certificate of an authority that p0 does not know; and the right one, for another address.
        site.join("p0", options=("--root-certificates", str(tmp_path / "other" / "ca.crt")))
        site.wait("p0", code=2)
        assert "certificate verify failed: unable to get local issuer certificate" in site.said("p0")
        (tmp_path / "p0.log").unlink()
        site.join("p0", server=f"127.0.0.2:{site.port}")
        site.wait("p0", code=2)
        assert "certificate is not valid for '127.0.0.2'" in site.said("p0")
        (tmp_path / "p0.log").unlink()

        # A key that is not registered: the reason is in both logs.
        site.join("p0", options=("--key", str(keys / "stranger")))
        site.wait("p0", code=2)
        assert "did not let this machine in" in site.said("p0")
        assert "No SuperNode found with the given public key" in superlink.read_text()

        # Whoever has p1's key cannot be p0.
        site.join("p0", options=("--key", str(keys / "p1")))
        site.until(
            lambda: "p1 sent what cannot be read: it calls itself 'p0'" in site.said("serve"), "p0 to be refused"
        )
        site.end("p0")

        # Nobody but nodes may ask anything at the public port.
        context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        for path in ("/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/get-nodes", "/docs"):
            request = urllib.request.Request(f"https://127.0.0.1:{site.port}{path}", data=b"x", method="POST")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10, context=context)
            assert refused.value.code == 403
        assert "only nodes may ask here" in superlink.read_text()

        site.join("p0", "p1")
        site.until(lambda: "p0 is here" in site.said("serve"), "p0 to come")
        quiet = [line for line in _environments(tmp_path) if "FLWR_TELEMETRY_ENABLED=0" not in line]
        assert quiet == []
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.log"))
    secrets = [path.read_text().splitlines()[2] for path in (keys / "p0", keys / "p1", keys / "server.key")]
    assert not any(secret in logs for secret in secrets)
    assert "PRIVATE KEY" not in logs
    assert "--token" not in logs


def test_a_machine_that_crashed_and_is_started_again_comes_back_with_its_key(tmp_path):
    """Nobody could tell the server that the node is gone: it notices after a minute, and lets it in again."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (marks / "hold").touch()
    model = f'{{ name = "{THINGS}:marked", folder = "{marks}" }}'
    site = guarded(tmp_path, rounds=1, models={"p0": model, "p1": model})
    with site:
        site.serve()
        site.join("p0", "p1")
        site.until(lambda: len(list(marks.glob("at-work-*"))) == 2, "both to train")
        for process, command in _processes():
            if "node.py" in command and str(tmp_path / "keys" / "p1") in command:
                os.kill(process, signal.SIGKILL)
        site.kill("p1")
        (marks / "hold").unlink()
        site.join("p1")
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)
    assert "p1 is back" in site.said("serve")
    assert "Trying again" in site.said("p1")


def test_an_answer_that_is_too_large_is_refused_while_it_comes_in(tmp_path, monkeypatch):
    """p1's program does not keep to what the server takes; it does without the round, and the others go on."""
    site = Site(
        tmp_path,
        '"FedAvg"',
        dict.fromkeys(("p0", "p1", "p2"), MLP),
        rounds=1,
        max_payload_bytes=2**20,
        answer_timeout=30,
    )
    with site:
        site.serve()
        (tmp_path / "careless").mkdir()
        (tmp_path / "careless" / "sitecustomize.py").write_text(CARELESS)
        site.join("p0", "p2")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'careless'}:{os.environ.get('PYTHONPATH', '')}")
        site.join("p1")
        log = tmp_path / "run" / "flower" / "superlink.log"
        site.until(lambda: log.exists() and "larger than the limit" in log.read_text(), "the answer to be refused")
        site.wait("serve", "p0", "p2")
        site.end("p1")
    refused = {row["participant"]: row["refused"] for row in site.rows()}
    assert refused["p1"] is not None
    assert refused["p0"] is refused["p2"] is None


CARELESS = """
import os
import sys
if "join" in sys.argv:
    from potluck.flower import client
    from potluck.flower.protocol import Message
    answer = client.Client.answer
    def padded(self, message):
        honest = answer(self, message)
        return Message(honest.head, os.urandom(2**24)) if honest.body else honest
    client.Client.answer = padded
"""


@needs_another_user
def test_another_user_of_the_machine_reaches_neither_messages_nor_controls(tmp_path):
    """Flower answers whoever connects to its control port; a participant's programs listen at no port."""
    site = guarded(tmp_path, rounds=1)
    with site:
        site.serve()
        site.join("p0")
        site.until(lambda: "p0 is here" in site.said("serve"), "p0 to come")
        here = {process: command for process, command in _processes() if str(tmp_path) in command}
        (control,) = (command for command in here.values() if "port_filter.py" in command)
        port = int(re.search(r"--port (\d+)", control)[1])
        context = ssl.create_default_context(cafile=str(tmp_path / "keys" / "ca.crt"))
        assert ask(port, "/v1/control/list-runs", context) > 0, "it answers its owner"
        assert as_another_user(ask, port, "/v1/control/list-runs", context) == 0
        of_participant = [each for each, command in here.items() if "node.py" in command or " join " in command]
        assert len(of_participant) == 2
        assert [port for each in of_participant for port in listening(each)] == []
        assert listening(next(each for each, command in here.items() if command == control)), "it could be seen"
        assert "Turned away another user" in (tmp_path / "run" / "flower" / "superlink.log").read_text()
        site.join("p1")
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)
    private = [tmp_path / "state-p0", tmp_path / "run" / "flower", tmp_path / "run" / "audit.jsonl"]
    assert [path.stat().st_mode & 0o077 for path in private] == [0] * 3
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "state-p0").rglob("*") if not path.is_socket()} == {0}


def listening(process):
    """The ports at which a process listens."""
    sockets = set()
    for path in Path(f"/proc/{process}/fd").iterdir():
        with suppress(OSError):
            sockets.add(os.readlink(path))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.append(int(local.rpartition(":")[2], 16))
    return found


def ask(port, path, context):
    """The status of what a port answers; 0 for nothing."""
    url = f"http{'' if context is None else 's'}://127.0.0.1:{port}{path}"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, data=b""), timeout=10, context=context).status
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):
        return 0


def _processes() -> list[tuple[int, str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append((int(path.parent.name), path.read_bytes().replace(b"\0", b" ").decode(errors="replace")))
    return found


def _environments(folder: Path) -> list[str]:
    """The settings of Flower's programs in this federation."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            command = path.with_name("cmdline").read_bytes().decode(errors="replace")
            settings = path.read_bytes().replace(b"\0", b"\n").decode(errors="replace")
        except OSError:
            continue
        if ("flower" in command or "flwr-" in command) and f"FLWR_HOME={folder}" in settings:
            found.append(settings)
    assert found
    return found
