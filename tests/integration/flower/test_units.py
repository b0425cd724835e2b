"""The systemd units do their work where they may write nothing but what they ask for, with real processes.

There need be no systemd: a namespace of mounts does what `ProtectSystem=strict`, `PrivateTmp=` and `StateDirectory=`
do. The other settings of the units take nothing away that Potluck could miss but by a call that is not allowed.
"""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from potluck.core.history import History
from potluck.flower.processes import free_port
from tests.cli.commands import COMMAND, heed_interrupts
from tests.flower.programs import LONG, ROOT, THINGS

pytestmark = pytest.mark.slow

DEPLOY = ROOT / "deploy"
SANDBOX = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /var/lib
mkdir "/var/lib/$NAME"
mount --bind "$STATE" "/var/lib/$NAME"
mount --bind "$FILES" /srv
mount -o remount,bind,ro /srv
mount -t tmpfs tmpfs /tmp
mount -o remount,bind,ro /
if touch /var/lib/other 2>/dev/null || touch /srv/other 2>/dev/null || touch /usr/other 2>/dev/null; then
  echo "the sandbox does not hold"; exit 99
fi
cd "$FOLDER"
exec "$@"
"""


def can_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


class Unit:
    """A service of a unit file, started as systemd would, with files in the place of /etc/potluck."""

    def __init__(self, path, files, states, **variables):
        unit = configparser.ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str
        unit.read(path)
        service = {key: self.text(value) for key, value in unit["Service"].items()}
        assert service["ProtectSystem"] == "strict"
        self.name, self.log = service["StateDirectory"], states / f"{path.stem}.log"
        self.state = states / self.name
        self.state.mkdir(exist_ok=True)
        environment = dict(pair.split("=", 1) for pair in shlex.split(service["Environment"]))
        command = [COMMAND, *shlex.split(service["ExecStart"])[1:]]
        environment |= variables | {"NAME": self.name, "STATE": self.state, "FILES": files, "OMP_NUM_THREADS": "1"}
        command = [str(part).replace("${SERVER}", variables.get("SERVER", "")) for part in command]
        given = os.environ | {key: str(value) for key, value in environment.items()}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", SANDBOX, "sh", *command],
                env=given | {"FOLDER": service["WorkingDirectory"], "PYTHONPATH": f"{ROOT}:/srv"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=heed_interrupts,
            )

    @staticmethod
    def text(value):
        return value.replace("%S", "/var/lib").replace("/etc/potluck", "/srv")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


@pytest.mark.skipif(shutil.which("unshare") is None or not can_make_namespaces(), reason="needs namespaces, as root")
def test_a_federation_of_the_units(tmp_path):
    files, port, monitor = tmp_path / "etc", free_port(), free_port()
    files.mkdir()
    people = "\n".join(f'[[participants]]\nname = "{name}"' for name in ("ann", "ben"))
    (files / "server.toml").write_text(f'rounds = 2\nport = {port}\nmethod = "FedAvg"\n{people}\n')
    units = {name: tmp_path / f"potluck-{name}.service" for name in ("server", "ann", "ben")}
    server = (DEPLOY / "potluck-server.service").read_text().replace("127.0.0.1:9464", f"127.0.0.1:{monitor}")
    units["server"].write_text(server)
    for number, name in enumerate(("ann", "ben")):
        (files / f"{name}.toml").write_text(
            f'name = "{name}"\nmodel = "{THINGS}:mlp"\ndata = {{ name = "{THINGS}:data", seed = {number} }}\n'
            f'test = "{THINGS}:test"\nlabels = [0, 1, 2]\ndevice = "cpu"\n'
        )
        text = (DEPLOY / "potluck-participant.service").read_text()
        text = text.replace("participant.toml", f"{name}.toml").replace("potluck-participant", f"potluck-{name}")
        # The owner agrees beforehand here; in production by hand, once, into the same state folder.
        units[name].write_text(text.replace("--state-dir", "--yes --state-dir"))
    states = tmp_path / "states"
    states.mkdir()
    address = {"SERVER": f"127.0.0.1:{port}"}
    running = {name: Unit(path, files, states, **address) for name, path in units.items()}
    try:
        until = time.monotonic() + LONG
        while any(unit.process.poll() is None for unit in running.values()) and time.monotonic() < until:
            time.sleep(0.2)
        ended = {name: unit.process.poll() for name, unit in running.items()}
        assert ended == dict.fromkeys(running, 0), "\n".join(unit.log.read_text() for unit in running.values())
    finally:
        for unit in running.values():
            unit.end()
    assert History.load(states / "potluck-server" / "run").rounds == 2
    assert (states / "potluck-ann" / "consent.json").exists()
    assert sorted(path.name for path in files.iterdir()) == ["ann.toml", "ben.toml", "server.toml"]
