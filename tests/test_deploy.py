"""What is in deploy/ fits Potluck: options, signals, folders and metrics are those that there are.

The units are tried in tests/integration/flower/test_units.py; `make lint` reads the container file.
"""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from potluck.cli.join import DECLINED
from potluck.core.interruptions import INTERRUPTED, PATIENCE
from potluck.flower.prometheus import exposition
from tests.cli.commands import potluck
from tests.flower.statuses import standing

ROOT = Path(__file__).parents[1]
UNITS = sorted((ROOT / "deploy").glob("*.service"))
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
KUBERNETES = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())}
JOB = KUBERNETES["Job"]["spec"]["template"]["spec"]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text())


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_hold_what_they_need(path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    command = unit["Service"]["ExecStart"].split()
    assert command[0].startswith("/")
    assert command[1] in ("serve", "join")
    assert unit["Service"]["KillSignal"] == "SIGINT"
    assert unit["Service"]["User"] == "potluck"
    state = unit["Service"]["StateDirectory"]
    assert f"%S/{state}" in unit["Service"]["ExecStart"], "it writes where it may"
    assert str(DECLINED) in unit["Service"]["RestartPreventExitStatus"].split() or "serve" in command
    assert str(INTERRUPTED) in unit["Service"]["SuccessExitStatus"].split()
    assert float(unit["Service"]["TimeoutStopSec"]) > PATIENCE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(path, tmp_path):
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", path.read_text())
    (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / path.name)], capture_output=True, text=True, timeout=60
    )
    assert path.name not in done.stderr, done.stderr


def test_the_container_file_finds_what_it_copies_and_takes_torch_first():
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    sources = [source for step, rest in steps if step == "COPY" for source in rest.split()[:-1]]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    install = next(rest for step, rest in steps if step == "RUN" and "pip" in rest)
    assert install.index(" torch") < install.index("[flower,monitoring]")


@pytest.mark.parametrize(
    "command",
    [
        *(["potluck", *each["command"]] for each in COMPOSE.values()),
        ["potluck", *JOB["containers"][0]["args"]],
        *(line.split() for path in UNITS for line in re.findall(r"ExecStart=(.*)", path.read_text())),
    ],
    ids=" ".join,
)
def test_every_command_has_only_options_that_there_are(command):
    known = potluck(command[1], "--help").output
    options = [word for word in command if word.startswith("--")]
    assert options
    assert all(re.search(rf"{option}\b", known) for option in options)


def test_containers_can_write_in_their_volumes_alone_and_are_stopped_in_order():
    for service in COMPOSE.values():
        assert service["read_only"]
        assert service["stop_signal"] == "SIGINT"
        assert float(service["stop_grace_period"].removesuffix("s")) > PATIENCE
        assert [volume.endswith(":ro") for volume in service["volumes"]] == [True, False]
    (container,) = JOB["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert JOB["terminationGracePeriodSeconds"] > PATIENCE
    assert [(mount["mountPath"], mount.get("readOnly", False)) for mount in container["volumeMounts"]] == [
        ("/etc/potluck", True),
        ("/work", False),
        ("/tmp", False),
    ]


def test_the_job_is_asked_where_the_monitor_answers():
    (container,) = JOB["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"0.0.0.0:{ports['monitor']}" in container["args"]
    probed = {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")}
    assert probed == {"/status", "/health"}
    assert KUBERNETES["Service"]["spec"]["selector"].items() <= (
        KUBERNETES["Job"]["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_dashboard_asks_for_what_the_monitor_tells():
    told = set(re.findall(r"^(potluck_\w+)", exposition([standing(score=0.5, metric="rmse")]).decode(), re.MULTILINE))
    told |= {"potluck_left_seconds", "potluck_participant_round"}  # as soon as they are known
    asked = {
        name
        for panel in DASHBOARD["panels"]
        for t in panel["targets"]
        for name in re.findall(r"potluck_\w+", t["expr"])
    }
    assert asked
    assert asked <= told
    places = [(p["gridPos"]["x"], p["gridPos"]["y"], p["gridPos"]["w"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert all(x + width <= 24 for x, _, width in places)
