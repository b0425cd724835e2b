"""What the tables call each setting, and what was published for it."""

from __future__ import annotations

from collections.abc import Mapping

MHAT_PUBLISHED = {
    ("mhat", "labelled", 3): "95.19 (62)",
    ("fd", "labelled", 3): "95.29 (188)",
    ("mhat", "labelled", 20): "95.32 (150)",
    ("fd", "labelled", 20): "95.38 (176)",
    ("mhat", "unlabelled", 3): "93.88 (83)",
    ("fd", "unlabelled", 3): "93.89 (170)",
    ("mhat", "unlabelled", 20): "94.23 (83)",
    ("fd", "unlabelled", 20): "94.72 (169)",
}
MHAT_SETTINGS = [("labelled", 3), ("labelled", 20), ("unlabelled", 3), ("unlabelled", 20)]
MHAT_ROUNDS = 200
NAMES = {"local": "Local", "fd": "FD", "mhat": "MHAT"}
ADULT = {
    "cofed": "CoFED",
    "cofed-weighted": "CoFED, class-weighted update",
    "cofed-alpha-0.3": "CoFED, α = 0.3",
}
ADULT_RAW = {"raw-cofed": "CoFED"}
ADULT_KINDS = {
    "local": "Local",
    **ADULT,
    "raw-local": "Local, columns as in the census",
    "raw-cofed": "CoFED, columns as in the census",
}
COFED = {"cofed": "CoFED", "cofed-margin": "CoFED, margin 0.3", "local-longer": "Local, twice as long"}
COFED_PUBLISHED = {"iid-cofed": "17.3", "non-iid-cofed": "35.6"}
FEDIN_SENT_PUBLISHED = {"FedAvg": "12.28", "SCAFFOLD": "24.56", "MOON": "12.28", "FedIN": "12.35"}
FEDIN_ROUNDS_PUBLISHED = {"fedavg": "109", "fedin": "54"}
FEDIN_TITLES = {
    "local": "Local",
    "fedavg": "FedAvg, layer-wise",
    "without-in": "FedIN without IN",
    "without-prox": "FedIN without Prox",
    "without-opt": "FedIN without Opt",
    "fedin": "FedIN",
    "own-statistics": "FedIN, statistics of local batches alone",
    "exact": "FedIN, eq. 12",
    **{f"noise-{level}": f"FedIN, noise {level}σ" for level in (0.2, 0.8, 2.0, 5.0)},
    "prox-0.005": "FedIN, Prox ten times weaker",
    "prox-0.5": "FedIN, Prox ten times stronger",
}
FEDIN_BOTH = {name: FEDIN_TITLES[name] for name in ("fedavg", "fedin")}
PROXIMAL_DIGITS = {"cross-entropy": 2, "proximal loss": 2, "ratio of gradients": 3}
"""With how many digits each measure of Prox is shown."""
FEDIN_STRETCHES = [(1, 20), (21, 40), (41, 60), (61, 80), (81, 100), (101, 120), (121, 136)]
FEDIN_PARAMETERS_STRETCHES = [(1, 40), (41, 76), (77, 106), (107, 136), (137, 196), (197, 256)]
FEDIN_LONG_STRETCHES = [(1, 100), (101, 200), (201, 300), (301, 400), (401, 500)]
FEDIN_NARROW_STRETCHES = [(1, 50), (51, 100), (101, 150), (151, 200), (201, 250), (251, 290)]
FEDIN_CIFAR_PUBLISHED = {
    "fedavg": "66.2",
    "without-in": "72.0",
    "without-prox": "66.4",
    "without-opt": "74.9",
    "fedin": "75.9",
    "noise-0.2": "76.4",
    "noise-0.8": "77.3",
    "noise-2.0": "73.5",
    "noise-5.0": "30.6",
}
FEDIN_FASHION_PUBLISHED = {
    "fedavg": "89.4",
    "fedin": "90.3",
    "noise-0.2": "90.4",
    "noise-0.8": "90.7",
    "noise-2.0": "88.7",
    "noise-5.0": "69.4",
}
PERHEFED = {
    "local": "Local",
    "fedavg": "FedAvg",
    "fedavg-own-norms": "FedAvg, own BatchNorm",
    "all": "PerHeFed, all layers",
    "half": "PerHeFed, half of the layers",
    "all-same-start": "all layers, one start",
    "all-same-start-fresh": "all layers, one start, a new Adam every round",
    "half-same-start": "half of the layers, one start",
    "same-half": "the same half",
    "same-half-same-start": "the same half, one start",
    "all-trained": "all layers, measured after training",
    "half-trained": "half of the layers, measured after training",
}
DRAFTFED = {
    "local": "Local",
    "draftfed": "DraftFed",
    "draftfed-logits": "DraftFed, logits alone",
    "draftfed-mnist": "DraftFed, inputs from MNIST",
    "draftfed-cifar100": "DraftFed, inputs from CIFAR-100",
    "draftfed-svhn": "DraftFed, inputs from SVHN",
}


def prefixed(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings at another scale."""
    return {f"{prefix}{name}": title for name, title in settings.items()}


def narrow(settings: Mapping[str, str], kind: str = "") -> dict[str, str]:
    """The same settings at the scale of a CPU."""
    return prefixed(f"narrow-{kind}", settings)


PERHEFED_PUBLISHED = {"all": "75.4, with DenseNet121", "half": "61.2, with DenseNet121"}
"""Means of ResNet34 and DenseNet121."""
