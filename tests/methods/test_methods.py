"""The settings that a method has unless somebody sets others: they are part of every result, and of the docs."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import SettingsError
from potluck.methods import METHODS
from potluck.methods.averaging import Merging
from potluck.methods.weight_sharing import WeightSharing
from tests.tables import deep_cnn, made_data, participants

FEDAVG = {"aggregation": "whole", "weighting": "samples", "batchnorm": "average", "fine_tune": 0}
HEAD = {"aggregation": "whole", "weighting": "samples", "batchnorm": "average"}
SERVER_OPTIMIZER = {**FEDAVG, "server_lr": 0.1, "tau": 0.001, "start_at": "tau squared"}
FLOP = {**FEDAVG, "weighting": "uniform", "personal_layers": 1}


def plan(**settings):
    """A plan's settings as they are written down."""
    return potluck.Plan(**settings).model_dump(mode="json")


DEFAULTS = {
    "CoFED": {"alpha": 0.3, "margin": 0.0, "update_batch_size": 1000, "update_epochs": None, "class_weighted": True},
    "Describe": {"categories": [], "max_categories": 100, "bins": 32},
    "DraftFed": {
        "lambda1": 1.0,
        "lambda2": 1.0,
        "lambda3": 1.0,
        "samples": 512,
        "draft_epochs": None,
        "draft_batch_size": None,
        "draft_lr": None,
        "pad_norm": "n",
        "count_shortcuts": False,
        "frozen_norms": True,
    },
    "FCCL": {
        "pretrain_epochs": 40,
        "public_epochs": 1,
        "public_batch_size": 512,
        "exchange_every": "round",
        "own": "present",
        "off_diagonal": 0.0051,
        "similarity": "cosine",
    },
    "FD": {"temperature": 5.0, "first_epochs": None, "epochs": None, "distill_lr": None},
    "FedAvg": FEDAVG,
    "FedKD": {
        "energy": [0.95, 0.98],
        "rounds": 100,
        "detach": True,
        "common": "mlp",
        "common_plan": None,
        "aggregation": "whole",
        "weighting": "uniform",
        "batchnorm": "average",
    },
    "FedMRL": {
        "common": "mlp",
        "common_plan": None,
        "aggregation": "whole",
        "weighting": "samples",
        "batchnorm": "average",
    },
    "FML": {
        "alpha": 0.5,
        "beta": 0.5,
        "common": "mlp",
        "common_plan": None,
        "aggregation": "whole",
        "weighting": "uniform",
        "batchnorm": "average",
    },
    "FedDistill": {"gamma": 1.0, "own": "exclude", "means": "training"},
    "FedMD": {
        "pretrain": True,
        "scores": "logits",
        "subset": 5000,
        "digest_epochs": 1,
        "digest_batch_size": 256,
        "revisit_epochs": 4,
        "revisit_batch_size": 5,
    },
    "FedProto": {"feature": None, "weighting": "uniform", "weight": 1.0},
    "FedTGP": {
        "feature": None,
        "weighting": "uniform",
        "weight": 10.0,
        "margin": "max-min",
        "limit": 100.0,
        "server_plan": plan(optimizer="sgd", lr=0.01, epochs=100, batch_size=10),
        "keep_server_optimizer": False,
    },
    "FedGH": {
        "aggregation": "whole",
        "weighting": "uniform",
        "batchnorm": "average",
        "server_plan": plan(optimizer="sgd", lr=0.01, epochs=1, batch_size=10),
        "keep_server_optimizer": False,
    },
    "FedGen": {
        "aggregation": "whole",
        "weighting": "samples",
        "batchnorm": "average",
        "alpha": 1.0,
        "beta": 0.0,
        "decay": 1.0,
        "ensemble": "labels",
        "diversity": 1.0,
        "noise": 32,
        "hidden": 256,
        "server_steps": 50,
        "server_plan": plan(optimizer="adam", lr=0.0003, epochs=1, batch_size=32),
        "keep_server_optimizer": True,
    },
    "FedIN": {
        "aggregation": "layerwise",
        "weighting": "uniform",
        "batchnorm": "average",
        "alleviation": "simplified",
        "proximal": 0.05,
        "intermediate": True,
        "noise": 0.0,
        "pairs": 16,
        "statistics": "local and received",
    },
    "FedRolex": {
        "aggregation": "layerwise",
        "weighting": "uniform",
        "batchnorm": "average",
        "masked_classes": True,
        "model": None,
        "left_with": "trained",
        "direction": "forward",
    },
    "FLoRA": {
        "aggregation": "layerwise",
        "weighting": "samples",
        "batchnorm": "average",
        "rank": 16,
        "ranks": {},
        "targets": None,
        "head": "average",
        "base": "same",
        "scale": 2.0,
    },
    "FedSALoRA": {
        "aggregation": "layerwise",
        "weighting": "samples",
        "batchnorm": "average",
        "rank": 8,
        "ranks": {},
        "targets": None,
        "head": "local",
        "base": "same",
        "alpha": 16.0,
    },
    "FlexLoRA": {
        "aggregation": "layerwise",
        "weighting": "samples",
        "batchnorm": "average",
        "rank": 8,
        "ranks": {},
        "targets": None,
        "head": "average",
        "base": "same",
        "alpha": 16.0,
        "scaled": True,
    },
    "HetLoRA": {
        "aggregation": "layerwise",
        "weighting": "samples",
        "batchnorm": "average",
        "rank": 8,
        "ranks": {},
        "targets": None,
        "head": "average",
        "base": "same",
        "scale": 1.0,
        "share": 0.99,
        "decay": 0.001,
        "importance": "layer",
        "scaled": False,
    },
    "Hermes": {
        "aggregation": "whole",
        "weighting": "samples",
        "batchnorm": "average",
        "threshold": 0.5,
        "step_size": 0.2,
        "target": 0.5,
        "overlap": "all",
    },
    "HFL": {"inter": 1.0, "intra": 1.0, "offsets": "even", "choices": {}},
    "HeteroFL": {
        "aggregation": "layerwise",
        "weighting": "uniform",
        "batchnorm": "local statistics",
        "masked_classes": True,
        "model": None,
    },
    "InCo": {
        "aggregation": "layerwise",
        "weighting": "uniform",
        "batchnorm": "average",
        "variant": "code",
        "largest": 5.0,
        "clip": 0.1,
    },
    "InclusiveFL": {
        "aggregation": "layerwise",
        "weighting": "samples",
        "batchnorm": "average",
        "beta": 0.2,
        "own_layers": 1,
    },
    "Local": {},
    "LotteryFL": {
        "aggregation": "whole",
        "weighting": "uniform",
        "batchnorm": "average",
        "threshold": 0.2,
        "step_size": 0.2,
        "target": 0.5,
        "rewind": True,
    },
    "MHAT": {
        "temperature": 5.0,
        "first_epochs": 5,
        "epochs": 1,
        "distill_lr": None,
        "auxiliary": "mlp",
        "server_plan": plan(optimizer="sgd", lr=0.1, epochs=5, batch_size=32),
    },
    "PerHeFed": {"inter": 0.5, "intra": 1.0, "offsets": "zero", "choices": {}},
    "ScaleFL": {
        "aggregation": "layerwise",
        "weighting": "uniform",
        "batchnorm": "average",
        "masked_classes": False,
        "model": None,
        "gamma": 0.05,
        "temperature": 3.0,
        "distil_from": 1,
        "variant": "paper",
        "exits": "exits",
    },
    "DENSE": {
        "architectures": ["mlp"],
        "aggregation": "same-architecture",
        "weighting": "uniform",
        "batchnorm": "average",
        "student": "mlp",
        "epochs": 200,
        "generator_steps": 30,
        "batch_size": 128,
        "noise": 256,
        "width": 64,
        "bounded": True,
        "lambda_bn": 1.0,
        "lambda_div": 0.5,
        "norms": "mean",
        "train_noise": False,
        "fresh_generator": False,
        "inputs": "last",
        "pool": False,
        "temperature": 20.0,
        "server_plan": plan(optimizer="sgd", lr=0.01, momentum=0.9, batch_size=128),
        "generator_lr": 0.001,
    },
    "Ditto": {**FEDAVG, "lam": 1.0, "personal_epochs": None},
    "FedAdagrad": {**SERVER_OPTIMIZER, "beta1": 0.0},
    "FedAdam": {**SERVER_OPTIMIZER, "beta1": 0.9, "beta2": 0.99, "bias_correction": False},
    "FedYogi": {**SERVER_OPTIMIZER, "beta1": 0.9, "beta2": 0.99},
    "FedBN": {**FEDAVG, "weighting": "uniform", "batchnorm": "local"},
    "FedNova": FEDAVG,
    "FedProx": {**FEDAVG, "mu": 0.01},
    "FedDF": {
        **FEDAVG,
        "aggregation": "same-architecture",
        "architectures": ["mlp"],
        "ensemble": "avg_logits",
        "temperature": 1.0,
        "steps": 1000,
        "drop_worst": False,
        "server_plan": plan(lr=1e-3, batch_size=128, schedule="cosine", max_grad_norm=5.0),
    },
    "FedPer": {**FEDAVG, "batchnorm": "local statistics", "personal_layers": 1},
    "FLOP": FLOP,
    "FedRep": {**FLOP, "head_epochs": 10, "body_epochs": 1, "freeze_statistics": False},
    "MOON": {**FEDAVG, "mu": 1.0, "temperature": 0.5, "feature": None},
    "FedSSA": {
        **HEAD,
        "weighting": "uniform",
        "mu": 0.5,
        "stable_after": 2,
        "convex": False,
        "stale": False,
    },
    "LGFedAvg": HEAD,
    "PFedES": {**HEAD, "mu": 0.5, "extractor": None, "extractor_plan": None, "freeze_statistics": True},
    "SCAFFOLD": {**FEDAVG, "weighting": "uniform", "server_lr": 1.0, "optimizers": "sgd"},
}


MERGING = {"robust": None, "norm_limit": 100.0}
"""What all have that merge what participants send. Where that is no mean, ``robust`` and ``norm_limit`` may be None."""
NO_MEAN = {"DENSE", "FedDistill", "FedGH", "FedTGP", "MHAT"}
ONLY_HEADS = {"FLoRA", "FlexLoRA", "HetLoRA"}
NOTHING_SENT = {"Describe", "Local"}
WEIGHING = {"max_samples": None}
"""What all have that can weigh participants by their samples."""


def test_every_method_is_here():
    assert set(DEFAULTS) == {method.__name__ for method in METHODS.values()}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults(name):
    more = {} if name in NOTHING_SENT else {**MERGING, "norm_limit": None} if name in NO_MEAN else MERGING
    weighing = WEIGHING if issubclass(METHODS[name], WeightSharing) else {}
    assert METHODS[name]().model_dump(mode="json") == {**DEFAULTS[name], **more, **weighing}


@pytest.mark.parametrize("name", sorted(set(DEFAULTS) - NOTHING_SENT))
def test_a_robust_rule_is_named_or_refused(name):
    if name in NO_MEAN | ONLY_HEADS:
        with pytest.raises(SettingsError, match="no plain mean"):
            METHODS[name](robust="median")
    else:
        assert METHODS[name](robust="median").robust == METHODS[name](robust={"name": "median"}).robust
        with pytest.raises(SettingsError, match="Did you mean 'median'"):
            METHODS[name](robust="medain")


def listed(kind):
    """The settings that a class's docstring lists."""
    return set(re.findall(r"^        (\w+): ", kind.__doc__ or "", re.MULTILINE))


@pytest.mark.parametrize("name", DEFAULTS)
def test_settings_are_listed_one_by_one(name):
    """In the method's own docstring what can be chosen; what many have in common, where it is."""
    method, settings = METHODS[name], METHODS[name].model_fields
    fixed = {one for one, field in settings.items() if len(get_args(field.annotation)) == 1}
    unset = {one for one, field in settings.items() if field.annotation is type(None)}
    assert set(WEIGHING) <= listed(WeightSharing)
    assert set(settings) - fixed - unset - listed(Merging) - set(WEIGHING) <= listed(method)
    assert listed(method) <= set(settings)


LIMITS = [
    ("CoFED", "alpha", [0, 1], [-0.1, 1.1]),
    ("CoFED", "margin", [0, 0.99], [-0.1, 1]),
    ("CoFED", "update_batch_size", [1], [0]),
    ("CoFED", "update_epochs", [0], [-1]),
    ("DENSE", "epochs", [0], [-1]),
    ("DENSE", "generator_steps", [0], [-1]),
    ("DENSE", "batch_size", [2], [1]),
    ("DENSE", "noise", [1], [0]),
    ("DENSE", "width", [1], [0]),
    ("DENSE", "lambda_bn", [0], [-0.1]),
    ("DENSE", "lambda_div", [0], [-0.1]),
    ("DENSE", "temperature", [0.1], [0]),
    ("DraftFed", "lambda1", [0], [-0.1]),
    ("DraftFed", "lambda2", [0], [-0.1]),
    ("DraftFed", "lambda3", [0], [-0.1]),
    ("DraftFed", "samples", [1], [0]),
    ("DraftFed", "draft_epochs", [0], [-1]),
    ("DraftFed", "draft_batch_size", [1], [0]),
    ("DraftFed", "draft_lr", [0.5], [0]),
    ("FCCL", "pretrain_epochs", [0], [-1]),
    ("FCCL", "public_epochs", [0], [-1]),
    ("FCCL", "public_batch_size", [2], [1]),
    ("FCCL", "off_diagonal", [0], [-0.1]),
    ("FD", "temperature", [0.5], [0]),
    ("FD", "first_epochs", [0], [-1]),
    ("FD", "epochs", [0], [-1]),
    ("FD", "distill_lr", [0.5], [0]),
    ("Ditto", "lam", [0], [-0.1]),
    ("Ditto", "fine_tune", [0], [1]),
    ("FedPer", "personal_layers", [0, 2], [-1]),
    ("FedRep", "personal_layers", [1], [0]),
    ("FedRep", "head_epochs", [0], [-1]),
    ("FedRep", "body_epochs", [0], [-1]),
    ("FedDF", "temperature", [0.1], [0]),
    ("FedDF", "steps", [0], [-1]),
    ("PFedES", "mu", [0, 1], [-0.1, 1.1]),
    ("FedSSA", "mu", [0, 1], [-0.1, 1.1]),
    ("FedSSA", "stable_after", [1], [0]),
    ("MOON", "mu", [0], [-0.1]),
    ("MOON", "temperature", [0.1], [0]),
    ("FedAdagrad", "beta1", [0, 0.9], [-0.1, 1]),
    ("FedAdam", "beta2", [0, 1], [-0.1, 1.1]),
    ("FedAdam", "tau", [0.1], [0]),
    ("FedAvg", "fine_tune", [0, 2], [-1]),
    ("FedKD", "energy", [(0.5, 1)], [(0, 1), (0.5, 1.1)]),
    ("FedKD", "rounds", [1], [0]),
    ("FML", "alpha", [0, 1], [-0.1, 1.1]),
    ("FML", "beta", [0, 1], [-0.1, 1.1]),
    ("FedDistill", "gamma", [0], [-0.1]),
    ("FedMD", "subset", [1], [0]),
    ("FedMD", "digest_epochs", [0], [-1]),
    ("FedMD", "digest_batch_size", [1], [0]),
    ("FedMD", "revisit_epochs", [0], [-1]),
    ("FedMD", "revisit_batch_size", [1], [0]),
    ("FedProto", "weight", [0], [-0.1]),
    ("FedTGP", "weight", [0], [-0.1]),
    ("FedTGP", "limit", [0], [-0.1]),
    ("FedGen", "alpha", [0], [-0.1]),
    ("FedGen", "beta", [0], [-0.1]),
    ("FedGen", "decay", [0.5, 1], [0, 1.1]),
    ("FedGen", "diversity", [0], [-0.1]),
    ("FedGen", "noise", [1], [0]),
    ("FedGen", "hidden", [1], [0]),
    ("FedGen", "server_steps", [1], [0]),
    ("FedIN", "proximal", [0], [-0.1]),
    ("FedIN", "noise", [0], [-0.1]),
    ("FedIN", "pairs", [1], [0]),
    *((name, "rank", [1], [0]) for name in ("FLoRA", "FedSALoRA", "FlexLoRA", "HetLoRA")),
    ("FLoRA", "scale", [0.5], [0]),
    ("FedSALoRA", "alpha", [0.5], [0]),
    ("FlexLoRA", "alpha", [0.5], [0]),
    ("HetLoRA", "scale", [0.5], [0]),
    ("HetLoRA", "share", [0.5, 1], [0, 1.1]),
    ("HetLoRA", "decay", [0], [-0.1]),
    ("Hermes", "threshold", [0, 1], [-0.1, 1.1]),
    ("Hermes", "step_size", [0.5], [0, 1]),
    ("Hermes", "target", [0.5], [0, 1]),
    ("LotteryFL", "threshold", [0, 1], [-0.1, 1.1]),
    ("InCo", "largest", [0], [-0.1]),
    ("InCo", "clip", [0.5], [0]),
    ("InclusiveFL", "beta", [0, 1], [-0.1, 1.1]),
    ("InclusiveFL", "own_layers", [0], [-1]),
    ("MHAT", "temperature", [0.5], [0]),
    ("MHAT", "first_epochs", [0], [-1]),
    ("MHAT", "epochs", [0], [-1]),
    ("MHAT", "distill_lr", [0.5], [0]),
    ("PerHeFed", "inter", [0.5, 1], [0, 1.1]),
    ("PerHeFed", "intra", [0.5, 1], [0, 1.1]),
    ("ScaleFL", "gamma", [0], [-0.1]),
    ("ScaleFL", "temperature", [0.5], [0]),
    ("ScaleFL", "distil_from", [1], [0]),
]


@pytest.mark.parametrize(("name", "setting", "allowed", "refused"), LIMITS)
def test_what_a_number_may_be(name, setting, allowed, refused):
    for value in allowed:
        assert getattr(METHODS[name](**{setting: value}), setting) == value
    for value in refused:
        with pytest.raises(SettingsError, match=setting):
            METHODS[name](**{setting: value})


LOOK_INTO_MODELS = sorted(name for name in DEFAULTS if METHODS[name]().requires().torch_module)


@pytest.mark.parametrize("name", LOOK_INTO_MODELS)
def test_what_looks_into_models_refuses_those_without_layers(name):
    tree = potluck.Participant("tree", DecisionTreeClassifier(), made_data(9, 0), labels=range(3))
    people = [*participants([deep_cnn(0), deep_cnn(1)]), tree]
    with pytest.raises(potluck.RequirementsError, match="no torch modules: tree"):
        potluck.Federation(people, METHODS[name](), public=made_data(9, 1))


@pytest.mark.parametrize("name", sorted(set(DEFAULTS) - set(LOOK_INTO_MODELS)))
def test_what_does_not_takes_anything(name):
    tree = potluck.Participant("tree", DecisionTreeClassifier(), made_data(9, 0), labels=range(3))
    potluck.Federation([*participants([deep_cnn(0)]), tree], METHODS[name](), public=made_data(9, 1))
