"""Reads a program that somebody exported, if it holds nothing but tensors and torch's own operations on them.

torch's reader trusts its files: it unpickles what they say is pickled, evaluates the text of a shape, and finds a
function by any name within torch. So everything in a file is looked at before, and what torch gets is an archive made
anew of what was looked at: words that name nothing but tensors, sizes, and operations of ``torch.ops.aten``.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from potluck.core.errors import DataError

PART = re.compile(
    r"[^/]+/(?P<kind>data/weights/weight_\d+|data/constants/tensor_\d+|data/(weights|constants)/model_\w+_config\.json|"
    r"data/sample_inputs/model\.pt|models/model\.json|archive_format|archive_version|byteorder|\.data/\w+)"
)
"""The parts of an archive that are read; others make it one that is not."""
WORD = re.compile(r"[\w.+-]*")
"""What any text in a program may be that is not looked at more closely: a name, a number, a version."""
OPERATION = re.compile(
    r"torch\.ops\.aten\.(?!from_file)\w+\.\w+|torch\.sym_\w+|math\.(trunc|ceil|floor)|"
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
)
"""What a program may compute with."""
TEXT = re.compile(r"[\w .,>+-]*")
"""What a text may be that an operation is given."""
SCOPE = "torch.ops.higher_order.wrap_with_set_grad_enabled"
"""What a part of a program may stand in: as of a model that computes without gradients."""
SIZE = re.compile(
    r"(?:Symbol\('[su]\d+'|\b(?:positive|nonnegative|integer)=(?:True|False)|\b(?:True|False)\b|\b[su]?\d+\b|"
    r"\b(?:Integer|Add|Mul|Pow|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|Eq|Ne|Le|Lt|Ge|Gt)\b|[-+*/(), <>=])*"
)
"""How the size of a tensor may be written where it depends on the number of inputs."""
SPEC_TYPES = {"builtins.tuple", "builtins.list", "builtins.dict", None}
"""What inputs and answers may be nested in."""


class UnsafeProgramError(DataError):
    """A program that holds more than tensors and operations on them."""


def read_program(path: Path) -> nn.Module:
    """The program in a file, as a module. Raises UnsafeProgramError for one that might do more than compute."""
    try:
        parts = _parts(path)
        return torch.export.load(io.BytesIO(_archive(parts))).module()
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as a torch program: {error}.") from error
    except UnsafeProgramError as error:
        raise UnsafeProgramError(
            f"{path} holds {error}, so it may do more than compute, and is not read. If you trust whoever made it: "
            f"torch.export.load({str(path)!r})."
        ) from None
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise DataError(f"{path} cannot be read as a torch program: {str(error)[:300]}") from error


def _parts(path: Path) -> dict[str, bytes]:
    """What is in the archive, looked at."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            match = PART.fullmatch(info.filename)
            if match is None or match["kind"] in found:
                raise UnsafeProgramError(f"the part {info.filename[:100]!r}")
            found[match["kind"]] = archive.read(info)
    for kind, data in found.items():
        if kind.endswith("_config.json"):
            _check_tensors(json.loads(data))
    _check_sample(found["data/sample_inputs/model.pt"])
    program = json.loads(found["models/model.json"])
    _strip(program)
    _check_words(program)
    found["models/model.json"] = json.dumps(program).encode()
    return found


def _archive(parts: Mapping[str, bytes]) -> bytes:
    """An archive of these parts, as torch reads it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for kind, data in parts.items():
            archive.writestr(f"model/{kind}", data)
    return made.getvalue()


def _check_tensors(config: Any) -> None:
    """Tensors are raw numbers, and nothing else is there."""
    for name, about in config["config"].items():
        if about["use_pickle"] is not False or not re.fullmatch(r"(weight|tensor)_\d+", about["path_name"]):
            raise UnsafeProgramError(f"{name[:100]!r}, which is no plain tensor")


def _check_sample(data: bytes) -> None:
    """Example inputs are tensors alone: torch would read others without care."""
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:
        raise UnsafeProgramError("example inputs that are more than tensors") from error


def _strip(program: Any) -> None:
    """Leaves out what is there for developers of torch: where a step came from, and guards, which are code."""
    program["guards_code"] = []
    program["graph_module"]["module_call_graph"] = [
        entry for entry in program["graph_module"]["module_call_graph"] if entry["fqn"] == ""
    ]
    for _, owner in _owners(program):
        if "metadata" in owner:
            owner["metadata"] = {}


def _owners(content: Any, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table in the content, with the key under which it stands."""
    if isinstance(content, dict):
        yield key, content
        for name, inner in content.items():
            yield from _owners(inner, name)
    elif isinstance(content, list):
        for inner in content:
            yield from _owners(inner, key)


def _check_words(program: Any) -> None:
    """Every text in the content is a plain word, an operation, a size, or how inputs are nested."""
    for _, owner in _owners(program):
        for name, value in owner.items():
            if not WORD.fullmatch(name):
                raise UnsafeProgramError(f"the name {name[:100]!r}")
            if name in ("as_operator", "as_custom_obj"):
                raise UnsafeProgramError(f"an argument that is code, {value!r}"[:200])
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and not _harmless(name, text):
                    raise UnsafeProgramError(f"{name} = {text[:100]!r}")


def _harmless(name: str, text: str) -> bool:
    if name == "target":
        return text == SCOPE or OPERATION.fullmatch(text) is not None
    if name == "as_string":  # as the equation of an einsum
        return TEXT.fullmatch(text) is not None
    if name == "expr_str":
        return SIZE.fullmatch(text) is not None
    if name in ("in_spec", "out_spec"):
        _check_spec(json.loads(text))
        return True
    return WORD.fullmatch(text) is not None


def _check_spec(spec: Any) -> None:
    """How inputs are nested: in tuples, lists, and dicts whose keys are names."""
    for _, owner in _owners(spec):
        if "type" in owner:
            keys = json.loads(owner["context"]) if owner["context"] else None
            names = keys or []
            if owner["type"] not in SPEC_TYPES or not isinstance(names, list):
                raise UnsafeProgramError(f"inputs in a {str(owner['type'])[:100]!r}")
            if not all(isinstance(name, str) and name.isidentifier() for name in names):
                raise UnsafeProgramError(f"inputs named {str(names)[:100]}")
