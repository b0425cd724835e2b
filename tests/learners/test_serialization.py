"""Estimators as bytes and back: through skops, or as they do it themselves; never through pickle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from potluck.core.errors import ModelError
from potluck.learners.serialization import dump_estimator, load_estimator, try_out

X = np.random.default_rng(0).normal(size=(30, 4))
Y = (X[:, 0] > 0).astype(int)


def fit(model):
    model.fit(X, Y)


def answers(model):
    return model.predict(X).tolist()


class Majority:
    """Keeps itself in a file of its own."""

    said = None

    def fit(self, x, y):
        self.said = int(np.bincount(y).argmax())
        return self

    def predict(self, x):
        return np.full(len(x), self.said)

    def save(self, path):
        Path(path).write_text(json.dumps({"said": self.said}))

    def load(self, path):
        self.said = json.loads(Path(path).read_text())["said"]


@pytest.mark.parametrize("model", [DecisionTreeClassifier(random_state=0), RandomForestClassifier(3, random_state=0)])
def test_what_was_fitted_answers_the_same_when_read_back(model):
    types = try_out(model, fit, answers, "clinic")
    assert not hasattr(model, "classes_"), "it is tried out on a copy"
    model.fit(X, Y)
    kept = dump_estimator(model)
    assert kept.dtype == torch.uint8
    back = load_estimator(kept, type(model)(), types)
    assert back is not model
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


def test_an_estimator_that_keeps_itself_is_asked_to():
    fitted, fresh = Majority().fit(X, np.ones(30, dtype=int)), Majority()
    assert try_out(fitted, fit, answers, "clinic") == []
    assert dump_estimator(fitted).numpy().tobytes() == b'{"said": 1}'
    assert load_estimator(dump_estimator(fitted), fresh, []) is fresh
    assert fresh.said == 1


def test_types_that_its_owner_did_not_bring_are_not_built():
    class Own(DecisionTreeClassifier):
        pass

    Own.__module__, Own.__qualname__ = __name__, "Own"
    globals()["Own"] = Own
    kept = dump_estimator(Own().fit(X, Y))
    with pytest.raises(ModelError, match=r"The kept Own holds types it should not .*'tests\.learners.*Own'"):
        load_estimator(kept, Own(), [])


class Forgetful(Majority):
    def load(self, path):
        self.said = 7


class Broken(Majority):
    def save(self, path):
        raise OSError("no room")


def test_what_cannot_be_fitted_is_not_said_to_be_unfit_for_a_folder():
    def gaps(model):
        raise ValueError("could not convert string to float")

    with pytest.raises(
        ModelError, match=r"clinic: Majority could not be fitted to a few of its samples.*: could not conv"
    ):
        try_out(Majority(), gaps, answers, "clinic")


@pytest.mark.parametrize(
    ("model", "why"), [(Forgetful(), "it answers differently when read back"), (Broken(), "no room")]
)
def test_what_cannot_be_kept_is_known_before_the_run(model, why):
    with pytest.raises(
        ModelError, match=rf"clinic: {type(model).__name__} cannot be kept in a run folder: {why}\. Give it"
    ):
        try_out(model, fit, answers, "clinic")
