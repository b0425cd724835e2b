"""Which settings are compared, table by table: the first minus the second, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping

from evidence.differences import Pair, Rounds
from evidence.titles import FEDIN_TITLES, MHAT_SETTINGS

MHAT = [
    Pair(
        f"MHAT − FD, {labels}, {participants}",
        f"mhat_mnist.mhat-{labels}-{participants}",
        f"mhat_mnist.fd-{labels}-{participants}",
    )
    for labels, participants in MHAT_SETTINGS
]


def _above(experiment: str, reference: str, title: str, settings: Mapping[str, str], prefix: str = "") -> list[Pair]:
    """Settings against one of them."""
    return [
        Pair(f"{name} − {title}", f"{experiment}.{prefix}{setting}", f"{experiment}.{prefix}{reference}")
        for setting, name in settings.items()
    ]


def _draftfed(prefix: str, title: str, foreign: Mapping[str, str]) -> list[Pair]:
    settings = {"draftfed": "DraftFed", "draftfed-logits": "logits alone", **foreign}
    pairs = _above("draftfed_cifar", "local", f"Local, {title}", settings, prefix)
    last = Pair(
        f"DraftFed − logits alone, {title}",
        f"draftfed_cifar.{prefix}draftfed",
        f"draftfed_cifar.{prefix}draftfed-logits",
    )
    return [*pairs, last]


DRAFTFED = [
    *_draftfed("", "full", {}),
    Pair("DraftFed − logits alone, full", "draftfed_cifar.draftfed", "draftfed_cifar.draftfed-logits", (4, 20)),
    *_draftfed("narrow-", "narrow, Fashion-MNIST", {"draftfed-mnist": "inputs from MNIST"}),
    *_draftfed(
        "narrow-cifar-",
        "narrow, CIFAR-10",
        {"draftfed-cifar100": "inputs from CIFAR-100", "draftfed-svhn": "inputs from SVHN"},
    ),
]

PERHEFED = [
    *_above(
        "perhefed_cifar",
        "local",
        "Local",
        {
            "fedavg": "FedAvg",
            "all": "all layers",
            "half": "half of the layers",
            "all-same-start": "all layers, one start",
        },
    ),
    Pair("all layers, one start − Local", "perhefed_cifar.all-same-start", "perhefed_cifar.local", (16, 16)),
    Pair("all layers − half of the layers", "perhefed_cifar.all", "perhefed_cifar.half"),
    Pair("all layers − FedAvg", "perhefed_cifar.all", "perhefed_cifar.fedavg"),
]
_WHY = {
    "fedavg": "FedAvg",
    "fedavg-own-norms": "FedAvg, own BatchNorm",
    "all": "all layers",
    "all-same-start": "all layers, one start",
    "all-same-start-fresh": "all layers, one start, a new Adam",
}
PERHEFED_NARROW = [
    *_above(
        "perhefed_cifar",
        "local",
        "Local",
        {
            **_WHY,
            "half": "half",
            "half-same-start": "half, one start",
            "same-half-same-start": "the same half, one start",
        },
        "narrow-",
    ),
    *_above("perhefed_cifar", "local", "Local, CIFAR-10", _WHY, "narrow-cifar-"),
    Pair(
        "FedAvg, own BatchNorm − all layers, one start, a new Adam, CIFAR-10",
        "perhefed_cifar.narrow-cifar-fedavg-own-norms",
        "perhefed_cifar.narrow-cifar-all-same-start-fresh",
    ),
    Pair(
        "all layers, one start: a new Adam − Adam kept",
        "perhefed_cifar.narrow-all-same-start-fresh",
        "perhefed_cifar.narrow-all-same-start",
    ),
    Pair(
        "the same, CIFAR-10",
        "perhefed_cifar.narrow-cifar-all-same-start-fresh",
        "perhefed_cifar.narrow-cifar-all-same-start",
    ),
    Pair(
        "all layers, measured after training − before", "perhefed_cifar.narrow-all-trained", "perhefed_cifar.narrow-all"
    ),
    Pair("half, measured after training − before", "perhefed_cifar.narrow-half-trained", "perhefed_cifar.narrow-half"),
]
PERHEFED_LONG = [
    *_above(
        "perhefed_cifar",
        "local",
        "Local",
        {
            "fedavg": "FedAvg",
            "all": "all layers",
            "half": "half of the layers",
            "all-same-start": "all layers, one start",
        },
        "narrow-long-",
    ),
    Pair(
        "all layers, own starts − one start",
        "perhefed_cifar.narrow-long-all",
        "perhefed_cifar.narrow-long-all-same-start",
    ),
]


def _fedin(prefix: str, *names: tuple[str, str], rounds: Rounds | None = None, note: str = "") -> list[Pair]:
    return [
        Pair(
            f"{FEDIN_TITLES[one]} − {FEDIN_TITLES[other]}{note}",
            f"fedin_cifar.{prefix}{one}",
            f"fedin_cifar.{prefix}{other}",
            rounds,
        )
        for one, other in names
    ]


_LEAD, _IN, _PROX = ("fedin", "fedavg"), ("without-prox", "fedavg"), ("fedin", "without-prox")
_ALONE, _BOTH = ("without-in", "fedavg"), ("fedin", "without-in")
_WEAKER, _STRONGER = ("prox-0.005", "fedin"), ("prox-0.5", "fedin")

FEDIN = [
    *_fedin("", _LEAD, _IN, _PROX, ("prox-0.005", "fedavg"), rounds=(4, 52)),
    *_fedin("", _PROX, rounds=(101, 120)),
    *_fedin("", _LEAD, rounds=(4, 136)),
]
FEDIN_SMALL = [
    *_fedin("small-", _LEAD, _IN, _PROX, _ALONE, _BOTH, _WEAKER, ("prox-0.005", "fedavg"), ("fedin", "without-opt")),
    *_fedin("small-", ("own-statistics", "fedin")),
    *_fedin("small-fashion-", _LEAD, _IN, note=", Fashion-MNIST"),
]
FEDIN_NARROW = [
    *_fedin(
        "narrow-",
        _LEAD,
        _IN,
        _PROX,
        _ALONE,
        _BOTH,
        ("fedin", "without-opt"),
        _WEAKER,
        _STRONGER,
        ("prox-0.5", "fedavg"),
    ),
    *_fedin("narrow-", *((f"noise-{level}", "fedin") for level in (0.2, 0.8, 2.0, 5.0)), ("exact", "local")),
    *_fedin("half-", _LEAD, _IN, _PROX, _STRONGER, note=", half as wide"),
]
FEDIN_STEPS = [
    *_fedin("narrow-partial-", _LEAD, note=", two of ten a round"),
    *_fedin("narrow-longer-", _LEAD, note=", longer training"),
    *_fedin("narrow-cifar-", _LEAD, _IN, ("own-statistics", "fedavg"), note=", CIFAR-10", rounds=(5, 25)),
    *_fedin("narrow-whole-", _LEAD, _ALONE, note=", 100 participants", rounds=(10, 150)),
    *_fedin("narrow-trained-", _LEAD, note=", own networks, Fashion-MNIST"),
    *_fedin("narrow-cifar-trained-", _LEAD, note=", own networks, CIFAR-10", rounds=(5, 25)),
    *_fedin("narrow-whole-trained-", _LEAD, note=", own networks, 100 participants", rounds=(10, 50)),
    Pair(
        "FedIN, weights nudged − FedIN, CIFAR-10",
        "fedin_cifar.narrow-cifar-fedin-nudged",
        "fedin_cifar.narrow-cifar-fedin",
        (5, 25),
    ),
    Pair(
        "FedAvg, weights nudged − FedAvg, CIFAR-10",
        "fedin_cifar.narrow-cifar-fedavg-nudged",
        "fedin_cifar.narrow-cifar-fedavg",
        (5, 25),
    ),
]
FEDIN_LONG = [
    *_fedin("narrow-long-", _LEAD, rounds=(1, 100)),
    *_fedin("narrow-long-", _LEAD, _IN, _PROX, _ALONE, _BOTH, _STRONGER, rounds=(201, 500)),
]
FEDIN_HOME = [
    *_fedin("parameters-", _LEAD, rounds=(4, 76)),
    *_fedin("parameters-", _LEAD, rounds=(107, 136)),
    *_fedin("half-parameters-", _LEAD, _IN, _PROX, note=", half as wide"),
    *_fedin("narrow-long-parameters-", _LEAD, rounds=(1, 100), note=", narrow"),
    *_fedin("narrow-long-parameters-", _LEAD, _IN, _PROX, rounds=(201, 500), note=", narrow"),
    Pair("FedAvg, statistics at home − travelling", "fedin_cifar.parameters-fedavg", "fedin_cifar.fedavg", (4, 52)),
    Pair("FedAvg, at home − travelling, half as wide", "fedin_cifar.half-parameters-fedavg", "fedin_cifar.half-fedavg"),
    Pair(
        "FedAvg, at home − travelling, narrow",
        "fedin_cifar.narrow-long-parameters-fedavg",
        "fedin_cifar.narrow-long-fedavg",
        (201, 500),
    ),
]
