from __future__ import annotations

import math
import warnings

import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss

from potluck.core.classification import Classification
from potluck.core.errors import SettingsError
from potluck.core.tasks import Task


def measure(probabilities, y):
    return Classification(range(probabilities.shape[1])).measure(probabilities, y)[0]


def test_metrics_are_what_they_are_by_hand():
    said_0_1_2_0_1 = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    found = measure(said_0_1_2_0_1, torch.tensor([0, 1, 1, 2, 1]))
    assert found["accuracy"] == pytest.approx(3 / 5)
    assert found["loss"] == pytest.approx(-sum(map(math.log, (0.7, 0.8, 0.3, 0.1, 0.7))) / 5)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    assert found["balanced_accuracy"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_a_label_without_probability_costs_much_but_not_everything():
    assert measure(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0]))["loss"] == pytest.approx(
        (-math.log(1e-12) - math.log(0.5)) / 2
    )


def test_labels_without_probabilities_have_no_loss():
    found = measure(torch.eye(3)[[0, 1, 1]], torch.tensor([0, 1, 2]))
    assert found["loss"] is None
    assert found["accuracy"] == pytest.approx(2 / 3)


def test_answers_that_never_occur_are_wrong_and_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measure(torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.0, 0.9]]), torch.tensor([0, 0]))
    assert found["accuracy"] == found["balanced_accuracy"] == 0.5
    assert found["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)


def test_no_test_data_gives_the_same_metrics_as_none():
    nothing = Classification().nothing
    assert nothing.keys() == measure(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).keys()
    assert set(nothing.values()) == {None}


@pytest.mark.parametrize("seed", range(20))
def test_scikit_learn_finds_the_same(seed):
    """Also where labels are missing in the truth, among the answers, or in both."""
    draw = torch.Generator().manual_seed(seed)
    labels = int(torch.randint(2, 9, (), generator=draw))
    rows = int(torch.randint(1, 40, (), generator=draw))
    probabilities = torch.rand(rows, labels, generator=draw, dtype=torch.float64).softmax(dim=1)
    y = torch.randint(0, max(1, labels - seed % 3), (rows,), generator=draw)
    said, truth, found = probabilities.argmax(dim=1).numpy(), y.numpy(), measure(probabilities, y)
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, said))
    assert found["loss"] == pytest.approx(log_loss(truth, probabilities.numpy(), labels=range(labels)))
    assert found["macro_f1"] == pytest.approx(f1_score(truth, said, average="macro", zero_division=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of answers that are no label in the truth
        assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, said))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_model_that_has_diverged_has_no_loss(bad):
    found = measure(torch.tensor([[bad, 0.5], [0.5, 0.5]]), torch.tensor([0, 1]))
    assert found["loss"] is None
    assert found["accuracy"] is not None


def test_what_a_task_does_not_say_is_told():
    """A task of one's own may leave out what no method asks it for."""
    outputs = torch.zeros(2, 2)
    for what, ask in (("loss for each sample", Task.losses), ("distance to soft targets", Task.distances)):
        with pytest.raises(SettingsError, match=f"A task of Classification has no {what}"):
            ask(Classification((0, 1)), outputs, outputs)
