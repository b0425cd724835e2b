"""The claims of docs/evidence.md."""

from __future__ import annotations

import numpy as np

from evidence.checks import VERDICTS, accuracy, mean_gain
from evidence.claims.kinds import Claims, Value, claim, mean, mean_difference, most_and_least
from evidence.claims.mhat import accuracies_come_back, times_fd
from evidence.rows import paper_verdict, rows, tried
from evidence.statements import ADULT, IID, NON_IID


def _verdict(paper: str) -> Value:
    return lambda results: paper_verdict(paper, results)


def _tried(name: str) -> Value:
    return lambda results: str(tried(results)[name])


CLAIMS = Claims(
    numbers=[
        *(
            claim(f"[{paper}](evidence/{paper.lower()}.md) | {{}} |", _verdict(paper))
            for paper in dict.fromkeys(row.paper for row in rows())
        ),
        claim("gain {}% and {}%, published", mean(mean_gain(*IID)), mean(mean_gain(*NON_IID))),
        claim("on Adult {}% where", mean(mean_gain(*ADULT))),
        claim("DraftFed ends {} points above", mean_difference("draftfed_cifar.draftfed", "draftfed_cifar.local")),
        claim("FedIN is {} points behind", mean_difference("fedin_cifar.fedavg", "fedin_cifar.fedin", (4, 52))),
        claim(
            "lead by {} after round",
            mean_difference("fedin_cifar.narrow-long-fedin", "fedin_cifar.narrow-long-fedavg", (201, 500)),
        ),
        claim("MHAT takes {} to {} times FD's rounds", *most_and_least(times_fd, 1)),
        claim("all layers ends {} points below", mean_difference("perhefed_cifar.fedavg", "perhefed_cifar.all")),
        claim(
            "Of {} with results in the papers, {} came back, {} in part, {} did not, and {} are",
            lambda results: str(len(rows())),
            *(_tried(verdict) for verdict in VERDICTS),
        ),
    ],
    words=[
        (
            "all accuracies are far lower",
            lambda results: float(np.mean(accuracy("draftfed_cifar.draftfed")(results))) < 50,
        ),
        ("Accuracies with labelled public data come back", accuracies_come_back),
    ],
    given="1.4 4 8.5 10 17.3 18 20 26 34 35.6 50 52 95 101 152 200",
)
