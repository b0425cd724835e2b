"""Data frames in federations: an estimator gets them as they are, a network what its owner's preprocessing makes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
from xgboost import XGBClassifier

from potluck import DataError, Federation, Participant, Plan
from potluck.methods import CoFED, FedAvg, Local
from tests.tables import agree

NUMBERS = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore", categories=[["east", "west"]]), ["town"]),
    (make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
)
PLAN = Plan(lr=0.05, batch_size=16)


def patients(rows, seed, labels=("ill", "well")):
    """Whoever is older and lives in the east is ill more often; some ages are unknown."""
    random = np.random.default_rng(seed)
    age, town = random.normal(50, 15, rows), random.choice(["east", "west"], rows)
    ill = age + 20 * (town == "east") + random.normal(0, 3, rows) > 60
    known = np.where(random.random(rows) < 0.1, np.nan, age)
    noise = random.normal(size=rows).astype("float32")
    frame = pd.DataFrame({"age": known, "noise": noise, "town": pd.Categorical(town, ["east", "west"])})
    return frame.assign(state=np.where(ill, labels[0], labels[-1]))


def network(input_shape, classes):
    return nn.Sequential(nn.Linear(*input_shape, 8), nn.Tanh(), nn.Linear(8, classes)).double()


def people():
    trees = {
        "xgboost": XGBClassifier(n_estimators=5, enable_categorical=True),
        "lightgbm": LGBMClassifier(n_estimators=5, verbose=-1),
    }
    for seed, (name, model) in enumerate(trees.items()):
        yield Participant(name, model, (patients(60, seed), "state"))
    for seed in range(3):
        data = (patients(60, 10 + seed), "state")
        yield Participant(f"network{seed}", network, data, plan=PLAN, preprocess=NUMBERS, validation=0.2)


def federation(engine="serial", method=None, members=people, **settings):
    public = patients(40, 99).drop(columns="state")
    shared = {"public": public, "test": (patients(50, 98), "state"), **settings}
    return Federation(members(), method or CoFED(alpha=0.3), seed=1, engine=engine, **shared)


def test_networks_and_boosted_trees_learn_from_one_table_on_each_engine():
    serial, batched = federation(), federation("batched")
    one, other = serial.run(2), batched.run(2)
    agree(one.rows(), other.rows(), 1e-9)
    last = {row["participant"]: row["accuracy"] for row in one.at(2).rows}
    assert min(last.values()) > 0.7
    assert serial.participants["network0"].data.x.shape == (48, 4)


def test_a_run_goes_on_with_the_preprocessing_it_had(tmp_path):
    unbroken = federation().run(2)
    federation().run(1, run_dir=tmp_path)
    again = federation()
    agree(again.run(2, run_dir=tmp_path, resume=True).rows(), unbroken.rows(), 0)
    frame = patients(5, 7).drop(columns="state")
    assert {person.predict(frame).shape for person in again.participants.values()} == {(5,)}


def test_on_disk_nothing_changes():
    agree(federation(storage="disk").run(1).rows(), federation().run(1).rows(), 0)


def test_preprocessing_is_fitted_on_the_rows_that_are_trained_on():
    member = Participant("clinic", network, (patients(50, 0), "state"), preprocess=NUMBERS, validation=0.5)
    Federation([member], Local(), seed=4)
    scaled = member.data.x[:, 2:]
    assert abs(scaled.mean(dim=0)).max() < 1e-6
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.ones(2, dtype=scaled.dtype))
    assert abs(member.validation.x[:, 2:].mean(dim=0)).max() > 1e-6


def test_a_network_without_preprocessing_is_told_the_way_out():
    with pytest.raises(DataError, match=r"clinic: a torch module reads numbers, .*'town' \(category\).*preprocess="):
        Federation([Participant("clinic", network, (patients(50, 0), "state"))], Local())


def test_numbers_need_no_preprocessing():
    def members():
        for seed in range(2):
            data = patients(40, seed).drop(columns=["town"]).fillna(50)
            data[["age", "noise"]] = data[["age", "noise"]] / 50
            yield Participant(f"p{seed}", network, (data, "state"), plan=PLAN)

    def run(engine):
        return federation(engine, FedAvg(), members, public=None, test=None).run(1).rows()

    agree(run("serial"), run("batched"), 1e-9)
