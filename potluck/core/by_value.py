"""Whether two functions or objects that users wrote do the same: compared by what they are made of.

Two lambdas from one line of code, two objects of one class with equal attributes, two modules with equal buffers are
equal, though no two of them are the same object. Beside ``architecture.token``, which compares by identity.
"""

from __future__ import annotations

import enum
import hashlib
import types
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from potluck.core.architecture import Itself

_PLAIN = (str, int, bool, bytes, type(None), torch.dtype, torch.device, types.EllipsisType, enum.Enum)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
"""What every module has, mostly empty."""

_NAMED = (type, types.ModuleType)
_DATA = (*_PLAIN, float, complex, list, tuple, dict, set, frozenset, Tensor, np.ndarray, np.generic)


@dataclass(frozen=True)
class Value:
    """Something as it compares with others: equal to what is made of equal parts.

    Args:
        parts: what it is made of.
        odd: the names of the kinds of those parts that are equal to themselves alone; empty where there are none.
    """

    parts: Hashable
    odd: tuple[str, ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        return self._hash  # of many nested parts, and asked for often

    @cached_property
    def _hash(self) -> int:
        return hash(self.parts)


def value_of(thing: Any) -> Value:
    """Type and attributes of an object; of a function its code, defaults, closure, and the data that it reads."""
    walk = _Walk()
    token = walk.token(thing)
    return Value(token, tuple(dict.fromkeys(walk.odd)))


@dataclass
class _Walk:
    """A way through the parts of something, each of them once.

    Args:
        odd: what could not be compared so far.
        seen: the address of each part → its place; the parts themselves are kept, so that addresses stay theirs.
    """

    odd: list[str] = field(default_factory=list)
    seen: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def token(self, thing: Any) -> Hashable:
        if isinstance(thing, _PLAIN):
            return type(thing), thing
        if isinstance(thing, _NAMED):
            return thing
        if isinstance(thing, float | complex):
            return type(thing), repr(thing)  # which tells 0.0 from -0.0, and NaN is itself
        if id(thing) in self.seen:
            return "seen", self.seen[id(thing)][0]
        self.seen[id(thing)] = len(self.seen), thing
        try:
            return type(thing), self._parts(thing)
        except Exception:  # whatever an object's own code says to being taken apart
            self.odd.append(type(thing).__qualname__)
            return Itself(thing)

    def _parts(self, thing: Any) -> Hashable:
        if isinstance(thing, Tensor):
            return thing.dtype, tuple(thing.shape), _bytes_of(thing)
        if isinstance(thing, np.ndarray | np.generic) and not thing.dtype.hasobject:
            return thing.dtype.str, thing.shape, _short(np.ascontiguousarray(thing).tobytes())
        if isinstance(thing, list | tuple):
            return tuple(self.token(item) for item in thing)
        if isinstance(thing, set | frozenset):
            return frozenset(self.token(item) for item in thing)
        if type(thing) is dict:
            return tuple((self.token(name), self.token(item)) for name, item in thing.items())
        if isinstance(thing, types.FunctionType):
            return self._of_function(thing)
        if isinstance(thing, types.MethodType):
            return self.token(thing.__func__), self.token(thing.__self__)
        if isinstance(thing, types.BuiltinFunctionType):
            owner = thing.__self__
            return thing if owner is None or isinstance(owner, _NAMED) else (thing.__name__, self.token(owner))
        if isinstance(thing, partial):
            return self.token(thing.func), self.token(thing.args), self.token(thing.keywords)
        if isinstance(thing, nn.Module) and type(thing).__reduce_ex__ is object.__reduce_ex__:
            held = {name: part for name, part in vars(thing).items() if part or name not in _OF_EVERY_MODULE}
            return self._parts(held)
        return self._of_object(thing)

    def _of_function(self, function: types.FunctionType) -> Hashable:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        return (
            _code(function.__code__),
            self.token(function.__defaults__),
            self.token(function.__kwdefaults__),
            tuple(self.token(content) for content in cells),
            tuple((name, self._of_global(value)) for name, value in _globals_read(function)),
        )

    def _of_global(self, value: Any) -> Hashable:
        """Data by value; a function or an object by itself, since it would lead through whole libraries."""
        return self.token(value) if isinstance(value, _DATA) else Itself(value)

    def _of_object(self, thing: Any) -> Hashable:
        """By what ``copy`` and ``pickle`` are told: how it is made, and its state."""
        made = thing.__reduce_ex__(2)
        if isinstance(made, str):
            raise TypeError(f"{made} is known by its name alone")
        make, args, *rest = made
        state, items, pairs = (*rest, None, None, None)[:3]
        return (
            Itself(make),
            self.token(args),
            self.token(state),
            tuple(self.token(item) for item in items or ()),
            tuple((self.token(name), self.token(item)) for name, item in pairs or ()),
        )


def _globals_read(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The names in a function's code that are those of globals, and what they are now."""
    known: Mapping[str, Any] = function.__globals__
    return [(name, known[name]) for name in sorted(_names(function.__code__)) if name in known]


@lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> frozenset[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(code.co_names).union(*map(_names, inner))


@lru_cache(maxsize=1024)
def _code(code: types.CodeType) -> Hashable:
    """What a function does, wherever it was written."""
    constants = tuple(
        _code(constant) if isinstance(constant, types.CodeType) else (type(constant), repr(constant))
        for constant in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags, code.co_argcount, constants


def _bytes_of(tensor: Tensor) -> bytes:
    values = tensor.detach().cpu().contiguous()
    return _short(values.reshape(-1).view(torch.uint8).numpy().tobytes())


def _short(values: bytes) -> bytes:
    return values if len(values) <= 64 else hashlib.sha256(values).digest()
