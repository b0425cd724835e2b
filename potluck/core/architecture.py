"""Whether two networks have the same architecture: the one notion of it.

Stacking, admission and storage compare with ``==``, weight sharing compares the ``layout``, and files on disk are named
by the ``digest``.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

Layout = dict[str, list[str | int]]
"""Each entry's type and shape in plain values, e.g. ``{"fc.bias": ["float32", 10]}``."""


class Architecture:
    """What a network is, apart from the values of its weights.

    Args:
        module: the network. It is inspected once, here; a module that changes afterwards needs a new Architecture.

    Two are equal when the code of one, run on the weights of the other, is that other: the same submodules of the same
    classes, with equal plain attributes and tensors of equal shapes. An attribute that is not plain makes a module
    equal to no other, which costs speed and never correctness. Equal ones are one object, as long as it is referenced,
    so that comparing two costs nothing however many networks there are.
    """

    layout: Layout
    structure: Hashable
    _held: ClassVar[WeakValueDictionary[Hashable, Architecture]] = WeakValueDictionary()

    def __new__(cls, module: nn.Module) -> Architecture:
        layout, structure = layout_of(module.state_dict()), _structure(module)
        key = (structure, tuple((name, *entry) for name, entry in layout.items()))
        found = cls._held.get(key)
        if found is None:
            found = super().__new__(cls)
            found.layout, found.structure = layout, structure
            cls._held[key] = found
        return found

    def averages_with(self, other: Architecture) -> bool:
        """Whether the weights of both can be averaged entry by entry."""
        return self.layout == other.layout

    @cached_property
    def digest(self) -> str:
        """A checksum that is the same in every process, of names, types, shapes, classes and plain attributes."""
        return hashlib.sha256(json.dumps([self.layout, _stable(self.structure)]).encode()).hexdigest()


def layout_of(entries: Mapping[str, Tensor]) -> Layout:
    """The layout of named tensors."""
    return {name: [str(entry.dtype).removeprefix("torch."), *entry.shape] for name, entry in entries.items()}


def difference(found: Mapping[str, Sequence[str | int]], expected: Mapping[str, Sequence[str | int]]) -> str:
    """The first entry in which two layouts differ, for an error message."""
    odd = next(name for name in [*expected, *found] if found.get(name) != expected.get(name))
    return f"{odd[:100]} is {_entry(found.get(odd))}; expected {_entry(expected.get(odd))}"


def _entry(entry: Sequence[str | int] | None) -> str:
    return "missing" if entry is None else f"{entry[0]} of shape {tuple(entry[1:])}"


def spec(tensor: Tensor) -> Hashable:
    """A tensor's shape and type: what must be equal for tensors to be stacked."""
    return tuple(tensor.shape), tensor.dtype


def token(value: Any) -> Hashable:
    """Something hashable that is equal for equal plain values, and for any other object only for that object."""
    if isinstance(value, (*_PLAIN, *_CODE)):
        return value
    if isinstance(value, list | tuple):
        return (type(value), *(token(item) for item in value))
    if isinstance(value, Mapping):
        if not value:
            return ()
        return tuple(sorted(((str(name), token(item)) for name, item in value.items()), key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return frozenset(token(item) for item in value)
    return Itself(value)


def _structure(module: nn.Module) -> Hashable:
    parts: list[Hashable] = []
    for path, part in module.named_modules():
        attributes = tuple((n, token(v)) for n, v in sorted(vars(part).items()) if n not in _EMPTY)
        tensors = (*part._parameters.items(), *part._buffers.items())
        parts.append((path, type(part), attributes, tuple((n, _tensor(t)) for n, t in tensors)))
    return tuple(parts)


def _tensor(tensor: Tensor | None) -> Hashable:
    return None if tensor is None else (spec(tensor), tensor.requires_grad)


# What every module has: containers, which are inspected separately, and the mode, which is set for each job.
_EMPTY = {name for name in vars(nn.Module()) if not name.endswith("hooks")}

_PLAIN = (str, int, float, bool, bytes, type(None), torch.dtype, torch.device, type)
_CODE = (types.FunctionType, types.BuiltinFunctionType)


@dataclass(frozen=True, eq=False)
class Itself:
    """An object that is equal to itself alone. It is referenced here, so that no other object can get its address.

    Args:
        value: the object.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _stable(value: Any) -> Any:
    """A structure as JSON can hold it, without anything that differs between processes."""
    if isinstance(value, Itself):
        return _stable(type(value.value))
    if isinstance(value, (type, *_CODE)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, frozenset):
        return sorted(json.dumps(_stable(item)) for item in value)
    if isinstance(value, tuple):
        return [_stable(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
