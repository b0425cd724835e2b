"""The claims of DraftFed's page."""

from __future__ import annotations

import numpy as np

from evidence.checks import accuracy
from evidence.claims.kinds import Claims, Value, bytes_up, claim, difference, every, gain, ratio, sign, within
from evidence.outcomes import Results

D = "draftfed_cifar."


def _far_from_published(results: Results) -> str:
    return f"{62.76 - np.mean(accuracy('draftfed_cifar.local')(results)):.0f}"


def _share_is_smaller(family: str) -> Value:
    """By how many percent the share of the mean model is below the mean of the devices' shares."""

    def found(results: Results) -> str:
        shares = results.read("counts.draftfed")[family]
        whole, each = shares["share of the mean model"]["128"], shares["mean of the devices' shares"]["128"]
        return f"{100 * (1 - whole / each):.0f}"

    return found


def _sent(results: Results) -> str:
    return f"{results.read('counts.draftfed')['DenseNets']['values sent']['128']['densenet121']:,}"


CLAIMS = Claims(
    numbers=[
        claim("published**: {} points, where", difference("draftfed_cifar.draftfed", "draftfed_cifar.local")),
        claim(
            "logits alone gains {}, and the two", difference("draftfed_cifar.draftfed-logits", "draftfed_cifar.local")
        ),
        claim("are some {} points lower", _far_from_published),
        claim("smaller by {}% and {}%", _share_is_smaller("ResNets"), _share_is_smaller("DenseNets")),
        claim("Ours sends {} for a DenseNet121", _sent),
    ],
    words=[
        ("half as much as published", within(0.6, gain(f"{D}draftfed", f"{D}local"), 0.8)),
        ("and the two are not told apart", sign(f"{D}draftfed", f"{D}draftfed-logits")),
        (
            "the logits alone gain more than twice as much",
            within(
                2,
                ratio(
                    gain(f"{D}narrow-draftfed-logits", f"{D}narrow-local"),
                    gain(f"{D}narrow-draftfed", f"{D}narrow-local"),
                ),
                3,
            ),
        ),
        (
            "at a two-hundredth of the bytes",
            within(150, ratio(bytes_up(f"{D}narrow-draftfed"), bytes_up(f"{D}narrow-draftfed-logits")), 250),
        ),
        (
            "With CIFAR-10 DraftFed is not told apart from Local, and the logits are above both",
            every(
                sign(f"{D}narrow-cifar-draftfed", f"{D}narrow-cifar-local"),
                sign(f"{D}narrow-cifar-draftfed-logits", f"{D}narrow-cifar-local", None, 1),
                sign(f"{D}narrow-cifar-draftfed-logits", f"{D}narrow-cifar-draftfed", None, 1),
            ),
        ),
        (
            "Shared inputs of another kind show no gain",
            every(
                sign(f"{D}narrow-cifar-draftfed-cifar100", f"{D}narrow-cifar-local"),
                sign(f"{D}narrow-cifar-draftfed-svhn", f"{D}narrow-cifar-local"),
                sign(f"{D}narrow-draftfed-mnist", f"{D}narrow-local"),
            ),
        ),
    ],
    given=(
        "1e-4 1e-3 1 1.4 3 4 5 8 10 16 17 18 20 26 "
        "32 34 50 64 68.84 68.86 68.92 101 128 152 200 256 512 1,024 2,228,352"
    ),
)
