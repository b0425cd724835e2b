"""Models for participants that have none of their own.

A builder takes ``input_shape`` and ``classes``, and settings of its own. Every step of these networks is a module, so
that methods can name inner layers and run a part; none works in place, so that engines can stack them. Most can be
narrower by a ``rate``; ``lora`` puts adapters into any. One is an estimator: an additive model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from potluck.core.registry import Registry, call
from potluck.models.additive import additive
from potluck.models.cnn import TABLE_1, cnn, cofed_cnn, random_cnn
from potluck.models.densenet import DEPTHS as DENSENETS
from potluck.models.densenet import densenet
from potluck.models.exits import exit_resnet
from potluck.models.htfe import htfe
from potluck.models.lora import adapted_layers, lora, merged, save_adapters, with_lora
from potluck.models.mlp import mlp, random_mlp
from potluck.models.resnet import DEPTHS as RESNETS
from potluck.models.resnet import resnet
from potluck.models.text import char_lstm, transformer

__all__ = [
    "CLASSES",
    "INPUT_SHAPE",
    "MODELS",
    "adapted_layers",
    "additive",
    "build",
    "char_lstm",
    "cnn",
    "cofed_cnn",
    "densenet",
    "describe",
    "exit_resnet",
    "htfe",
    "lora",
    "merged",
    "mlp",
    "random_cnn",
    "random_mlp",
    "resnet",
    "save_adapters",
    "transformer",
]

_OWN = {
    "mlp": mlp,
    "random_mlp": random_mlp,
    "cnn": cnn,
    "random_cnn": random_cnn,
    **{f"cofed{number}": partial(cofed_cnn, number) for number in TABLE_1},
    **{f"resnet{depth}": partial(resnet, depth) for depth in RESNETS},
    **{f"exit_resnet{depth}": partial(exit_resnet, depth) for depth in RESNETS},
    **{f"densenet{depth}": partial(densenet, depth) for depth in DENSENETS},
    "htfe": htfe,
    "transformer": transformer,
    "char_lstm": char_lstm,
    "lora": with_lora,
    "additive": additive,
}

MODELS = Registry("models", _OWN)
"""Builders by name; another package adds one under the entry point group ``potluck.models``."""

INPUT_SHAPE, TEXT_SHAPE, CLASSES = (3, 32, 32), (80,), 10
"""What ``describe`` counts parameters at: images, texts, classes."""


def build(model: str | Callable[..., Any], input_shape: Any, classes: int, **settings: Any) -> Any:
    """Builds a model.

    Args:
        model: a callable, or its name: one of ``MODELS`` or ``"package.module:callable"``. A scikit-learn class can be
            named, too.
        input_shape: the shape of one input, or a dict of them by name; passed on to a callable that takes it.
        classes: how many classes; passed on to a callable that takes it.
        settings: further arguments of the callable; a wrong one is an error with its name.
    """
    name, builder = (model, MODELS[model]) if isinstance(model, str) else (_function(model).__name__, model)
    taken = inspect.signature(builder).parameters
    shape = dict(input_shape) if isinstance(input_shape, dict) else tuple(input_shape)
    offered = {"input_shape": shape, "classes": classes}
    return call(name, builder, settings, **{key: value for key, value in offered.items() if key in taken})


def makes_models(model: Any) -> bool:
    """Whether something is a builder and no model: it can be called, and is neither a module nor an estimator."""
    if isinstance(model, str) or inspect.isclass(model):
        return True
    return callable(model) and not isinstance(model, nn.Module) and not hasattr(model, "fit")


def describe() -> list[dict[str, Any]]:
    """The built-in models: name, family, number of parameters (None where drawn at random or fitted), what it is."""
    return [
        {"name": name, "family": _family(builder), "parameters": _parameters(builder), "about": _about(builder)}
        for name, builder in _OWN.items()
    ]


def _function(builder: Any) -> Any:
    return builder.func if isinstance(builder, partial) else builder


def _family(builder: Any) -> str:
    return str(_function(builder).__module__).rpartition(".")[2]


def _about(builder: Any) -> str:
    return (inspect.getdoc(_function(builder)) or "").partition("\n")[0]


def _parameters(builder: Any) -> int | None:
    taken = inspect.signature(builder).parameters
    required = [p.name for p in taken.values() if p.default is p.empty and p.name not in ("input_shape", "classes")]
    if "seed" in taken or "input_shape" not in taken or required:
        return None  # drawn at random; no network, so that its size shows once fitted; or made of another model
    shape = TEXT_SHAPE if _family(builder) == "text" else INPUT_SHAPE
    with torch.device("meta"):
        module: nn.Module = builder(shape, CLASSES)
    return sum(parameter.numel() for parameter in module.parameters())
