"""Which methods are compared on which federation, and with which settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent

RATES = "0.01,0.03,0.1"
"""What is tried of every method, Local among them: three learning rates, chosen by validation data."""

SAME_ARCHITECTURE = {"aggregation": "same-architecture"}
"""Those who average whole models do so among the participants of one architecture."""

SERVER_STEP = {"server_lr": 0.01}
NETWORKS = [f"evidence.field.networks:{name}" for name in ("mlp", "cnn", "resnet")]


@dataclass(frozen=True)
class LineUp:
    """A federation, and who competes on it.

    Args:
        name: what the command and the results call it.
        methods: each method with the settings that differ from its defaults.
        left_out: methods that fit the federation and are not compared, with the reason.
    """

    name: str
    methods: Mapping[str, Mapping[str, object]]
    left_out: Mapping[str, str]

    @property
    def file(self) -> Path:
        """The run file."""
        return FOLDER / f"{self.name}.toml"

    def changes(self, methods: Iterable[str]) -> list[str]:
        """The settings of these methods, as a comparison is told of them."""
        return [
            f"{method}.{key}={json.dumps(value)}" for method in methods for key, value in self.methods[method].items()
        ]


MIXED = LineUp(
    "mixed",
    {
        "CoFED": {},
        "Ditto": SAME_ARCHITECTURE,
        "FCCL": {"pretrain_epochs": 1},
        "FD": {},
        "FedAdagrad": {**SAME_ARCHITECTURE, **SERVER_STEP},
        "FedAdam": {**SAME_ARCHITECTURE, **SERVER_STEP},
        "FedAvg": SAME_ARCHITECTURE,
        "FedBN": SAME_ARCHITECTURE,
        "FedDF": {"architectures": NETWORKS, "steps": 50},
        "FedDistill": {},
        "FedGen": {},
        "FedGH": {},
        "FedKD": {"rounds": 20},
        "FedMD": {"pretrain": False, "revisit_epochs": 1, "revisit_batch_size": 16},
        "FedMRL": {},
        "FedNova": SAME_ARCHITECTURE,
        "FedPer": SAME_ARCHITECTURE,
        "FedProto": {},
        "FedProx": SAME_ARCHITECTURE,
        "FedRep": {**SAME_ARCHITECTURE, "head_epochs": 1},
        "FedRolex": {},
        "FedSSA": {},
        "FedTGP": {},
        "FedYogi": {**SAME_ARCHITECTURE, **SERVER_STEP},
        "FLOP": SAME_ARCHITECTURE,
        "FML": {},
        "HeteroFL": {},
        "InclusiveFL": {},
        "InCo": {},
        "LGFedAvg": {},
        "MHAT": {"first_epochs": 1},
        "MOON": SAME_ARCHITECTURE,
        "PFedES": {},
        "SCAFFOLD": {**SAME_ARCHITECTURE, "optimizers": "any"},
    },
    {
        "DENSE": "its result is the server's model after one round; participants answer as in Local",
        "Describe": "it trains nothing",
    },
)
"""Settings that say how much is trained are such that everybody passes once over its own data in a round, as in Local,
but where a method by its nature takes more passes."""

WIDTHS = LineUp(
    "widths",
    {
        "FedAvg": SAME_ARCHITECTURE,
        "FedRolex": {},
        "HeteroFL": {},
        "HFL": {},
        "PerHeFed": {},
        "ScaleFL": {},
    },
    dict.fromkeys(
        ("Describe", "FedDistill", "FedKD", "FML", "InclusiveFL", "InCo", "PFedES"), "it does not scale widths"
    ),
)

LINE_UPS = {line_up.name: line_up for line_up in (MIXED, WIDTHS)}
