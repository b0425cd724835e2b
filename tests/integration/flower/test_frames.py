"""Data frames and preprocessing where participants are elsewhere: what is brought stays there, as on one machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from potluck import Federation, Participant, Plan
from potluck.methods import CoFED, FedAvg, Local
from tests.flower.fakes import FakeGrid, client_of, served, shared
from tests.tables import agree


def frame(rows, seed):
    random = np.random.default_rng(seed)
    found = pd.DataFrame(random.normal(size=(rows, 3)), columns=["a", "b", "c"])
    return found.assign(y=np.where(found["a"] > 0, "high", "low"))


def network(input_shape, classes):
    return nn.Linear(*input_shape, classes).double()


PUBLIC = frame(12, 8).drop(columns="y")


def with_town(table):
    return table.assign(town=pd.Categorical(["x"] * len(table)))


def people(method):
    test = frame(20, 9)
    for seed in range(2):
        own = {"test": (test, "y"), "plan": Plan(lr=0.05), "preprocess": StandardScaler()}
        yield Participant(f"p{seed}", network, (frame(30, seed), "y"), **own)
    if not isinstance(method, FedAvg):
        tree = HistGradientBoostingClassifier(max_iter=3, categorical_features="from_dtype")
        own, test = (with_town(table) if isinstance(method, Local) else table for table in (frame(30, 5), test))
        yield Participant("tree", tree, (own, "y"), test=(test, "y"))


@pytest.mark.parametrize("method", [Local(), FedAvg(), CoFED(update_batch_size=16)], ids=["Local", "FedAvg", "CoFED"])
def test_frames_and_preprocessing_elsewhere_give_the_same_history(method, tmp_path):
    public = PUBLIC if method.requires().public != "nothing" else None
    load = None if public is None else lambda seed: shared(PUBLIC)
    members = list(people(method))
    grid = FakeGrid(client_of(person, tmp_path, public=load) for person in members)
    federation = served(grid, method, [person.name for person in members], public=public)
    here = Federation(people(method), method, public=public, seed=3, engine="serial")
    agree(federation.run(2).rows(), here.run(2).rows(), 1e-12)
