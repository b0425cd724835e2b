"""The same federation in Flower's simulation, whose workers are Ray's: the same history."""

from __future__ import annotations

import importlib.util
import json
import time

import pytest

from potluck.flower.processes import APP, Program, environment, flwr, free_port, wait_for_port
from tests.flower.programs import LONG, ROOT, THINGS, Site
from tests.tables import agree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `simulation`"),
]


def test_flowers_simulation_is_the_serial_engines(tmp_path):
    public = f'{{ source = "{THINGS}:public" }}'
    models = {"p0": f'"{THINGS}:cnn"', "p1": f'"{THINGS}:mlp"'}
    site = Site(tmp_path, '{ name = "CoFED", update_batch_size = 16 }', models, rounds=2, public=public)
    port, progress = free_port(), tmp_path / "progress.log"
    settings = environment(tmp_path / "flower", PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "config.toml").write_text(
        f'[superlink]\ndefault = "sim"\n[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    command = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-runtime-dependency-installation"]
    program = Program(command, settings, tmp_path / "superlink.log")
    try:
        wait_for_port(port, program)
        names = {"federation": tmp_path / "server.toml", "out": tmp_path / "run", "progress": progress}
        names["state"] = tmp_path / "states"
        config = " ".join(f"{name}={json.dumps(str(value))}" for name, value in names.items())
        nodes = "num-supernodes=2 client-resources-num-cpus=1"
        flwr(settings, "run", str(APP), "sim", "--run-config", config, "--federation-config", nodes)
        until, end = time.monotonic() + LONG, progress.with_suffix(".end")
        while not end.exists():
            assert time.monotonic() < until, program.tail(60)
            assert program.ended is None, program.tail(60)
            time.sleep(0.2)
        assert json.loads(end.read_text()) == {"error": ""}, program.tail(60)
    finally:
        program.stop()
    agree(site.rows(), site.serial(), 1e-12)
