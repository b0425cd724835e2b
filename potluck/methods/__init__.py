"""Methods, one file each; the arithmetic that several share is in files named after it."""

from __future__ import annotations

from potluck.core.registry import Registry
from potluck.methods.cofed import CoFED
from potluck.methods.dense import DENSE
from potluck.methods.describe import Describe
from potluck.methods.ditto import Ditto
from potluck.methods.draftfed import DraftFed
from potluck.methods.fccl import FCCL
from potluck.methods.fd import FD
from potluck.methods.fedadagrad import FedAdagrad
from potluck.methods.fedadam import FedAdam
from potluck.methods.fedavg import FedAvg
from potluck.methods.fedbn import FedBN
from potluck.methods.feddf import FedDF
from potluck.methods.feddistill import FedDistill
from potluck.methods.fedgen import FedGen
from potluck.methods.fedgh import FedGH
from potluck.methods.fedin import FedIN
from potluck.methods.fedkd import FedKD
from potluck.methods.fedmd import FedMD
from potluck.methods.fedmrl import FedMRL
from potluck.methods.fednova import FedNova
from potluck.methods.fedper import FedPer
from potluck.methods.fedproto import FedProto
from potluck.methods.fedprox import FedProx
from potluck.methods.fedrep import FedRep
from potluck.methods.fedrolex import FedRolex
from potluck.methods.fedsalora import FedSALoRA
from potluck.methods.fedssa import FedSSA
from potluck.methods.fedtgp import FedTGP
from potluck.methods.fedyogi import FedYogi
from potluck.methods.flexlora import FlexLoRA
from potluck.methods.flop import FLOP
from potluck.methods.flora import FLoRA
from potluck.methods.fml import FML
from potluck.methods.hermes import Hermes
from potluck.methods.heterofl import HeteroFL
from potluck.methods.hetlora import HetLoRA
from potluck.methods.hfl import HFL
from potluck.methods.inclusivefl import InclusiveFL
from potluck.methods.inco import InCo
from potluck.methods.lgfedavg import LGFedAvg
from potluck.methods.local import Local
from potluck.methods.lotteryfl import LotteryFL
from potluck.methods.mhat import MHAT
from potluck.methods.moon import MOON
from potluck.methods.perhefed import PerHeFed
from potluck.methods.pfedes import PFedES
from potluck.methods.scaffold import SCAFFOLD
from potluck.methods.scalefl import ScaleFL

_ALL = (
    CoFED,
    DENSE,
    Ditto,
    Describe,
    DraftFed,
    FCCL,
    FD,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedBN,
    FedDF,
    FedDistill,
    FedGen,
    FedGH,
    FedIN,
    FedKD,
    FedMD,
    FedMRL,
    FedNova,
    FedPer,
    FedProto,
    FedProx,
    FedRep,
    FedRolex,
    FedSALoRA,
    FedSSA,
    FedTGP,
    FedYogi,
    FlexLoRA,
    FLOP,
    FLoRA,
    FML,
    Hermes,
    HeteroFL,
    HetLoRA,
    HFL,
    InclusiveFL,
    InCo,
    LGFedAvg,
    Local,
    LotteryFL,
    MHAT,
    MOON,
    PerHeFed,
    PFedES,
    SCAFFOLD,
    ScaleFL,
)

METHODS = Registry("methods", {method.__name__: method for method in _ALL})

__all__ = [
    "DENSE",
    "FCCL",
    "FD",
    "FLOP",
    "FML",
    "HFL",
    "METHODS",
    "MHAT",
    "MOON",
    "SCAFFOLD",
    "CoFED",
    "Describe",
    "Ditto",
    "DraftFed",
    "FLoRA",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedBN",
    "FedDF",
    "FedDistill",
    "FedGH",
    "FedGen",
    "FedIN",
    "FedKD",
    "FedMD",
    "FedMRL",
    "FedNova",
    "FedPer",
    "FedProto",
    "FedProx",
    "FedRep",
    "FedRolex",
    "FedSALoRA",
    "FedSSA",
    "FedTGP",
    "FedYogi",
    "FlexLoRA",
    "Hermes",
    "HetLoRA",
    "HeteroFL",
    "InCo",
    "InclusiveFL",
    "LGFedAvg",
    "Local",
    "LotteryFL",
    "PFedES",
    "PerHeFed",
    "ScaleFL",
]
