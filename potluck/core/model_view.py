"""A network as an objective sees it: callable, with its inner layers, parts and parameters within reach."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from operator import methodcaller
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from potluck.core.architecture import Architecture
from potluck.core.errors import ModelError, nearest
from potluck.core.inputs import call_with, logits_of


class ModelView:
    """A module with its own tensors, or with others in their place (which is how engines stack networks).

    Args:
        module: the network.
        tensors: parameters and buffers by name, in the place of the module's own; those that are missing are its own.
    """

    def __init__(self, module: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> None:
        self._module = module
        self._tensors = tensors

    def __call__(self, x: Any) -> Tensor:
        """The whole network's output for a batch of inputs, one tensor or several: logits."""
        return logits_of(self._call(self._module, x))

    def part(self, names: str | Sequence[str], x: Tensor, *, running: bool = True) -> Tensor:
        """The output of one named submodule, or of several one after the other, for a batch of inner features.

        Args:
            names: the submodule's name, or several.
            x: the features.
            running: whether running statistics, such as BatchNorm's, are updated in training mode; by default True.
        """
        for name in [names] if isinstance(names, str) else names:
            x = self._call(submodule(self._module, name), x, running)
        return x

    def taps(self, x: Any, at: Sequence[str], submodules: Sequence[str] = ()) -> tuple[Tensor, dict[str, Tensor]]:
        """The output, and the outputs of named layers, from one pass through the network.

        Args:
            x: the inputs.
            at: the names of the layers; ``input_of(name)`` for what goes into one.
            submodules: run only these, one after the other; by default the whole network.
        """
        with tapped(self._module, at) as taken:
            output = self.part(submodules, x) if submodules else self(x)
        return output, {name: reached(name, taken) for name in at}

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trainable parameters by name."""
        own: dict[str, Tensor] = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        return own if self._tensors is None else {name: self._tensors.get(name, p) for name, p in own.items()}

    def _call(self, module: nn.Module, x: Any, running: bool = True) -> Any:
        mine: dict[str, Tensor] = {}  # what takes the place of the module's own tensors
        if self._tensors is not None:
            mine = dict(self._tensors) if module is self._module else self._inside(module)
        if not running:
            mine |= {name: mine.get(name, own).clone() for name, own in module.named_buffers()}
        args, named = call_with(x)
        return functional_call(module, mine, args, named) if mine else module(*args, **named)

    def _inside(self, part: nn.Module) -> dict[str, Tensor]:
        """The tensors of a part, under its own names; a tensor that parts share is listed under its first name."""
        assert self._tensors is not None
        known = chain(self._module.named_parameters(), self._module.named_buffers())
        first = {tensor: name for name, tensor in known}  # tensors are hashed as the objects they are
        own = chain(part.named_parameters(remove_duplicate=False), part.named_buffers(remove_duplicate=False))
        return {name: self._tensors[first[tensor]] for name, tensor in own if first[tensor] in self._tensors}


_VALUES = methodcaller("values")


class HeldTensors:
    """A module's tensors by name, as torch tells them; to walk through a small module takes longer than to copy it.

    Args:
        module: the module.
    """

    def __init__(self, module: nn.Module) -> None:
        self.parameters: dict[str, nn.Parameter] = dict(module.named_parameters())
        """Its parameters, each once."""
        self.all: dict[str, Tensor] = {**self.parameters, **dict(module.named_buffers())}
        """Its parameters and buffers, each once."""
        self._state = _state_of(module)
        self._module = module
        self._held = [each for part in module.modules() for each in (part._modules, part._parameters, part._buffers)]
        self._objects = [value for held in self._held for value in held.values()]
        self._names, self._ids = self._structure(), self._now()

    def are_of(self, module: nn.Module) -> bool:
        """Whether they are what a module holds now: no layer, parameter or buffer was exchanged, added or removed."""
        return module is self._module and self._structure() == self._names and self._now() == self._ids

    def _structure(self) -> list[str | int]:
        """How many of each kind each layer has, and their names."""
        return [*map(len, self._held), *chain.from_iterable(self._held)]

    def _now(self) -> list[int]:
        """Which objects the module holds; those that it held are referenced here, so that none can get its address."""
        return [*map(id, chain.from_iterable(map(_VALUES, self._held)))]

    @property
    def state(self) -> Mapping[str, Tensor]:
        """The entries of its state, as they are in memory; some of them may ask for gradients."""
        return self._module.state_dict() if self._state is None else self._state


def _state_of(module: nn.Module) -> dict[str, Tensor] | None:
    """The entries of a module's state; None where it has a way of its own to tell them, which must be asked again."""
    tensors = dict(chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)))
    hooked = any(part._state_dict_hooks or part._state_dict_pre_hooks for part in module.modules())
    entries = module.state_dict(keep_vars=True)
    plain = not hooked and all(tensors.get(name) is entry for name, entry in entries.items())
    return dict(entries) if plain else None


class SeveralModules(nn.Module):
    """Several networks as one module, for a training of them together.

    Args:
        parts: the networks by name.
    """

    def __init__(self, parts: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> list[Any]:
        """What each of them puts out for the same inputs."""
        return [part(x) for part in self.children()]

    def view(self, tensors: Mapping[str, Tensor] | None = None) -> dict[str, ModelView]:
        """Each of the networks as an objective sees it, with these tensors in the place of their own."""
        whole = ModelView(self, tensors)
        parts = dict(self.named_children())
        return {n: ModelView(part, None if tensors is None else whole._inside(part)) for n, part in parts.items()}


def view_of(module: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> Any:
    """What an objective gets: a ``ModelView``, or one for each name where several networks are trained together."""
    return module.view(tensors) if isinstance(module, SeveralModules) else ModelView(module, tensors)


@dataclass(frozen=True, eq=False)
class FrozenModel:
    """A network in an objective's context that does not learn, in evaluation mode.

    Args:
        weights: every weight and buffer by name.
        module: the network they belong to; by default the participant's own architecture.
    """

    weights: Mapping[str, Tensor]
    module: nn.Module | None = None

    @cached_property
    def architecture(self) -> Architecture | None:
        """The architecture of ``module``; None for one's own."""
        return None if self.module is None else Architecture(self.module)


_INPUT_OF = "input of "


def input_of(layer: str) -> str:
    """The name of what goes into a layer, its first positional input: for ``Tap`` and ``ModelView.taps``."""
    return f"{_INPUT_OF}{layer}"


def copy_holding(module: nn.Module, names: Collection[str]) -> nn.Module:
    """A copy of a network in which these parameters, frozen, have the memory of the original's; all else is its own."""
    held = {id(p): nn.Parameter(p.detach(), False) for name, p in module.named_parameters() if name in names}
    return copy.deepcopy(module, dict[int, Any](held))


_ATOMIC = frozenset({str, int, float, bool, bytes, type(None), torch.dtype, torch.device, type})
_AS_OBJECTS = ("__reduce_ex__", "__reduce__", "__getstate__", "__copy__", "__deepcopy__")


def copied(module: nn.Module) -> Any:
    """What ``copy.deepcopy`` makes of a network: sooner, since a layer is a dozen dicts, mostly empty."""
    return _copied(module, {})


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in _ATOMIC:
        return value
    if id(value) in memo:
        return memo[id(value)]
    if kind in (dict, OrderedDict) and _ATOMIC.issuperset(map(type, value)):
        table: dict[Any, Any] = kind()
        memo[id(value)] = table
        for key, held in value.items():
            table[key] = held if type(held) in _ATOMIC else _copied(held, memo)
        return table
    if kind in (list, set, tuple) and _ATOMIC.issuperset(map(type, value)):
        memo[id(value)] = kind(value)
        return memo[id(value)]
    if not isinstance(value, nn.Module) or not _is_plain(kind):  # type: ignore[arg-type]
        return copy.deepcopy(value, memo)
    memo[id(value)] = mine = object.__new__(kind)
    state = vars(mine)
    for name, held in vars(value).items():
        state[name] = held if type(held) in _ATOMIC else _copied(held, memo)
    state.pop("_compiled_call_impl", None)  # as torch has it
    return mine


@cache
def _is_plain(kind: type[nn.Module]) -> bool:
    """Whether a class leaves it to Python how its modules are copied."""
    own = any(getattr(kind, name, None) != getattr(nn.Module, name, None) for name in _AS_OBJECTS)
    # A convolution's fills in what files of old versions of torch lack.
    usual = (nn.Module.__setstate__, nn.modules.conv._ConvNd.__setstate__)
    return not own and getattr(kind, "__setstate__", None) in usual


def submodule(module: nn.Module, name: str) -> nn.Module:
    """A submodule by its path, with an error that lists what there is."""
    known: dict[str, nn.Module] = dict(module.named_modules())
    if name not in known:
        raise ModelError(f"The model has no layer {name!r}.{nearest(name, [path for path in known if path])}")
    return known[name]


def reached(name: str, taken: Mapping[str, Tensor]) -> Tensor:
    """What was tapped at a place, or an error if the network never ran the layer there."""
    if name not in taken:
        layer = name.removeprefix(_INPUT_OF)
        raise ModelError(f"The network did not run its layer {layer!r}, so nothing can be tapped there.")
    return taken[name]


@contextmanager
def tapped(module: nn.Module, at: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Collects the outputs, and the inputs, of the named submodules while the module runs."""
    taken: dict[str, Tensor] = {}

    def take(name: str, passed: Any) -> None:
        found = next((leaf for leaf in tree_leaves(passed) if isinstance(leaf, Tensor)), None)
        if found is None:
            raise ModelError(f"No tensor passes at {name!r} by position, so nothing can be tapped there.")
        taken[name] = found.clone()  # another layer may write into it, as in-place activations do

    with ExitStack() as hooks:
        for name in at:
            layer = submodule(module, name.removeprefix(_INPUT_OF))
            if name.startswith(_INPUT_OF):
                hooks.enter_context(layer.register_forward_pre_hook(lambda _, inputs, name=name: take(name, inputs)))
            else:
                hooks.enter_context(layer.register_forward_hook(lambda _, __, output, name=name: take(name, output)))
        yield taken
