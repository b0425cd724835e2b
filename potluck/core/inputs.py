"""What a model reads of a sample: one tensor, or several with names; and the one rule of how stored inputs reach it.

Stored inputs are flat columns: ``x``, or ``x.ids`` and ``x.mask``. A model is called with what ``nested`` makes of
them: the tensor, or a dict (keyword arguments), or a tuple (in the order given).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from potluck.core.errors import DataError, ModelError

Inputs = Tensor | dict[str, Tensor] | tuple[Tensor, ...]
"""A batch of inputs as a module is called with it."""

Batch = dict[str, Any]
"""What an objective sees of the data: the columns of a few samples, with the inputs under ``x``."""

NAME = "x"
_PART = f"{NAME}."


@dataclass(frozen=True)
class InputKind:
    """The shape and type of one input of a sample. Types of one kind of number may differ between participants.

    Args:
        shape: its shape; None for a table, whose columns say more.
        numbers: "bytes" (which are scaled where they are pictures), "integers", "floats", or what else it holds.
    """

    shape: tuple[int, ...]
    numbers: str = "floats"

    @classmethod
    def of(cls, column: Tensor) -> InputKind:
        """That of a stored column."""
        return cls(tuple(column.shape[1:]), numbers_of(column.dtype))

    def __str__(self) -> str:
        return f"shape {self.shape}" + (f" in {self.numbers}" if self.numbers not in ("integers", "floats") else "")


InputKinds = dict[str, InputKind]
"""Those of a sample's inputs by name."""


def numbers_of(dtype: torch.dtype) -> str:
    """The kind of number that a type holds."""
    if dtype == torch.uint8:
        return "bytes"
    return "floats" if dtype.is_floating_point else "integers"


def alike(some: InputKinds, others: InputKinds) -> bool:
    """Whether a model that reads the ones can read the others: equal shapes, and bytes where the others are bytes."""
    return describe(some) == describe(others)


def describe(kinds: InputKinds) -> str:
    """Inputs in words: ``shape (1, 28, 28) in bytes``, or ``ids: shape (16,), mask: shape (16,)``."""
    if set(kinds) == {NAME}:
        return str(kinds[NAME])
    return ", ".join(f"{name.removeprefix(_PART)}: {kind}" for name, kind in sorted(kinds.items()))


def shapes(kinds: InputKinds) -> Any:
    """What a builder of models gets as ``input_shape``: the shape of the input, or a dict of them by name."""
    if set(kinds) == {NAME}:
        return kinds[NAME].shape
    return {name.removeprefix(_PART): kind.shape for name, kind in kinds.items()}


def is_input(name: str) -> bool:
    """Whether a column holds inputs."""
    return name == NAME or name.startswith(_PART)


def flat(inputs: Any) -> dict[str, Tensor]:
    """Inputs as columns."""
    if isinstance(inputs, Mapping):
        return {f"{_PART}{name}": tensor for name, tensor in inputs.items()}
    if isinstance(inputs, tuple | list):
        return {f"{_PART}{position}": tensor for position, tensor in enumerate(inputs)}
    return {NAME: inputs}


def nested(columns: Mapping[str, Tensor]) -> Batch:
    """Columns with the inputs under ``x``, as a model is called with them."""
    if NAME in columns:
        return columns if isinstance(columns, dict) else dict(columns)
    inputs = {name.removeprefix(_PART): column for name, column in columns.items() if is_input(name)}
    rest = {name: column for name, column in columns.items() if not is_input(name)}
    if inputs and all(name.isdigit() for name in inputs):
        return {NAME: tuple(inputs[name] for name in sorted(inputs, key=int)), **rest}
    return {NAME: inputs, **rest}


def moved(inputs: Any, device: torch.device) -> Any:
    """Inputs on a device."""
    return inputs.to(device) if isinstance(inputs, Tensor) else tree_map(lambda part: part.to(device), inputs)


def size_of(batch: Batch) -> int:
    """How many samples there are in a batch."""
    return len(tree_leaves(batch)[0])


def advice_on(inputs: Any) -> str:
    """What to do about inputs that a module cannot read, where their type may be the reason."""
    types = {leaf.dtype for leaf in tree_leaves(inputs) if not leaf.is_floating_point()}
    if not types:
        return ""
    named = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in types))
    return (
        f". Inputs of {named} reach a module as they are: give measurements as floats (x.astype('float32')), indices "
        f"as int64, and flat bytes with Plan(scale='bytes')."
    )


def as_model_reads(inputs: Any, dtype: torch.dtype, scale: str = "pictures") -> Any:
    """Stored inputs as a module reads them. This is all that happens to them:

    - Floats become floats of the network's type.
    - Bytes (uint8) are divided by 255 where they are pictures: two or more axes for each sample. ``scale`` is
      "pictures" (this rule), "bytes" (all bytes are divided) or "never".
    - Whatever else is a number, such as an index of a token, and a truth value of a mask, stays as it is.
    """
    if not isinstance(inputs, Tensor):
        return tree_map(lambda part: as_model_reads(part, dtype, scale), inputs)
    if inputs.dtype == torch.uint8 and (scale == "bytes" or (scale == "pictures" and inputs.ndim > 2)):
        return inputs.to(dtype) / 255
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def check_finite(column: Tensor, owner: str) -> None:
    """Raises DataError where inputs hold NaN or infinity, which no network can read."""
    if column.is_floating_point() and not bool(torch.isfinite(column).all()):
        bad = int((~torch.isfinite(column.reshape(len(column), -1)).all(dim=1)).sum())
        raise DataError(
            f"{owner}: {bad} of {len(column)} samples hold NaN or infinity, which a torch module cannot read. Clean or "
            f"drop them first, or fill them with Participant(preprocess=SimpleImputer())."
        )


def call_with(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments a module is called with: several inputs by their names, or in their order."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, tuple | list) else ((inputs,), {})


def logits_of(output: Any) -> Tensor:
    """The logits in what a module returns: a tensor, an object with ``.logits``, a dict with "logits", or a tuple."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping) and isinstance(output.get("logits"), Tensor):
        return output["logits"]  # type: ignore[no-any-return]
    if isinstance(found := getattr(output, "logits", None), Tensor):
        return found
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    what = f"a {type(output).__name__}" + (f" with {sorted(output)}" if isinstance(output, Mapping) else "")
    raise ModelError(
        f"The model returns {what}; expected its logits: a tensor, an object with `.logits`, a dict with 'logits', "
        f"or a tuple that begins with them."
    )


def kinds_key(kinds: InputKinds) -> Hashable:
    """What is equal for inputs of one kind, the shape of each."""
    return tuple(sorted((name, kind.shape, kind.numbers) for name, kind in kinds.items()))
