from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from potluck import Fit, ModelError, Plan, PotluckError, Predict, Samples, Tap
from potluck.core.classification import Classification
from potluck.core.job import Job
from potluck.core.objectives import cross_entropy, hard_and_soft
from potluck.core.positions import PerPosition
from potluck.core.randomness import derive
from potluck.core.requests import Fitted
from potluck.ingestion.user_data import read_inputs
from potluck.learners.estimator import Estimator

CPU = torch.device("cpu")
LABELS = ("ant", "bee", "cat")
SAMPLES = Samples({"x": torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), "y": torch.arange(30) % 2})


class Recorder:
    """An estimator that only notes what it was given."""

    def fit(self, x, y):
        self.x, self.y = x, y

    def predict(self, x):
        return [self.y[0]] * len(x)


class Torn:
    """An estimator that fails."""

    random_state = None

    def get_params(self):
        return {"random_state": self.random_state}

    def set_params(self, random_state):
        self.random_state = random_state

    def fit(self, x, y):
        raise ValueError("no peace")

    def predict(self, x):
        raise ValueError("no peace")


def fit(model, samples=SAMPLES, seed=1, work=None, labels=LABELS):
    learner = Estimator(model, Classification(labels))
    return learner, learner.fit(Job("clinic", work or Fit(), learner, samples, Plan(), seed, 1), CPU)


def predict(learner, x, **settings):
    samples = Samples({"x": x})
    return learner.read(Job("clinic", Predict(samples, **settings), learner, samples, Plan(), 1, 1), CPU)


def test_an_estimator_sees_rows_of_numbers_and_its_owners_labels():
    learner, fitted = fit(Recorder())
    np.testing.assert_array_equal(learner.model.x, SAMPLES.x.numpy())
    assert learner.model.y.tolist() == ["ant", "bee"] * 15
    assert fitted == Fitted(steps=1)


def test_images_become_rows():
    images = Samples({"x": torch.arange(48).reshape(2, 2, 3, 4), "y": torch.tensor([0, 1])})
    learner, _ = fit(Recorder(), images)
    np.testing.assert_array_equal(learner.model.x, np.arange(48).reshape(2, 24))
    forest, _ = fit(DecisionTreeClassifier(), images)
    assert predict(forest, images.x).argmax(dim=1).tolist() == [0, 1]


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(4),
        make_pipeline(StandardScaler(), RandomForestClassifier(4)),
        BaggingClassifier(DecisionTreeClassifier(splitter="random"), 3),
    ],
    ids=["alone", "in a pipeline", "nested"],
)
def test_what_is_left_to_chance_comes_from_the_seed(model):
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(5))

    def after(seed):
        return predict(fit(model, seed=seed)[0], x)

    np.random.seed(1)
    first, second = after(1), after(2)
    np.random.seed(2)
    assert torch.equal(after(1), first)
    assert not torch.equal(first, second)


def states(model):
    return {name: value for name, value in model.get_params().items() if name.endswith("random_state")}


@pytest.mark.parametrize("model", [RandomForestClassifier(2), BaggingClassifier(DecisionTreeClassifier(), 2)])
def test_a_free_random_state_is_free_again_after_training(model):
    before = states(model)
    assert set(before.values()) == {None}
    fit(model)
    assert states(model) == before


def test_a_random_state_of_ones_own_is_kept():
    forest = RandomForestClassifier(4, random_state=7)
    alone = RandomForestClassifier(4, random_state=7).fit(SAMPLES.x.numpy(), np.array(LABELS)[SAMPLES.y.numpy()])
    learner, _ = fit(forest)
    assert forest.random_state == 7
    np.testing.assert_allclose(predict(learner, SAMPLES.x)[:, :2], alone.predict_proba(SAMPLES.x.numpy()), rtol=1e-6)


def test_the_random_state_is_that_of_the_job():
    forest = RandomForestClassifier(4, random_state=derive(3, "estimator") % 2**32)
    forest.fit(SAMPLES.x.numpy(), np.array(LABELS)[SAMPLES.y.numpy()])
    learner, _ = fit(RandomForestClassifier(4), seed=3)
    np.testing.assert_allclose(predict(learner, SAMPLES.x)[:, :2], forest.predict_proba(SAMPLES.x.numpy()), rtol=1e-6)


def test_a_failure_says_whose_it_was_and_frees_the_random_state():
    model = Torn()
    with pytest.raises(ModelError, match="clinic: Torn could not be fitted: no peace"):
        fit(model)
    assert model.random_state is None


def test_one_class_alone_may_be_too_few():
    with pytest.raises(ModelError, match=r"clinic: LogisticRegression could not be fitted: .*class"):
        fit(LogisticRegression(), SAMPLES.with_targets(y=torch.zeros(30, dtype=torch.int64)))


OVERLAP = Samples(
    {
        "x": torch.zeros(4, 1),
        "y": torch.tensor([0, 0, 0, 1]),
        "weight": torch.tensor([1.0, 1.0, 1.0, 9.0]),
    }
)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), make_pipeline(StandardScaler(), DecisionTreeClassifier())])
def test_weights_count_where_the_estimator_or_its_last_step_takes_them(model):
    learner, fitted = fit(model, OVERLAP)
    assert fitted.weighted
    torch.testing.assert_close(predict(learner, torch.zeros(1, 1)), torch.tensor([[0.25, 0.75, 0.0]]))


@pytest.mark.parametrize("model", [KNeighborsClassifier(4), make_pipeline(KNeighborsClassifier(4)), Recorder()])
def test_weights_that_cannot_count_are_noted(model):
    assert not fit(model, OVERLAP)[1].weighted


def test_without_weights_nothing_is_amiss():
    assert fit(KNeighborsClassifier(4))[1].weighted


@pytest.mark.parametrize(
    "work",
    [
        Fit(hard_and_soft),
        Fit([cross_entropy, cross_entropy]),
        Fit(mask={"weight": torch.ones(1)}),
        Fit(combine_gradients=lambda gradients, given: gradients[0]),
    ],
    ids=["objective", "objectives", "mask", "rule"],
)
def test_what_needs_gradients_is_refused(work):
    with pytest.raises(ModelError, match="clinic: GaussianNB cannot be trained with gradients"):
        fit(GaussianNB(), work=work)


def test_there_are_no_logits_and_no_layers():
    learner, _ = fit(GaussianNB())
    with pytest.raises(ModelError, match="clinic: GaussianNB has no logits"):
        predict(learner, SAMPLES.x, logits=True)
    with pytest.raises(ModelError, match="clinic: GaussianNB has no layers to look into"):
        learner.read(Job("clinic", Tap(SAMPLES, at=["0"]), learner, SAMPLES, Plan(), 1, 1), CPU)
    assert not learner.shows_layers


def test_classes_missing_in_the_data_have_no_probability():
    learner, _ = fit(GaussianNB(), SAMPLES.with_targets(y=2 * SAMPLES.y))
    found = predict(learner, SAMPLES.x)
    assert found.shape == (30, 3)
    assert found[:, 1].abs().max() == 0
    np.testing.assert_allclose(found[:, [0, 2]], learner.model.predict_proba(SAMPLES.x.numpy()), rtol=1e-6)


def test_without_probabilities_all_is_on_the_label_named():
    learner, _ = fit(LinearSVC())
    found = predict(learner, SAMPLES.x)
    assert found.sum(dim=1).unique().tolist() == [1]
    assert np.array(LABELS)[found.argmax(dim=1)].tolist() == learner.model.predict(SAMPLES.x.numpy()).tolist()


def test_integer_labels_stay_integers():
    learner, _ = fit(Recorder(), labels=(3, 5, 9))
    assert learner.model.y.tolist() == [3, 5] * 15
    assert predict(learner, SAMPLES.x[:2]).tolist() == [[1, 0, 0], [1, 0, 0]]


def test_training_again_starts_from_scratch():
    learner, _ = fit(GaussianNB())
    learner.fit(Job("clinic", Fit(), learner, SAMPLES.with_targets(y=1 - SAMPLES.y), Plan(), 1, 1), CPU)
    turned, _ = fit(GaussianNB(), SAMPLES.with_targets(y=1 - SAMPLES.y))
    assert torch.equal(predict(learner, SAMPLES.x), predict(turned, SAMPLES.x))


def test_samples_without_a_label_are_not_taken_for_labelled_ones():
    some = Samples({"x": SAMPLES.x, "y": SAMPLES.y.where(torch.arange(30) > 5, -1)})
    try:
        learner, _ = fit(Recorder(), some)
    except PotluckError:
        return
    assert "cat" not in learner.model.y


FRAME = pd.DataFrame({"age": [1.0, 2.0, np.nan, 9.0, 8.0, 7.0] * 5, "town": pd.Categorical(["a", "b"] * 15)})


def frame(y):
    return read_inputs(FRAME, "clinic").with_targets(y=torch.tensor(y))


BOOSTED = [
    partial(XGBClassifier, n_estimators=3, enable_categorical=True),
    partial(LGBMClassifier, n_estimators=3, min_child_samples=1, verbose=-1),
    partial(HistGradientBoostingClassifier, max_iter=3, min_samples_leaf=1, categorical_features="from_dtype"),
]


@pytest.mark.parametrize("make", BOOSTED)
def test_a_frame_reaches_an_estimator_with_categories_and_gaps(make):
    samples = frame([0, 0, 0, 2, 2, 2] * 5)  # of "bee" there is none
    learner, _ = fit(make(), samples)
    found = learner.answers(samples)
    assert found.shape == (30, 3)
    assert found.argmax(dim=1).tolist() == samples.y.tolist()
    assert found[:, 1].tolist() == [0.0] * 30
    again = Estimator(make(), Classification(LABELS))
    learner.check_keepable(samples, "clinic")
    again.check_keepable(samples, "clinic")
    again.restore(learner.state())
    assert torch.equal(again.answers(samples), found)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
@pytest.mark.parametrize("y", [[0, 2, 0, 2], [1, 2, 1, 2], [0, 1, 2, 1], [1, 1, 1, 1]])
def test_one_that_wants_labels_from_0_up_gets_them(wrap, y):
    samples = Samples({"x": torch.tensor(y, dtype=torch.float32)[:, None], "y": torch.tensor(y)})
    learner, _ = fit(wrap(XGBClassifier(n_estimators=20, min_child_weight=0)), samples)
    found = predict(learner, samples.x)
    assert found.argmax(dim=1).tolist() == y
    assert set(found.sum(dim=0).nonzero().flatten().tolist()) == set(y)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(4))


THREE = Samples({"x": torch.tensor([[0.0], [1.0], [2.0]] * 2), "y": torch.tensor([0, 1, 2] * 2)})


def test_one_that_changes_its_settings_when_it_is_fitted_can_be_fitted_to_fewer_labels():
    """XGBoost's objective becomes one of several labels, and stays it, which two labels cannot be fitted by."""
    two = THREE.take(torch.tensor([0, 1, 3, 4]))
    learner, _ = fit(XGBClassifier(n_estimators=20, min_child_weight=0), THREE)
    again = Estimator(XGBClassifier(), Classification(LABELS))
    again.check_keepable(THREE, "clinic")
    again.restore(learner.state())
    for one in (learner, again):
        one.fit(Job("clinic", Fit(), one, two, Plan(), 1, 1), CPU)
        assert predict(one, two.x).argmax(dim=1).tolist() == [0, 1, 0, 1]


def test_settings_that_its_owner_changes_stay():
    learner, _ = fit(XGBClassifier(n_estimators=3), THREE)
    learner.model.set_params(n_estimators=5, objective="multi:softmax")
    learner.fit(Job("clinic", Fit(), learner, THREE, Plan(), 1, 1), CPU)
    assert (learner.model.n_estimators, learner.model.objective) == (5, "multi:softmax")
    assert learner.model.get_booster().num_boosted_rounds() == 5


def test_the_first_reason_is_told_where_numbers_do_not_help():
    with pytest.raises(ModelError, match=r"clinic: LogisticRegression could not be fitted: .*NaN"):
        fit(LogisticRegression(), Samples({"x": torch.full((4, 1), torch.nan), "y": torch.tensor([0, 2, 0, 2])}))


def test_sparse_rows_and_texts_reach_an_estimator():
    texts = read_inputs(["good day", "bad night", "good night", "bad day"], "clinic")
    words = CountVectorizer().fit_transform(["good day", "bad night", "good night", "bad day"])
    y = torch.tensor([0, 1, 0, 1])
    for model, inputs in (
        (make_pipeline(CountVectorizer(), MultinomialNB()), texts),
        (MultinomialNB(), read_inputs(words, "p")),
    ):
        learner, _ = fit(model, inputs.with_targets(y=y))
        assert learner.answers(inputs).argmax(dim=1).tolist() == y.tolist()


def test_several_inputs_are_no_table():
    with pytest.raises(ModelError, match=r"an estimator reads one table, .* \['ids', 'mask'\]\. Put them into one"):
        fit(GaussianNB(), Samples.of({"ids": torch.ones(2, 1), "mask": torch.ones(2, 1)}, y=torch.tensor([0, 1])))


def test_rows_that_it_cannot_answer_are_told():
    samples = read_inputs(FRAME[["age"]].fillna(0), "clinic").with_targets(y=torch.arange(30) % 2)
    learner, _ = fit(GaussianNB(), samples)
    with pytest.raises(ModelError, match="clinic: GaussianNB could not answer: The feature names should match"):
        learner.answers(read_inputs(pd.DataFrame({"years": [1.0]}), "clinic"), "clinic")


def test_a_label_for_each_position_is_nothing_for_an_estimator():
    task = PerPosition((0, 1))
    with pytest.raises(ModelError, match=r"clinic: LinearSVC cannot do a task of PerPosition; bring a torch module"):
        Estimator(LinearSVC(), task).check(Samples({"x": torch.zeros(1, 2)}), task, Plan(), "clinic")


class Odd(DecisionTreeClassifier):  # type: ignore[misc]
    """A tree that answers otherwise than it should."""

    def __init__(self, way="", random_state=None):
        super().__init__(random_state=random_state)
        self.way = way

    def predict_proba(self, x):
        told = super().predict_proba(x)
        if self.way == "raises":
            raise RuntimeError("no such patient")
        return {"few": told[:, :1], "short": told[:-1], "nothing": None}[self.way]


class Stranger:
    """Answers a label that there is not."""

    def fit(self, x, y):
        pass

    def predict(self, x):
        return ["nobody"] * len(x)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Odd("few"), r"p: Odd puts out probabilities of shape \(8, 1\); expected 3 for each sample"),
        (Odd("short"), "p: Odd answers 7 of 8 samples; expected all of them"),
        (Odd("raises"), "p: Odd could not answer: no such patient"),
        (Odd("nothing"), "p: Odd could not answer|p: Odd puts out"),
        (Stranger(), "p: Stranger answers 'nobody'; expected one of its labels"),
    ],
)
def test_answers_that_cannot_be_are_told(model, why):
    x, y = np.random.default_rng(0).random((8, 2)), np.array([0, 1, 2, 0, 1, 2, 0, 1])
    found = Estimator(model, Classification((0, 1, 2)))
    model.fit(x, y)
    with pytest.raises(ModelError, match=why):
        found.answers(Samples({"x": torch.from_numpy(x)}), "p")
