"""Programs are read if they hold nothing but tensors and operations on them."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import pytest
import torch
from torch import nn

from potluck.core.errors import DataError
from potluck.export.program_file import UnsafeProgramError, read_program


class Several(nn.Module):
    """Two inputs by name, and a part that computes without gradients."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, ids, mask):
        with torch.no_grad():
            scaled = ids / 2
        return self.layer(scaled.reshape(ids.shape[0], 4)) * mask


@pytest.fixture
def program(tmp_path):
    """A program on disk."""
    rows = {0: torch.export.Dim("rows")}
    kwargs = {"ids": torch.zeros(3, 2, 2), "mask": torch.ones(3, 1)}
    made = torch.export.export(Several(), (), kwargs, dynamic_shapes=dict.fromkeys(kwargs, rows))
    torch.export.save(made, tmp_path / "p.pt2")
    return tmp_path / "p.pt2", made


def changed(path, part, change):
    """The archive with one part changed; what it is called there does not matter."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in parts if name.endswith(part))
    parts[name] = change(parts[name])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def in_json(change):
    """Changes what a JSON part holds."""

    def changed(data):
        content = json.loads(data)
        change(content)
        return json.dumps(content).encode()

    return changed


def test_a_program_is_read_and_computes_the_same(program):
    path, made = program
    x = {"ids": torch.randn(9, 2, 2), "mask": torch.ones(9, 1)}
    assert torch.equal(read_program(path)(**x), made.module()(**x))


class Evil:
    def __reduce__(self):
        return print, ("evil",)


def pickled(_):
    return pickle.dumps(Evil())


def target(name):
    def change(content):
        content["graph_module"]["graph"]["nodes"][-1]["target"] = name

    return in_json(change)


def sized(text):
    def change(content):
        content["range_constraints"] = {text: {"min_val": 0, "max_val": None}}

    return in_json(change)


def expression(text):
    def change(content):
        def walk(part):
            if isinstance(part, dict):
                if "expr_str" in part:
                    part["expr_str"] = text
                for inner in part.values():
                    walk(inner)
            elif isinstance(part, list):
                for inner in part:
                    walk(inner)

        walk(content)

    return in_json(change)


def renamed(content):
    content["graph_module"]["graph"]["nodes"][-1]["name"] = "x\nprint('evil')\ny"


def in_spec(content):
    entry = content["graph_module"]["module_call_graph"][0]
    entry["signature"]["in_spec"] = json.dumps([1, {"type": "evil.Thing", "context": "null", "children_spec": []}])


def guards(content):
    content["guards_code"] = ["print('evil')"]


def picklable(content):
    next(iter(content["config"].values()))["use_pickle"] = True


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("sample_inputs/model.pt", pickled, "example inputs that are more than tensors"),
        ("model_weights_config.json", in_json(picklable), "which is no plain tensor"),
        ("models/model.json", target("torch.os.system"), "target = 'torch.os.system'"),
        ("models/model.json", target("torch.hub.load"), "target = 'torch.hub.load'"),
        ("models/model.json", target("torch.ops.aten.from_file.default"), "from_file"),
        ("models/model.json", target("_operator.methodcaller"), "methodcaller"),
        ("models/model.json", expression("__import__('os').getpid()"), "expr_str = "),
        ("models/model.json", sized("print('evil')"), "the name"),
        ("models/model.json", in_json(renamed), "name = "),
        ("models/model.json", in_json(in_spec), "inputs in a 'evil.Thing'"),
    ],
)
def test_whatever_might_do_more_is_refused(part, change, why, program, capsys):
    path = changed(program[0], part, change)
    with pytest.raises(UnsafeProgramError, match=r"may do more than compute.*torch\.export\.load") as raised:
        read_program(path)
    assert why in str(raised.value)
    assert "evil" not in capsys.readouterr().out


def test_guards_are_left_out_since_they_are_code(program, capsys):
    path = changed(program[0], "models/model.json", in_json(guards))
    read_program(path)(ids=torch.zeros(3, 2, 2), mask=torch.ones(3, 1))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["p/data/weights/evil.pt", "p/../../outside", "p/code/evil.py", "q/models/model.json"])
def test_parts_of_other_kinds_are_refused(name, program):
    with zipfile.ZipFile(program[0], "a") as archive:
        archive.writestr(name, b"{}")
    with pytest.raises(UnsafeProgramError, match="the part"):
        read_program(program[0])


@pytest.mark.parametrize("data", [b"", b"PK", b"no archive", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_program_is_told(data, tmp_path):
    (tmp_path / "p.pt2").write_bytes(data)
    with pytest.raises(DataError, match="cannot be read as a torch program"):
        read_program(tmp_path / "p.pt2")
    with pytest.raises(DataError, match="cannot be read as a torch program"):
        read_program(tmp_path / "nowhere.pt2")


def test_an_archive_that_lacks_a_part_is_told(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("p/models/model.json", b"{}")
    (tmp_path / "p.pt2").write_bytes(made.getvalue())
    with pytest.raises(DataError, match="cannot be read as a torch program"):
        read_program(tmp_path / "p.pt2")
