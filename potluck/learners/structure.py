"""What stands where in a network, found by looking and by running it once: convolutions, drafts, stages, the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from potluck.core.errors import ModelError, SettingsError, nearest
from potluck.core.groups import names_of, within
from potluck.core.inputs import InputKind, describe, flat
from potluck.core.model_view import ModelView, reached, submodule, tapped
from potluck.core.randomness import seeded

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
SHORTCUTS = frozenset({"downsample", "shortcut", "skip", "identity"})
"""A convolution with one of these names in its path is a shortcut's."""

_POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d)
_SUMMARIES = (nn.Flatten, nn.AvgPool1d, nn.AvgPool2d, *_POOLS)
_BATCH_NORM = nn.modules.batchnorm._BatchNorm
_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
_CANNOT_RUN = (RuntimeError, ValueError, TypeError, LookupError, AttributeError)
_NAME_THEM = 'name them: stages={"extractor": […], "intermediate": […], "classifier": […]}'


@dataclass(frozen=True)
class Stages:
    """A network in three (FedIN, section 4): paths of submodules that, run one after the other, are the whole.

    Args:
        extractor: what comes first.
        intermediate: the layers between.
        classifier: what comes last.
    """

    extractor: tuple[str, ...]
    intermediate: tuple[str, ...]
    classifier: tuple[str, ...]

    @property
    def whole(self) -> tuple[str, ...]:
        return self.extractor + self.intermediate + self.classifier


def convolutions(module: nn.Module, count_shortcuts: bool = False) -> list[str]:
    """The paths of a network's convolutions in definition order (DraftFed, PerHeFed: a layer's depth)."""
    found = [path for path, layer in module.named_modules() if isinstance(layer, CONVOLUTIONS)]
    kept = [path for path in found if count_shortcuts or SHORTCUTS.isdisjoint(path.split("."))]
    if not kept:
        where = " outside of shortcuts" if found else ""
        raise ModelError(
            f"{_kind(module)} has no convolution: looked for Conv1d and Conv2d modules{where}. Name the layers to use."
        )
    return kept


def draft_point(module: nn.Module, convolution: str, example: Any) -> str:
    """Where a convolution's draft is taken (DraftFed): at the BatchNorm that reads just its output, or at itself."""
    seen: dict[str, tuple[Tensor, int]] = {}

    def note(path: str, tensor: Tensor) -> None:
        seen[path] = tensor, tensor._version  # a tensor changed in place is another one

    maker = submodule(module, convolution)
    with ExitStack() as hooks:
        hooks.enter_context(maker.register_forward_hook(lambda _, __, output: note(convolution, output)))
        for path, layer in module.named_modules():
            if isinstance(layer, _BATCH_NORM):
                hooks.enter_context(layer.register_forward_pre_hook(lambda _, given, path=path: note(path, given[0])))
        _run(module, example)
    if convolution not in seen:
        raise ModelError(f"{_kind(module)} does not use its layer {convolution!r}; name another one.")
    made, version = seen.pop(convolution)
    return next((path for path, (read, then) in seen.items() if read is made and then == version), convolution)


def find_stages(module: nn.Module, example: Any, stages: Mapping[str, Sequence[str]] | None = None) -> Stages:
    """A network's extractor, intermediate layers and classifier (FedIN), found or as named in ``stages``.

    The steps are the module's children in definition order; a child that holds every convolution is a wrapper, and
    its own children take its place. The extractor ends before the first stage of blocks, or else after the first
    convolution and what belongs to it. The classifier begins with the pooling or flattening before the linear layers.
    """
    found = _found(module) if stages is None else _named(stages)
    for path in found.whole:
        submodule(module, path)
    expected = _run(module, example)
    try:
        with _evaluating(module):
            output = ModelView(module).part(found.whole, example)
        same = output.shape == expected.shape and torch.allclose(output, expected, rtol=1e-4, atol=1e-5)
    except _CANNOT_RUN:
        same = False
    if not same:
        raise ModelError(
            f"{_kind(module)} is not its stages in a row: {', '.join(found.whole)} do not give its output. Make "
            f"modules (nn.Flatten, nn.ReLU, …) of the steps that its forward takes by itself, or {_NAME_THEM}."
        )
    return found


@dataclass(frozen=True)
class HeadAndBody:
    """A network in two, as the names of layers: where it answers, and the parametrised layers before.

    Args:
        head: where it answers.
        body: the layers with parameters before.
    """

    head: tuple[str, ...]
    body: tuple[str, ...]


def find_head(module: nn.Module, example: Any, head: str | Sequence[str] | None = None) -> HeadAndBody:
    """A network's head, the last layer with parameters in the order in which it runs, or as named; and its body.

    A layer with an adapter, or whose weights are computed (``torch.nn.utils.parametrize``), counts as one. What a
    module holds beside its layers is in the body by its own name. A weight that layers share belongs to the first.
    """
    layer_of = _layers(module)
    if head is None:
        head = (_last_run(module, example, set(layer_of.values())),)
    named = () if not isinstance(head, str | Sequence) else names_of(head)
    if not named or not all(isinstance(place, str) for place in named):
        raise ModelError(f"head is {head!r}; expected the name of a layer, or a list of such names.")
    for place in named:
        if not any(within(name, (place,)) for name in layer_of):
            known = [*dict.fromkeys(layer_of.values())]
            raise ModelError(
                f"{_kind(module)} has no layer {place!r} with parameters, for a head.{nearest(place, known)}"
            )
    split = {layer for name, layer in layer_of.items() if within(name, named)}
    rest = {name: layer for name, layer in layer_of.items() if not within(name, named)}
    return HeadAndBody(named, tuple(dict.fromkeys(name if layer in split else layer for name, layer in rest.items())))


def feature_width(module: nn.Module, place: str, example: Any) -> int:
    """How many numbers stand at a place in a network for one sample: a layer, or ``input_of`` one."""
    with tapped(module, [place]) as taken:
        _run(module, example)
    return reached(place, taken).flatten(1).shape[1]


def _layers(module: nn.Module) -> dict[str, str]:
    """Each parameter's layer; the parameter itself, where it stands beside layers."""
    names = [name for name, _ in module.named_parameters()]
    holders = {_parent(name) for name in names}
    whole = [path for path, layer in module.named_modules() if path and (_adapted(layer) or is_parametrized(layer))]

    def layer_of(name: str) -> str:
        path = next((path for path in whole if within(name, (path,))), _parent(name))
        beside = path not in whole and any(other.startswith(f"{path}.") for other in holders)
        return name if beside or not path else path

    return {name: layer_of(name) for name in names}


def _adapted(layer: nn.Module) -> bool:
    """Whether it is a layer with an adapter, as PEFT and ``potluck.models.lora`` make them."""
    return isinstance(getattr(layer, "base_layer", None), nn.Module)


def _last_run(module: nn.Module, example: Any, layers: set[str]) -> str:
    """The last of these layers that starts when the module runs."""
    ran: list[str] = []
    with ExitStack() as hooks:
        for path, layer in module.named_modules():
            if path in layers:
                hooks.enter_context(layer.register_forward_pre_hook(lambda _, __, path=path: ran.append(path)))
        _run(module, example)
    if not ran:
        raise ModelError(
            f"{_kind(module)} has no head: looked for a layer with parameters among the modules that it runs. "
            f'Name it: Participant(head="…").'
        )
    return ran[-1]


def _named(stages: Mapping[str, Sequence[str]]) -> Stages:
    expected = [field.name for field in fields(Stages)]
    if sorted(stages) != sorted(expected) or not all(stages.values()):
        raise SettingsError(f"stages = {dict(stages)!r}; expected layers for each of {', '.join(expected)}.")
    return Stages(**{name: (paths,) if isinstance(paths, str) else tuple(paths) for name, paths in stages.items()})


def _found(module: nn.Module) -> Stages:
    inner = convolutions(module, count_shortcuts=True)
    steps = _steps(module, {layer: path for path, layer in module.named_modules()}, inner)
    layers = [submodule(module, step) for step in steps]
    holding = [i for i, step in enumerate(steps) if any(within(path, (step,)) for path in inner)]
    if len(holding) < 2:
        raise ModelError(
            f"{_kind(module)} has no intermediate layers: looked for two or more steps with convolutions among "
            f"{', '.join(steps)}. If there are some, {_NAME_THEM}."
        )
    stage = next((i for i in holding[1:] if not isinstance(layers[i], CONVOLUTIONS)), holding[1])
    last = holding[-1]
    while last + 1 < len(steps) and isinstance(layers[last + 1], _NORMS):
        last += 1
    head = [
        i
        for i in range(last + 1, len(steps))
        if isinstance(layers[i], _SUMMARIES) or _linear(layers[i]) or _parent(steps[i]) != _parent(steps[last])
    ]
    if not any(_linear(layers[i]) for i in head):
        raise ModelError(
            f"{_kind(module)} has no classifier: looked for a Linear layer after the last convolution, in "
            f"{', '.join(steps[last:])}. If there is one, {_NAME_THEM}."
        )
    return Stages(tuple(steps[:stage]), tuple(steps[stage : head[0]]), tuple(steps[head[0] :]))


def _steps(module: nn.Module, paths: Mapping[nn.Module, str], inner: Sequence[str]) -> list[str]:
    """The children in definition order, with what wrappers and lists hold in their place."""
    steps: list[str] = []
    for child in module._modules.values():
        if child is None:
            continue
        wrapper = all(within(path, (paths[child],)) and path != paths[child] for path in inner)
        steps += _steps(child, paths, inner) if wrapper or isinstance(child, nn.ModuleList) else [paths[child]]
    return steps


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _linear(layer: nn.Module) -> bool:
    return any(isinstance(part, nn.Linear) for part in layer.modules())


def _kind(module: nn.Module) -> str:
    return type(module).__name__


def _run(module: nn.Module, example: Any) -> Tensor:
    try:
        with _evaluating(module):
            output = ModelView(module)(example)
    except _CANNOT_RUN as error:
        kinds = {name: InputKind.of(column) for name, column in flat(example).items()}
        raise ModelError(f"{_kind(module)} cannot read inputs of {describe(kinds)}: {error}") from error
    return output


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients inside; every layer in its own mode again outside."""
    training = [layer for layer in module.modules() if layer.training]
    module.eval()
    try:
        with torch.no_grad(), seeded(0):
            yield
    finally:
        for layer in training:
            layer.training = True
