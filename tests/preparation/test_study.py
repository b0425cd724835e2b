"""Tables with columns and codes of their own: described, prepared alike, and trained on together."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import potluck

SITES = ("cleveland", "hungary", "switzerland", "virginia")
TELL_ALL = potluck.Disclosure(min_count=1)
PLAN = potluck.Plan(optimizer="sgd", lr=0.2, epochs=2, batch_size=16)


def site(number):
    """A hospital's table, as the four of Heart Disease: columns that others lack, codes of its own, gaps."""
    random = np.random.default_rng(number)
    rows = 40 + 7 * number
    frame = pandas.DataFrame(
        {
            "age": random.normal(50 + 3 * number, 8, rows),
            "cp": random.choice(["typical", "atypical", "none"][: 2 + number % 2], rows),
            "chol": random.normal(220, 40, rows),
            "oldpeak": random.exponential(1.0, rows),
        }
    )
    frame.loc[random.random(rows) < 0.2, "chol"] = None
    if number == 1:
        frame = frame.drop(columns="oldpeak")
    if number == 2:
        frame["ca"] = random.integers(0, 4, rows)
    return frame, (frame["age"] + random.normal(0, 4, rows) > 54).astype(int).to_numpy()


def described(**settings):
    return potluck.describe(
        [potluck.Participant(name, net, site(i), disclosure=TELL_ALL) for i, name in enumerate(SITES)],
        **settings,
    )


def pooled():
    """The same preparation by scikit-learn, on all tables together."""
    whole = pandas.concat([site(i)[0] for i in range(4)], ignore_index=True)
    numbers = ["age", "ca", "chol", "oldpeak"]
    scaled = StandardScaler().fit(whole[numbers])
    codes = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(whole[["cp"]])

    def prepare(frame):
        full = frame.reindex(columns=[*numbers, "cp"])
        return np.concatenate([np.nan_to_num(scaled.transform(full[numbers])), codes.transform(full[["cp"]])], axis=1)

    return prepare


def net(input_shape, classes):
    return nn.Sequential(nn.Linear(input_shape[0], 8), nn.ReLU(), nn.Linear(8, classes)).double()


def trained(people, engine="serial"):
    federation = potluck.Federation(people, potluck.methods.FedAvg(), seed=4, engine=engine)
    federation.run(3)
    return federation.participants["hungary"].weights()


def test_preparation_is_that_of_pooled_data():
    common, prepare = described().preprocessor(), pooled()
    for number in range(4):
        frame, _ = site(number)
        np.testing.assert_allclose(common.transform(frame), prepare(frame), rtol=0, atol=1e-6)


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_what_is_learned_is_what_pooled_preparation_gives(engine):
    common, prepare = described().preprocessor(), pooled()
    ours = trained(
        [
            potluck.Participant(name, net, site(i), plan=PLAN, labels=range(2), preprocess=common)
            for i, name in enumerate(SITES)
        ],
        engine,
    )
    tables = [(prepare(frame), y) for frame, y in map(site, range(4))]
    theirs = trained(
        [
            potluck.Participant(name, net, own, plan=PLAN, labels=range(2))
            for name, own in zip(SITES, tables, strict=True)
        ]
    )
    for name, entry in ours.items():
        torch.testing.assert_close(entry, theirs[name], rtol=0, atol=1e-6)
