from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler, TargetEncoder

from potluck import Classification, DataError, ModelError, Samples, SettingsError
from potluck.federation.preprocessing import Preprocessing
from potluck.ingestion.user_data import read_inputs

FRAME = pd.DataFrame({"age": [30.0, np.nan, 52.0, 40.0], "stage": ["I", "II", "I", "III"]})
Y = torch.tensor([0, 1, 0, 1])
COLUMNS = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["stage"]), (SimpleImputer(), ["age"]))


def samples(x=FRAME):
    return read_inputs(x, "clinic").with_targets(y=Y)


def fitted(transformer=COLUMNS, rows=None, x=FRAME):
    prepared = Preprocessing(transformer, "clinic")
    prepared.fit(samples(x).take(torch.arange(4) if rows is None else rows), Classification(("no", "yes")), 0)
    return prepared


def test_it_is_fitted_on_the_rows_it_is_given_alone():
    found = fitted(rows=torch.tensor([0, 2]))(samples()).for_network("clinic")
    assert found.x.tolist() == [[1.0, 30.0], [0.0, 41.0], [1.0, 52.0], [0.0, 40.0]]
    assert found.y is not None


def test_the_transformer_that_was_brought_stays_as_it_is():
    scaler = StandardScaler()
    fitted(scaler, x=np.eye(4))
    assert not hasattr(scaler, "mean_")


def test_labels_reach_transformers_that_learn_from_them():
    found = fitted(TargetEncoder(smooth=0.001), x=FRAME[["stage"]])(samples(FRAME[["stage"]]))
    assert found.x[:, 0].tolist() == pytest.approx([0.0, 1.0, 0.0, 1.0], abs=0.01)


def test_what_it_draws_has_a_seed():
    transformer = QuantileTransformer(n_quantiles=2, subsample=3)
    one, other = (fitted(transformer, x=np.arange(4.0)[:, None])(samples(np.ones((4, 1)))) for _ in range(2))
    assert torch.equal(one.x, other.x)
    assert transformer.random_state is None


@pytest.mark.parametrize(
    ("transformer", "x"),
    [
        (COLUMNS, FRAME),
        (TfidfVectorizer(), ["so bad", "good", "very good", "bad"]),
        (StandardScaler(), np.arange(8.0).reshape(4, 2)),
    ],
)
def test_it_is_kept_and_read_back(transformer, x):
    prepared = fitted(transformer, x=x)
    prepared.check_keepable(samples(x))
    again = fitted(transformer, torch.tensor([0, 1]), x)
    again.check_keepable(samples(x))
    again.restore(prepared.state())
    assert torch.equal(again(samples(x)).for_network("p").x, prepared(samples(x)).for_network("p").x)


class Strange:
    """A transformer that gives other rows."""

    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return x[:-1]


def test_what_is_no_transformer_is_refused():
    with pytest.raises(SettingsError, match="clinic: preprocess is 3; expected a scikit-learn transformer"):
        Preprocessing(3, "clinic")


def test_what_cannot_be_fitted_or_transformed_is_told():
    with pytest.raises(ModelError, match="clinic: StandardScaler could not be fitted: could not convert"):
        fitted(StandardScaler())
    with pytest.raises(DataError, match="clinic: StandardScaler cannot transform these inputs: X has 3 features"):
        fitted(StandardScaler(), x=np.eye(4))(Samples({"x": torch.ones(1, 3)}))
    with pytest.raises(DataError, match="clinic: Strange made 3 rows of 4; expected one of each"):
        fitted(Strange(), x=np.eye(4))(samples(np.eye(4)))


def test_a_pipeline_of_several_steps_works():
    assert fitted(make_pipeline(COLUMNS, StandardScaler()))(samples()).x.shape == (4, 4)


def test_every_seed_is_one_that_scikit_learn_takes():
    """It takes those below 2**32."""
    for seed in range(8):
        prepared = Preprocessing(QuantileTransformer(n_quantiles=2, subsample=3), "clinic")
        prepared.fit(samples(np.arange(4.0)[:, None]), Classification(("no", "yes")), seed)
        assert prepared(samples(np.ones((4, 1)))).x.shape == (4, 1)
