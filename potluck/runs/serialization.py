"""State on disk: nested dicts and lists of tensors and plain values, as one safetensors and one JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save_file
from torch import Tensor

from potluck.core.errors import PotluckError

PLAIN = (str, int, float, bool, type(None))


class StateError(PotluckError, TypeError):
    """State that cannot be stored in a checkpoint."""


def pack(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Splits state into its tensors, named by their paths, and JSON that says where each belongs.

    A tensor that is held in several places, as a frozen base by many networks, is stored once.
    """
    tensors: dict[str, Tensor] = {}
    memory: set[int] = set()
    stored: dict[Hashable, str] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            start = value.untyped_storage().data_ptr()
            place = (start, value.storage_offset(), value.dtype, value.shape, value.stride()) if start else None
            name = stored.setdefault(place, f"{len(tensors)}:{path}") if place else f"{len(tensors)}:{path}"
            if name in tensors:
                return {"tensor": name}
            tensor = value.detach().cpu().contiguous()
            # safetensors refuses tensors that share memory.
            tensors[name] = tensor.clone() if tensor.untyped_storage().data_ptr() in memory else tensor
            memory.add(tensor.untyped_storage().data_ptr())
            return {"tensor": name}
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise StateError(f"State {path!r} has the key {key!r}; expected text.")
            return {"dict": {key: walk(item, f"{path}/{key}") for key, item in value.items()}}
        if isinstance(value, list | tuple):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [walk(item, f"{path}/{index}") for index, item in enumerate(value)]}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, PLAIN):
            return value
        raise StateError(
            f"State {path!r} is a {type(value).__name__}; expected tensors, text, numbers, or dicts and lists of them."
        )

    return tensors, walk(state, "")


def unpack(tensors: dict[str, Tensor], skeleton: Any) -> Any:
    """The state that ``pack`` split."""
    if not isinstance(skeleton, dict):
        return skeleton
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {key: unpack(tensors, item) for key, item in content.items()}
    items = [unpack(tensors, item) for item in content]
    return items if kind == "list" else tuple(items)


def as_text(state: Any, most: int) -> str | None:
    """State without tensors as JSON of at most so many characters; None for any other. ``from_text`` reads it."""
    tensors, skeleton = pack(state)
    text = "" if tensors else json.dumps(skeleton, allow_nan=False)
    return text if 0 < len(text) <= most else None


def from_text(text: str) -> Any:
    """What ``as_text`` wrote, as new objects."""
    return unpack({}, json.loads(text))


def save_state(path: Path, state: Any) -> None:
    """Writes state to one file: its tensors, and the JSON that says where each belongs as one more of them."""
    tensors, skeleton = pack(state)
    text = torch.frombuffer(bytearray(json.dumps(skeleton, allow_nan=False).encode()), dtype=torch.uint8)
    save_file({**tensors, "skeleton": text}, path)


def read_state(path: Path) -> Any:
    """Reads what ``save_state`` wrote. The file is not mapped: it may be written anew while its tensors are in use."""
    tensors = load(path.read_bytes())
    return unpack(tensors, json.loads(tensors.pop("skeleton").numpy().tobytes()))
