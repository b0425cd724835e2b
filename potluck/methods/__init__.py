"""Methods, one file each; the arithmetic that several share is in files named after it."""

from __future__ import annotations

from potluck.core.registry import Registry
from potluck.methods.cofed import CoFED
from potluck.methods.draftfed import DraftFed
from potluck.methods.fd import FD
from potluck.methods.fedavg import FedAvg
from potluck.methods.feddistill import FedDistill
from potluck.methods.fedin import FedIN
from potluck.methods.fedmd import FedMD
from potluck.methods.fedrolex import FedRolex
from potluck.methods.fml import FML
from potluck.methods.heterofl import HeteroFL
from potluck.methods.inclusivefl import InclusiveFL
from potluck.methods.inco import InCo
from potluck.methods.local import Local
from potluck.methods.mhat import MHAT
from potluck.methods.perhefed import PerHeFed
from potluck.methods.scalefl import ScaleFL

_ALL = (
    CoFED,
    DraftFed,
    FD,
    FedAvg,
    FedDistill,
    FedIN,
    FedMD,
    FedRolex,
    FML,
    HeteroFL,
    InclusiveFL,
    InCo,
    Local,
    MHAT,
    PerHeFed,
    ScaleFL,
)

METHODS = Registry("methods", {method.__name__: method for method in _ALL})

__all__ = [
    "FD",
    "FML",
    "METHODS",
    "MHAT",
    "CoFED",
    "DraftFed",
    "FedAvg",
    "FedDistill",
    "FedIN",
    "FedMD",
    "FedRolex",
    "HeteroFL",
    "InCo",
    "InclusiveFL",
    "Local",
    "PerHeFed",
    "ScaleFL",
]
