"""Data in the forms that users have, on both engines: token ids with masks, frames, signals, weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from potluck import Federation, Participant, Plan
from potluck.methods import FD, MHAT, CoFED, FedAvg, Local
from tests.tables import agree

PLAN = Plan(lr=0.02, batch_size=8)


class Reader(nn.Module):
    """Reads token ids where the mask lets it, and answers in a dict."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, ids, mask):
        words = self.words(ids) * mask[..., None]
        return {"logits": self.head(words.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1))}


def texts(rows, seed):
    """Texts are about the first of their tokens; what the mask leaves out is noise."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, 20, (rows, 5))
    return {"ids": ids, "mask": np.arange(5) < random.integers(1, 6, (rows, 1))}, ids[:, 0] % 2


def readers():
    torch.manual_seed(0)
    return [Participant(f"p{seed}", Reader().double(), texts(30, seed), plan=PLAN) for seed in range(3)]


@pytest.mark.parametrize("method", [FedAvg, CoFED, FD])
def test_token_ids_with_masks(method):
    def run(engine):
        shared = {"public": texts(12, 8)[0], "test": texts(20, 9)}
        return Federation(readers(), method(), engine=engine, seed=1, **shared).run(2).rows()

    agree(run("serial"), run("batched"), 1e-9)


def frame(rows, seed):
    random = np.random.default_rng(seed)
    found = pd.DataFrame(random.normal(size=(rows, 3)), columns=["a", "b", "c"])
    return found.assign(y=np.where(found["a"] > 0, "high", "low"))


def network(input_shape, classes):
    return nn.Sequential(nn.Linear(*input_shape, 5), nn.Tanh(), nn.Linear(5, classes)).double()


@pytest.mark.parametrize("method", [MHAT(first_epochs=1), FD()])
def test_public_frames_of_numbers(method):
    def run(engine):
        people = [Participant(f"p{seed}", network, (frame(30, seed), "y"), plan=PLAN) for seed in range(2)]
        public = frame(12, 8).drop(columns="y")
        return Federation(people, method, public=public, test=(frame(20, 9), "y"), engine=engine).run(2).rows()

    agree(run("serial"), run("batched"), 1e-9)


def test_a_signal_here_and_a_table_there():
    random = np.random.default_rng(0)
    ecg = random.normal(size=(20, 1, 30))
    conv = nn.Sequential(nn.Conv1d(1, 3, 5), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 2)).double()
    people = [
        Participant("ecg", conv, (ecg, ["high", "low"] * 10), test=(ecg, ["high", "low"] * 10)),
        Participant("table", RandomForestClassifier(3), (frame(20, 1), "y"), test=(frame(20, 2), "y")),
        Participant("net", network, (frame(20, 1), "y"), test=(frame(20, 2), "y")),
    ]
    assert all(row["accuracy"] is not None for row in Federation(people, Local()).run(1).rows())


def test_weights_of_samples_decide_what_is_learned():
    x = np.tile([[1.0, 0.0, 0.0]], (20, 1))
    y, weight = np.array([0, 1] * 10), np.array([1.0, 9.0] * 10)

    def run(engine):
        plan = Plan(lr=0.1, epochs=30)
        people = [Participant(f"p{n}", network, (x, y, weight), plan=plan, test=(x, y)) for n in range(2)]
        federation = Federation(people, FedAvg(), engine=engine)
        rows = federation.run(1).rows()
        return rows, federation.participants["p0"].predict_proba(x[:1])[0, 1]

    (one, answer), (other, _) = run("serial"), run("batched")
    agree(one, other, 1e-9)
    assert answer == pytest.approx(0.9, abs=0.03)
