"""Potluck: federated learning where everyone brings their own model.

>>> import potluck
>>> clinic = potluck.Participant("clinic", my_torch_module, (x, y))              # doctest: +SKIP
>>> federation = potluck.Federation([clinic, bank], potluck.methods.CoFED(), public=x_public)  # doctest: +SKIP
>>> print(federation.run(rounds=1).table())                                      # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from potluck import data, methods
from potluck.channel.channel import Channel
from potluck.channel.limits import Limits
from potluck.core.errors import DataError, ModelError, PayloadError, PotluckError, RequirementsError, SettingsError
from potluck.core.history import History
from potluck.core.model_view import FrozenModel, ModelView
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.requests import Exchange, Fit, Predict, Reading, Tap
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.availability import Availability
from potluck.federation.clock import Device, VirtualClock
from potluck.federation.federation import Federation
from potluck.federation.method import Method, Needs, exchange
from potluck.federation.participant import Participant
from potluck.federation.tuning import choose_plan, grid

try:
    __version__ = version("potluck-fl")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"

__all__ = [
    "Availability",
    "Channel",
    "DataError",
    "Device",
    "Exchange",
    "Federation",
    "Fit",
    "FrozenModel",
    "History",
    "Limits",
    "Method",
    "ModelError",
    "ModelView",
    "Needs",
    "Participant",
    "Payload",
    "PayloadError",
    "Plan",
    "PotluckError",
    "Predict",
    "Reading",
    "RequirementsError",
    "Samples",
    "Schema",
    "SettingsError",
    "Tap",
    "TensorSpec",
    "VirtualClock",
    "choose_plan",
    "data",
    "exchange",
    "grid",
    "methods",
]
