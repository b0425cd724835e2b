"""Real federations on loopback: SuperLink, SuperNodes, and a process for each participant. One result."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.commands import potluck
from tests.flower.programs import LONG, ROOT, THINGS, Site
from tests.tables import agree

CNN = f'"{THINGS}:cnn"'
PUBLIC = f'{{ source = "{THINGS}:public" }}'


def plays(site):
    """Serves and joins, to the end, and compares with the serial engine."""
    names = [path.stem for path in sorted(site.folder.glob("p*.toml"))]
    with site:
        site.serve()
        site.join(*names)
        site.wait("serve", *names)
    agree(site.rows(), site.serial(), 1e-12)


def test_fedavg_is_the_serial_engines(tmp_path):
    plays(Site(tmp_path, '"FedAvg"', {"p0": CNN, "p1": CNN}, rounds=1))


def test_cofed_with_different_kinds_of_models_is_the_serial_engines(tmp_path):
    models = {"p0": CNN, "p1": f'"{THINGS}:mlp"', "p2": '"sklearn.tree:DecisionTreeClassifier"'}
    site = Site(tmp_path, '{ name = "CoFED", update_batch_size = 16 }', models, rounds=1, public=PUBLIC)
    plays(site)
    said = site.said("p2")
    assert "for each public sample the label that its model gives it, or none; or the value (votes)" in said
    assert "Your data, your model's code and your plan stay here, and so do its weights." in said
    assert said.index("Your machine will send") < said.index("sent ")
    for name, files in {"p0": {"model.pt2", "weights.safetensors"}, "p2": {"model.skops"}}.items():
        out = tmp_path / f"model-{name}"
        potluck("export", tmp_path / f"state-{name}", "--out", out)
        assert {path.name for path in out.iterdir()} == {*files, "potluck.json", "README.md"}
        facts = json.loads((out / "potluck.json").read_text())
        last = [row for row in site.rows() if row["participant"] == name][-1]
        assert facts["metrics"]["accuracy"] == pytest.approx(last["accuracy"])


DEEP = {f"p{i}": f'{{ name = "{THINGS}:deep_cnn", blocks = {1 + i % 2} }}' for i in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        '{ name = "DraftFed", samples = 20 }',
        '{ name = "PerHeFed", intra = 0.5 }',
        '{ name = "MHAT", server_plan = { lr = 0.05, epochs = 2 } }',
        '{ name = "FedIN", pairs = 6 }',
        '{ name = "CoFED", update_batch_size = 16 }',
    ],
)
def test_every_method_is_the_serial_engines(method, tmp_path):
    public = "" if "PerHeFed" in method or "FedIN" in method else PUBLIC
    plays(Site(tmp_path, method, DEEP, rounds=2, public=public))


NARROW = {f"p{i}": f'{{ name = "{THINGS}:cnn", width = {width} }}' for i, width in enumerate((4, 2, 4))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "models"),
    [
        ('{ name = "FedProto", weight = 0.1 }', DEEP),
        ('{ name = "FML" }', DEEP),
        ('{ name = "HeteroFL" }', NARROW),
        ('{ name = "FedSA-LoRA", rank = 2, base = "sent", head = "average" }', {"p0": CNN, "p1": CNN, "p2": CNN}),
    ],
)
def test_methods_of_the_field_are_the_serial_engines(method, models, tmp_path):
    """Prototypes, a second model, windows of a wider network, and adapters."""
    plays(Site(tmp_path, method, models, rounds=2))


@pytest.mark.slow
def test_fedavg_over_several_rounds_is_the_serial_engines(tmp_path):
    plays(Site(tmp_path, '"FedAvg"', {"p0": CNN, "p1": CNN, "p2": CNN}, rounds=3, participation=0.67))


@pytest.mark.slow
def test_the_example_of_three_organisations_runs():
    script = ROOT / "examples" / "three_organisations" / "run.py"
    streams = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    done = subprocess.run([sys.executable, str(script)], timeout=2 * LONG, cwd=ROOT, **streams)
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.splitlines()[-6:]
    assert [line.split()[0] for line in table if "%" in line] == ["hospital", "laboratory", "insurer"]
    assert "Everything is stopped" in done.stdout
    assert "Declined the invitation" in done.stdout
    assert "The laboratory was killed" in done.stdout
    assert done.stdout.count("Wrote") == 3
