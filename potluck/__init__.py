"""Potluck: federated learning where everyone brings their own model.

>>> import potluck
>>> clinic = potluck.Participant("clinic", my_torch_module, (x, y))              # doctest: +SKIP
>>> federation = potluck.Federation([clinic, bank], potluck.methods.CoFED(), public=x_public)  # doctest: +SKIP
>>> print(federation.run(rounds=1).table())                                      # doctest: +SKIP

Everything here is imported when it is first asked for, so that a command that needs no torch need not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from potluck import data, methods
    from potluck.channel.channel import Channel
    from potluck.channel.limits import Limits
    from potluck.comparison.compare import Comparison, compare
    from potluck.core.classification import Classification, MultiLabel
    from potluck.core.disclosure import Disclosure
    from potluck.core.errors import DataError, ModelError, PayloadError, PotluckError, RequirementsError, SettingsError
    from potluck.core.groups import Group, Update
    from potluck.core.history import History
    from potluck.core.model_spec import ModelSpec
    from potluck.core.model_view import FrozenModel, ModelView, input_of
    from potluck.core.payload import Payload
    from potluck.core.plan import Plan
    from potluck.core.positions import NextToken, PerPosition
    from potluck.core.regression import Regression
    from potluck.core.requests import Exchange, Fit, Predict, Reading, Tap
    from potluck.core.samples import Samples
    from potluck.core.schema import Schema, TensorSpec
    from potluck.core.tasks import Task
    from potluck.core.window import Window
    from potluck.export.loaded import ExportedModel, load
    from potluck.federation.availability import Availability
    from potluck.federation.clock import Device, VirtualClock
    from potluck.federation.federation import Federation
    from potluck.federation.method import Method, Needs, exchange
    from potluck.federation.participant import Participant
    from potluck.federation.tuning import choose_plan, grid
    from potluck.preparation.common_preprocessor import CommonPreprocessor
    from potluck.preparation.description import Description
    from potluck.preparation.study import describe
    from potluck.reproduction.reproduce import reproduce
    from potluck.runs.callbacks import Callback
    from potluck.runs.early_stopping import EarlyStopping

try:
    __version__ = version("potluck-fl")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"

_NAMES = {
    "channel.channel": ("Channel",),
    "channel.limits": ("Limits",),
    "comparison.compare": ("Comparison", "compare"),
    "core.classification": ("Classification", "MultiLabel"),
    "core.errors": ("DataError", "ModelError", "PayloadError", "PotluckError", "RequirementsError", "SettingsError"),
    "core.groups": ("Group", "Update"),
    "core.history": ("History",),
    "core.model_spec": ("ModelSpec",),
    "core.model_view": ("FrozenModel", "ModelView", "input_of"),
    "core.payload": ("Payload",),
    "core.plan": ("Plan",),
    "core.positions": ("NextToken", "PerPosition"),
    "core.regression": ("Regression",),
    "core.requests": ("Exchange", "Fit", "Predict", "Reading", "Tap"),
    "core.samples": ("Samples",),
    "core.schema": ("Schema", "TensorSpec"),
    "core.tasks": ("Task",),
    "export.loaded": ("ExportedModel", "load"),
    "federation.availability": ("Availability",),
    "core.disclosure": ("Disclosure",),
    "core.window": ("Window",),
    "preparation.common_preprocessor": ("CommonPreprocessor",),
    "preparation.description": ("Description",),
    "preparation.study": ("describe",),
    "federation.clock": ("Device", "VirtualClock"),
    "federation.federation": ("Federation",),
    "federation.method": ("Method", "Needs", "exchange"),
    "federation.participant": ("Participant",),
    "federation.tuning": ("choose_plan", "grid"),
    "reproduction.reproduce": ("reproduce",),
    "runs.callbacks": ("Callback",),
    "runs.early_stopping": ("EarlyStopping",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
_PACKAGES = {
    "channel",
    "comparison",
    "core",
    "data",
    "engines",
    "federation",
    "learners",
    "methods",
    "models",
    "runs",
}

__all__ = [
    "Availability",
    "Callback",
    "Channel",
    "Classification",
    "CommonPreprocessor",
    "Comparison",
    "DataError",
    "Description",
    "Device",
    "Disclosure",
    "EarlyStopping",
    "Exchange",
    "ExportedModel",
    "Federation",
    "Fit",
    "FrozenModel",
    "Group",
    "History",
    "Limits",
    "Method",
    "ModelError",
    "ModelSpec",
    "ModelView",
    "MultiLabel",
    "Needs",
    "NextToken",
    "Participant",
    "Payload",
    "PayloadError",
    "PerPosition",
    "Plan",
    "PotluckError",
    "Predict",
    "Reading",
    "Regression",
    "RequirementsError",
    "Samples",
    "Schema",
    "SettingsError",
    "Tap",
    "Task",
    "TensorSpec",
    "Update",
    "VirtualClock",
    "Window",
    "choose_plan",
    "compare",
    "data",
    "describe",
    "exchange",
    "grid",
    "input_of",
    "load",
    "methods",
    "reproduce",
]


if not TYPE_CHECKING:  # or every wrong name would pass

    def __getattr__(name: str) -> Any:
        if name in _PACKAGES:
            return import_module(f"potluck.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'potluck' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"potluck.{_MODULE_OF[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
