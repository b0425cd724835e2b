"""Potluck: federated learning where everyone brings their own model.

>>> import potluck
>>> clinic = potluck.Participant("clinic", my_torch_module, (x, y))              # doctest: +SKIP
>>> federation = potluck.Federation([clinic, bank], potluck.methods.CoFED(), public=x_public)  # doctest: +SKIP
>>> print(federation.run(rounds=1).table())                                      # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from potluck import data, methods
from potluck.errors import DataError, MisfitError, ModelError, PayloadError, PotluckError, SettingsError
from potluck.federation import Federation
from potluck.history import History
from potluck.learners.net import Companion, Net
from potluck.method import Method, Needs, exchange
from potluck.participant import Participant
from potluck.payload import Form, Like, Limits, Payload
from potluck.plan import Plan
from potluck.requests import Exchange, Fit, Predict, Tap
from potluck.samples import Samples
from potluck.tuning import choose_plan, grid

try:
    __version__ = version("potluck-fl")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"

__all__ = [
    "Companion",
    "DataError",
    "Exchange",
    "Federation",
    "Fit",
    "Form",
    "History",
    "Like",
    "Limits",
    "Method",
    "MisfitError",
    "ModelError",
    "Needs",
    "Net",
    "Participant",
    "Payload",
    "PayloadError",
    "Plan",
    "PotluckError",
    "Predict",
    "Samples",
    "SettingsError",
    "Tap",
    "choose_plan",
    "data",
    "exchange",
    "grid",
    "methods",
]
