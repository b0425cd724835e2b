"""A participant's way of answering as a program that plain torch loads (``torch.export``), and as ONNX."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_map

from potluck.core.errors import ModelError, SettingsError, how_to_install
from potluck.core.inputs import call_with, size_of
from potluck.export.answering import AnsweringModule, input_names

ROWS = 3
"""How many rows a program is traced with: any number but 0 and 1, which torch takes for special ones."""
ALIKE = {"rtol": 1e-4, "atol": 1e-5}
"""How close the answers of a program must be to the participant's own."""


class AnsweringProgram:
    """A participant's way of answering, traced.

    Args:
        module: the way of answering.
        x: some inputs, as they are stored.
        owner: the participant's name, for errors.

    Raises ModelError where it cannot be traced for any number of inputs.
    """

    def __init__(self, module: AnsweringModule, x: Any, owner: str) -> None:
        self._owner = owner
        few = tree_map(lambda part: part.new_zeros(ROWS, *part.shape[1:]), x)  # a program holds what it was traced with
        args, kwargs = call_with(few)
        self._names = input_names(x)
        rows = torch.export.Dim("rows")
        shapes = {name: {0: rows} for name in self._names}
        try:
            with _quietly():
                self.exported = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
        except Exception as error:  # whatever a stranger's code does that cannot be traced
            raise ModelError(
                f"{owner}: what answers cannot be exported: {_first_lines(error)} Where code decides by the numbers "
                f"that pass through it, or by len(x), no program for all inputs can be made; expected torch's own "
                f"operations, such as torch.where and x.shape[0]."
            ) from error
        _leave_out_what_answers_nothing(self.exported)
        for node in self.exported.graph.nodes:
            node.meta.pop("stack_trace", None)  # lines of the owner's code, and where they are on its machine

    def __call__(self, x: Any) -> Tensor:
        """The answers to inputs."""
        args, kwargs = call_with(x)
        with torch.no_grad():
            found: Tensor = self.exported.module()(*args, **kwargs)
        return found

    def check(self, x: Any, expected: Tensor) -> None:
        """Raises ModelError unless the program answers these inputs as expected, all at once and the first alone."""
        for count in {1, size_of(x)}:
            found = self(tree_map(lambda part, count=count: part[:count], x))
            if not torch.allclose(found, expected[:count].to(found.dtype), **ALIKE, equal_nan=True):
                apart = float((found - expected[:count]).abs().max())
                raise ModelError(
                    f"{self._owner}: the exported program answers otherwise than the model, by up to {apart:.2g}; what "
                    f"answers cannot be exported."
                )

    @property
    def constants(self) -> list[Tensor]:
        """What it answers with besides weights and buffers."""
        names = self.exported.graph_signature.lifted_tensor_constants
        return [entry for name in names if isinstance(entry := self.exported.constants[name], Tensor)]

    def weights(self) -> dict[str, Tensor]:
        """Every weight and buffer, and what the method answers with besides, by name.

        Where there is one network, its names are those of its own ``state_dict``.
        """
        networks = {name.split(".")[1] for name in self.exported.state_dict}
        found = {}
        for name, entry in {**self.exported.state_dict, **self.exported.constants}.items():
            if isinstance(entry, Tensor):
                short = name.removeprefix("networks.")
                found[short.partition(".")[2] if len(networks) == 1 and short != name else short] = entry
        return {name: entry.detach().clone().contiguous() for name, entry in found.items()}

    def write(self, program: Path, weights: Path) -> None:
        """Writes the program, and its weights beside it."""
        with _quietly():
            torch.export.save(self.exported, program)
        save_file(self.weights(), weights)

    def write_onnx(self, path: Path) -> None:
        """Writes the same as ONNX."""
        try:
            import onnxscript  # noqa: F401, which torch writes ONNX with
        except ImportError as error:
            raise SettingsError(f"ONNX is written with onnxscript: {how_to_install('onnx')}") from error
        try:
            with _quietly():
                plain = self.exported.run_decompositions({**torch.export.default_decompositions(), **_FOR_ONNX})
                torch.onnx.export(
                    plain,
                    (),
                    str(path),
                    input_names=self._names,
                    output_names=["answers"],
                    dynamo=True,
                    verbose=False,
                    external_data=False,
                )
        except Exception as error:
            raise ModelError(f"{self._owner}: what answers cannot be written as ONNX: {_first_lines(error)}") from error


def _leave_out_what_answers_nothing(exported: torch.export.ExportedProgram) -> None:
    """Takes out what was computed on the way and is in no answer, with the numbers that only it used.

    A method may have looked at samples to find its way about a network: those are data, and do not leave with it.
    """
    graph, specs = exported.graph, exported.graph_signature.input_specs
    for node in reversed(graph.nodes):
        checks = getattr(node.target, "__name__", "").startswith("_assert")
        if node.op in ("call_function", "get_attr") and not node.users and not checks:
            graph.erase_node(node)
    unused = {node.name for node in graph.nodes if node.op == "placeholder" and not node.users}
    for spec in [spec for spec in specs if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in unused]:
        specs.remove(spec)
        del exported.constants[str(spec.target)]
        graph.erase_node(next(node for node in graph.nodes if node.name == spec.arg.name))
    exported.graph_module.delete_all_unused_submodules()
    exported.graph_module.recompile()


def _distances(some: Tensor, others: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """``torch.cdist`` in operations that ONNX has."""
    return (some.unsqueeze(-2) - others.unsqueeze(-3)).abs().pow(p).sum(dim=-1).pow(1 / p)


_FOR_ONNX = {torch.ops.aten._cdist_forward.default: _distances}


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch says about itself while it traces."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _first_lines(error: BaseException) -> str:
    """What torch says, without its advice to developers of torch."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:2])[:400]
    return text if text.endswith((".", "!", "?")) else f"{text}."
