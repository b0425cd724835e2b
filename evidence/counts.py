"""The papers' numbers that need no training: how many parameters or bytes a round sends, counted on real payloads.

Nothing is learned: the engine of ``potluck check`` exchanges what a real round would exchange, and skips the training.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import potluck
from evidence.result_files import RESULTS, keep_content
from potluck.learners.structure import convolutions
from potluck.methods import DraftFed, FedAvg, FedIN, PerHeFed
from potluck.models import densenet, resnet

SHAPE, CLASSES = (3, 32, 32), 10
FLOAT = 4
"""Bytes of a value."""


def rehearsed(method: potluck.Method, models: Mapping[str, Any], seed: int = 0, inputs: int = 0) -> dict[str, int]:
    """What each participant sends up in a second round, when joining is over: values of four bytes."""
    draw = np.random.default_rng(seed)
    own = (draw.integers(0, 256, (20, *SHAPE), dtype=np.uint8), np.arange(20) % CLASSES)
    public = draw.integers(0, 256, (inputs, *SHAPE), dtype=np.uint8) if inputs else None
    people = [potluck.Participant(name, model, own, labels=range(CLASSES)) for name, model in models.items()]
    federation = potluck.Federation(people, method, public=public, seed=seed, engine="dry-run", device="cpu")
    history = federation.run(2)
    return {row["participant"]: row["bytes_up"] // FLOAT for row in history.final.rows}


def parameters(model: Any) -> int:
    """How many weights are trained."""
    with torch.device("meta"):
        return sum(p.numel() for p in model(SHAPE, CLASSES).parameters())


def fedin() -> dict[str, Any]:
    """Table 4: five ResNets, whose mean is 12.28 M parameters; FedIN adds one batch of 16 pairs."""
    models = {f"resnet{depth}": partial(resnet, depth) for depth in (10, 14, 18, 22, 26)}
    trained = {name: parameters(model) for name, model in models.items()}
    sent = {
        "FedAvg": rehearsed(FedAvg(aggregation="layerwise"), models),
        "FedIN": rehearsed(FedIN(), models),
    }
    return {
        "parameters": trained,
        "mean parameters": np.mean(list(trained.values())),
        "pairs": 16 * (64 * 8 * 8 + 512),
        "mean values sent": {name: np.mean(list(values.values())) for name, values in sent.items()},
    }


def draftfed() -> dict[str, Any]:
    """Section IV-B3: drafts against whole models, at the 512 samples of the text and at 128 (Table I's 2,228,352)."""
    families: dict[str, dict[str, Any]] = {
        "ResNets": {f"resnet{depth}": partial(resnet, depth) for depth in (50, 101, 152)},
        "DenseNets": {f"densenet{depth}": partial(densenet, depth) for depth in (121, 161, 169, 201)},
    }
    # Section IV-A2: so many of the 20 devices have each.
    devices = {"resnet50": 8, "resnet101": 8, "resnet152": 4} | dict.fromkeys(families["DenseNets"], 5)
    found: dict[str, Any] = {}
    for family, models in families.items():
        whole = {name: parameters(model) for name, model in models.items()}
        sent = {samples: rehearsed(DraftFed(samples=samples), models, inputs=samples) for samples in (128, 512)}
        found[family] = {
            "parameters": whole,
            "values sent": sent,
            "share of the mean model": {
                samples: np.mean(list(values.values())) / np.mean(list(whole.values()))
                for samples, values in sent.items()
            },
            "mean of the devices' shares": {
                samples: np.average([values[name] / whole[name] for name in whole], weights=[devices[n] for n in whole])
                for samples, values in sent.items()
            },
        }
    return found


def perhefed(draws: int = 50) -> dict[str, Any]:
    """Figures 5 and 6: the share of FedAvg's parameters at inter = intra = 0.5, over many draws."""
    found: dict[str, Any] = {}
    for name, model in {"ResNet34": partial(resnet, 34), "DenseNet121": partial(densenet, 121)}.items():
        whole = parameters(model)
        sent = [
            rehearsed(PerHeFed(inter=0.5, intra=0.5), {"one": model, "two": model}, seed)["one"] / whole
            for seed in range(draws)
        ]
        found[name] = {
            "parameters": whole,
            "mean": np.mean(sent),
            "deviation": np.std(sent, ddof=1),
            "least": min(sent),
            "most": max(sent),
            **readings(model, whole),
        }
    return found


def readings(model: Any, whole: int) -> dict[str, float]:
    """What the published ratio might count instead: expectations of other readings of "half"."""
    with torch.device("meta"):
        network = model(SHAPE, CLASSES)
    sizes = {path: network.get_submodule(path).weight for path in convolutions(network)}
    every = sum(weight.numel() for weight in sizes.values())
    wide = sum(weight.numel() for weight in sizes.values() if weight.shape[-1] > 1)
    return {
        "convolutions of the whole": every / whole,
        "half the layers, all filters": every / 2 / whole,
        "half the layers, half the filters": every / 4 / whole,
        "half the layers, half the filters of k×k layers only": (wide / 4 + (every - wide) / 2) / whole,
        "half the layers thinned, all else whole": (whole - every / 2 + every / 4) / whole,
    }


COUNTS = {"fedin": fedin, "draftfed": draftfed, "perhefed": perhefed}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.counts", description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(COUNTS), choices=list(COUNTS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    for name in chosen.only:
        found = COUNTS[name]()
        keep_content("counts", name, json.loads(json.dumps(found, default=float)), chosen.results)
        print(name, json.dumps(found, indent=1, default=float), flush=True)


if __name__ == "__main__":
    main()
