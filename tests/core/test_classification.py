from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from potluck.core.classification import Classification, MultiLabel
from potluck.core.errors import DataError, SettingsError

X = np.random.default_rng(0).normal(size=(12, 3))


def test_labels_are_found_in_the_data_or_given():
    raw = np.array(["dog", "cat", "dog"])
    assert Classification().fitted(raw, "p").labels == ("cat", "dog")
    assert Classification(["yak", "cat", "dog"]).fitted(raw, "p").labels == ("cat", "dog", "yak")
    with pytest.raises(DataError, match=r"p: there are no labels to find the label space in; .* or pass `labels`"):
        Classification().fitted(None, "p")


def test_a_label_for_each_sample():
    task = Classification(("cat", "dog"))
    y = task.encode(np.array(["dog", "cat"]), "p")
    assert (y.tolist(), task.decode(y).tolist(), task.outputs) == ([1, 0], ["dog", "cat"], 2)
    assert task.known(task.unknown(2)).tolist() == [False, False]
    assert task.encode(np.array(["dog", "emu"]), "p", strict=False).tolist() == [1, -1]
    with pytest.raises(DataError, match=r"p: 2 inputs but labels of shape \(2, 2\).*MultiLabel"):
        task.encode(np.zeros((2, 2)), "p")


def test_the_loss_is_cross_entropy_weighted_where_there_are_weights():
    outputs, y, weight = torch.randn(3, 2), torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0, 0.0])
    task = Classification((0, 1))
    torch.testing.assert_close(task.loss(outputs, y), F.cross_entropy(outputs, y))
    each = F.cross_entropy(outputs, y, reduction="none")
    torch.testing.assert_close(task.loss(outputs, y, weight), (each * weight).sum() / 3)


def test_answers_are_probabilities_and_said_as_labels():
    task = Classification(("cat", "dog"))
    answers = task.answers(torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
    torch.testing.assert_close(answers.sum(dim=1), torch.ones(2))
    assert task.said(answers).tolist() == ["dog", "cat"]


def test_an_estimator_without_probabilities_is_sure_of_one_label():
    y = np.array(["b", "a"] * 6)
    found = Classification(("a", "b", "c")).of_estimator(LinearSVC().fit(X, y), X, "p")
    assert found.sum(dim=1).tolist() == [1.0] * 12
    assert set(found.unique().tolist()) == {0.0, 1.0}


def test_the_server_knows_all_labels():
    assert Classification((0, 2)).common([Classification((1,)), Classification((2, 3))]).labels == (0, 1, 2, 3)


def test_tasks_are_compared_and_written_down():
    assert Classification(range(3)) == Classification([0, 1, 2]) != Classification((0, 1))
    assert hash(Classification(("a",))) == hash(Classification(("a",)))
    assert Classification(("a", "b"), metrics="roc_auc").described() == {
        "task": "classification",
        "metrics": ["roc_auc"],
        "labels": ["a", "b"],
    }
    assert Classification(("a", "b")).encoded is Classification(("x", "y"), metrics=["roc_auc"]).encoded


@pytest.mark.parametrize("labels", ["ab", 3])
def test_labels_are_a_list(labels):
    with pytest.raises(SettingsError, match=r"labels is .*; expected a list"):
        Classification(labels)


def test_several_labels_for_each_sample():
    for raw in (np.array([[0, 1], [1, 1], [0, 0]]), np.array([["b"], ["a", "b"], []], dtype=object)):
        task = MultiLabel().fitted(raw, "p")
        y = task.encode(raw, "p")
        assert (task.outputs, y.tolist()) == (2, [[0, 1], [1, 1], [0, 0]])
        assert task.decode(y).tolist() == [[0, 1], [1, 1], [0, 0]]
    assert task.labels == ("a", "b")
    assert not task.known(task.unknown(2)).any()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (np.array([[0, 2]]), "expected a table of 0 and 1 with 2 columns"),
        (np.array([[0, 1, 1]]), "expected a table of 0 and 1 with 2 columns"),
        (np.zeros((1, 2, 2)), "expected a table of 0 and 1, or lists"),
        (np.array(["a"]), "is one label; expected a list or set"),
        (np.array([["c"], []], dtype=object), "holds label 'c', which is not in its label space"),
    ],
)
def test_targets_that_are_no_sets_of_labels_are_refused(raw, message):
    with pytest.raises(DataError, match=message):
        MultiLabel(("a", "b")).encode(raw, "p")


def test_of_a_table_with_names_columns_are_put_in_the_order_of_labels():
    raw, columns = np.array([[0, 1, 1], [1, 0, 0]]), ["c", "a", "b"]
    task = MultiLabel().of_columns(columns, "p")
    assert task.labels == ("a", "b", "c")
    assert task.in_order(raw, columns, "p").tolist() == [[1, 1, 0], [0, 0, 1]]
    assert MultiLabel(("x", "y")).of_columns(columns, "p").labels == ("x", "y")
    with pytest.raises(
        DataError, match=r"p: targets have the columns \['c', 'a', 'b'\]; expected one for each label: \['a'"
    ):
        MultiLabel(("a", "b")).in_order(raw, columns, "p")


def test_the_loss_of_several_labels_is_binary_cross_entropy():
    task, outputs, y = MultiLabel((0, 1)), torch.randn(4, 2), torch.randint(0, 2, (4, 2)).to(torch.int8)
    torch.testing.assert_close(task.loss(outputs, y), F.binary_cross_entropy_with_logits(outputs, y.float()))
    torch.testing.assert_close(task.answers(outputs), outputs.sigmoid())
    assert task.said(torch.tensor([[0.2, 0.8]])).tolist() == [[0, 1]]


@pytest.mark.parametrize("model", [RandomForestClassifier(5, random_state=0), MLPClassifier((4,), max_iter=300)])
@pytest.mark.filterwarnings("ignore")
def test_estimators_tell_of_several_labels_in_their_ways(model):
    y = np.stack([np.arange(12) % 2, np.arange(12) // 6, np.zeros(12, dtype=int)], axis=1)
    found = MultiLabel().fitted(y, "p").of_estimator(model.fit(X, y), X, "p")
    assert found.shape == (12, 3)
    assert found[:, 2].mean() < 0.5


def test_others_are_told_probabilities_at_a_temperature():
    task, outputs = Classification((0, 1, 2)), torch.tensor([[0.0, 2.0, 4.0]])
    torch.testing.assert_close(task.soft(outputs, 2.0), (outputs / 2).softmax(dim=1))
    torch.testing.assert_close(task.answers(task.outputs_for(task.answers(outputs))), task.answers(outputs))
    assert task.settled(task.soft(outputs)).tolist() == [2]
    assert task.bounds == {"low": 0, "high": 1, "row_sum": 1}


def test_the_distance_to_soft_labels_is_cross_entropy():
    task, outputs = Classification((0, 1)), torch.randn(2, 2)
    soft = torch.cat([torch.tensor([[0.3, 0.7]]), task.no_targets(1)])
    expected = F.cross_entropy(outputs[:1] / 5.0, soft[:1])
    torch.testing.assert_close(task.distances(outputs, soft, 5.0), torch.stack([expected, torch.tensor(0.0)]))
    assert task.losses(outputs, task.unknown(2)).tolist() == [0.0, 0.0]


def test_several_labels_are_told_one_by_one():
    task, outputs = MultiLabel((0, 1)), torch.tensor([[0.5, -2.0], [1.0, 1.0]])
    torch.testing.assert_close(task.soft(outputs, 2.0), (outputs / 2).sigmoid())
    torch.testing.assert_close(task.outputs_for(task.answers(outputs)), outputs)
    soft = torch.cat([torch.tensor([[0.0, 1.0]]), task.no_targets(1)])
    expected = F.binary_cross_entropy_with_logits(outputs[0], soft[0])
    torch.testing.assert_close(task.distances(outputs, soft), torch.stack([expected, torch.tensor(0.0)]))
    assert task.losses(outputs, task.unknown(2)).tolist() == [0.0, 0.0]
    assert task.settled(soft[:1]).tolist() == [[0, 1]]


def test_labels_that_were_given_are_not_looked_for():
    given = MultiLabel(("a", "b", "c"))
    assert given.fitted(None, "clinic") is given
    assert given.fitted(np.array([[1, 0, 0]]), "clinic") is given


def test_answers_of_nothing_but_0_and_1_are_no_probabilities():
    task, y = MultiLabel(("a", "b")), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert task.tested(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), y).probabilities is None
    found = task.tested(torch.tensor([[1.0, 0.0], [0.0, 0.75]]), y).probabilities
    assert found.tolist() == [[1.0, 0.0], [0.0, 0.75]]
