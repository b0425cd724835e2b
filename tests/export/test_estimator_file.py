"""Estimators on disk: by skops, by XGBoost, or by themselves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier, XGBRegressor

from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.export.estimator_file import NAMES, class_of, read_estimator, write_estimator
from potluck.models import build

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)


def there_and_back(model, folder, trusted=()):
    kind = write_estimator(model, folder, "ann")
    return kind, read_estimator(kind, class_of(model), folder / NAMES[kind], trusted)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(3),
        HistGradientBoostingClassifier(max_iter=3),
        KNeighborsClassifier(),
        MLPClassifier((4,), max_iter=3),
        make_pipeline(StandardScaler(), DecisionTreeClassifier()),
        build("additive", (3,), 2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_scikit_learn_by_skops_without_naming_types(model, tmp_path):
    model.fit(X, Y)
    kind, found = there_and_back(model, tmp_path)
    assert kind == "skops"
    assert np.array_equal(found.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", [XGBClassifier, XGBRegressor])
def test_xgboost_in_its_own_format(kind, tmp_path):
    model = kind(n_estimators=3).fit(X, Y)
    written, found = there_and_back(model, tmp_path)
    assert written == "xgboost"
    assert np.allclose(found.predict(X), model.predict(X))


class Saved:
    """An estimator that keeps itself."""

    def save(self, path):
        with open(path, "w") as file:
            file.write("mine")

    def load(self, path):
        """There is nothing to read."""


def test_one_that_keeps_itself(tmp_path):
    assert write_estimator(Saved(), tmp_path, "ann") == "own"
    assert (tmp_path / "model").read_text() == "mine"
    with pytest.raises(ModelError, match=r"written by tests.*Saved itself.*load\(path\)"):
        read_estimator("own", class_of(Saved()), tmp_path / "model", ())


def doubled(x):
    return 2 * x


def test_strange_types_are_named_and_may_be_trusted(tmp_path):
    model = make_pipeline(FunctionTransformer(doubled), DecisionTreeClassifier()).fit(X, Y)
    with pytest.raises(SettingsError, match=r"not known to be harmless: tests.*doubled.*--trust") as raised:
        there_and_back(model, tmp_path)
    name = str(raised.value).partition("harmless: ")[2].partition(". If")[0]
    _, found = there_and_back(model, tmp_path, trusted=[name])
    assert np.array_equal(found.predict(X), model.predict(X))


def test_what_cannot_be_written_is_told(tmp_path):
    model = make_pipeline(FunctionTransformer(lambda x: x), DecisionTreeClassifier()).fit(X, Y)
    with pytest.raises(ModelError, match="ann: Pipeline cannot be exported"):
        write_estimator(model, tmp_path, "ann")


@pytest.mark.parametrize(("kind", "model"), [("skops", "x"), ("xgboost", "xgboost.sklearn.XGBClassifier")])
def test_damaged_files_and_pickles_are_told(kind, model, tmp_path):
    for data in (b"", b"damaged", pickle.dumps({"a": 1})):
        (tmp_path / NAMES[kind]).write_bytes(data)
        with pytest.raises(DataError, match="cannot be read by"):
            read_estimator(kind, model, tmp_path / NAMES[kind], ())


def test_no_other_class_is_imported(tmp_path):
    with pytest.raises(DataError, match="expected one of xgboost"):
        read_estimator("xgboost", "os.path", tmp_path / "model.ubj", ())
