"""Programs: traced for any number of inputs, tried, and written without anybody's data or code."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import potluck
from potluck.core.errors import ModelError
from potluck.export.answering import AnsweringModule, networks_of
from potluck.export.program import AnsweringProgram
from potluck.methods import FedProto, Local
from tests.export.models import after_a_run, wide_mlp


def program_of(me):
    networks = networks_of(me, me.answering, me.data.inputs())
    return AnsweringProgram(AnsweringModule(me, me.answering, networks, me.data.x), me.data.x, me.name)


def answers(me, rows):
    return torch.from_numpy(me.predict_proba(me.test.x[:rows].numpy()))


@pytest.mark.parametrize("method", [Local(), FedProto()])
def test_it_answers_any_number_of_inputs(method):
    me = after_a_run(method)[0]
    program = program_of(me)
    for rows in (1, 2, 7, 30):
        torch.testing.assert_close(program(me.test.x[:rows]), answers(me, rows))


def test_weights_have_the_names_of_the_network(tmp_path):
    me = after_a_run(FedProto())[0]
    program = program_of(me)
    program.write(tmp_path / "p.pt2", tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    own = me.model.state_dict()
    assert set(own) <= set(found)
    assert all(torch.equal(found[name], own[name]) for name in own)
    beside = [entry for name, entry in found.items() if name not in own]
    assert any(torch.equal(entry, me.state["prototypes"].to(entry.dtype)) for entry in beside if entry.ndim == 2)


def test_several_networks_are_told_apart():
    me = after_a_run(potluck.methods.FedMRL(common="mlp"), *[wide_mlp] * 2)[0]
    assert {name.partition(".")[0] for name in program_of(me).weights()} == {"own", "common", "map"}


def test_no_sample_leaves_with_it(tmp_path):
    """FedMRL looks at samples to find its way about the common network."""
    me = after_a_run(potluck.methods.FedMRL(common="mlp"), *[wide_mlp] * 2)[0]
    program = program_of(me)
    program.write(tmp_path / "p.pt2", tmp_path / "w.safetensors")
    written = (tmp_path / "p.pt2").read_bytes()
    assert next(iter(me.model.state_dict().values())).numpy().tobytes() in written
    for sample in me.thing("data").x.float():
        assert sample.numpy().tobytes() not in written


def test_no_line_of_code_leaves_with_it(tmp_path):
    program_of(after_a_run(Local())[0]).write(tmp_path / "p.pt2", tmp_path / "w")
    assert b"tests/tables.py" not in (tmp_path / "p.pt2").read_bytes()


class Deciding(nn.Module):
    """A network whose code decides by the numbers that pass through."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(36, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.layer(x) if x.sum() > 0 else -self.layer(x)


class Counting(nn.Module):
    """A network whose code uses the number of inputs as a number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(36, 3)

    def forward(self, x):
        return self.layer(x.reshape(len(x), 36))


@pytest.mark.parametrize("model", [Deciding, Counting])
def test_what_cannot_be_traced_is_told(model):
    me = after_a_run(Local(), model())[0]
    with pytest.raises(ModelError, match=r"p0: what answers cannot be exported: .*or by len\(x\)"):
        program_of(me)


def test_a_program_that_answers_otherwise_is_refused():
    me = after_a_run(Local())[0]
    with pytest.raises(ModelError, match="answers otherwise than the model, by up to 0"):
        program_of(me).check(me.test.x, answers(me, 30) + 0.1)


@pytest.mark.parametrize("method", [Local(), FedProto()])
def test_onnx_answers_the_same(method, tmp_path):
    import onnxruntime

    me = after_a_run(method)[0]
    program_of(me).write_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    (taken,) = session.get_inputs()
    for rows in (1, 9):
        x = me.test.x[:rows].numpy()
        np.testing.assert_allclose(session.run(None, {taken.name: x})[0], answers(me, rows), rtol=1e-4, atol=1e-5)
    assert taken.name == "x"
