from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from potluck.core.errors import DataError, SettingsError
from potluck.core.positions import NextToken, PerPosition

TAGS = np.array([["noun", "verb", "-"], ["verb", "-", "-"]])


def test_a_label_for_each_token_but_padding():
    task = PerPosition(ignore="-").fitted(TAGS, "p")
    y = task.encode(TAGS, "p")
    assert (task.labels, y.tolist()) == (("noun", "verb"), [[0, 1, -1], [1, -1, -1]])
    assert task.decode(y).tolist() == TAGS.tolist()
    assert task.shapes(y) == ((2, 3, 2),)


def test_the_loss_is_the_mean_over_positions_with_a_label():
    task, y = PerPosition((0, 1), ignore=9), torch.tensor([[0, 1, -1], [1, -1, -1]])
    outputs = torch.randn(2, 3, 2)
    torch.testing.assert_close(task.loss(outputs, y), F.cross_entropy(outputs.transpose(1, 2), y, ignore_index=-1))
    weight = torch.tensor([1.0, 0.0])
    torch.testing.assert_close(task.loss(outputs, y, weight), F.cross_entropy(outputs[0, :2], y[0, :2]))
    of_positions = torch.tensor([[1.0, 0.0, 5.0], [3.0, 5.0, 5.0]])
    first, last = F.cross_entropy(outputs[0, :1], y[0, :1]), F.cross_entropy(outputs[1, :1], y[1, :1])
    torch.testing.assert_close(task.loss(outputs, y, of_positions), (first + 3 * last) / 4)


def test_pictures_have_labels_before_positions():
    task, y = PerPosition(range(3)), torch.randint(0, 3, (2, 4, 5))
    outputs = torch.randn(2, 3, 4, 5)
    assert task.shapes(y) == ((2, 3, 4, 5),)
    torch.testing.assert_close(task.loss(outputs, y), F.cross_entropy(outputs, y))
    torch.testing.assert_close(task.answers(outputs), outputs.softmax(dim=1).permute(0, 2, 3, 1))
    assert task.said(task.answers(outputs)).shape == (2, 4, 5)


def test_the_axis_may_be_said():
    y = torch.zeros(2, 4).long()
    assert PerPosition(range(3), axis="first").shapes(y) == ((2, 3, 4),)
    with pytest.raises(SettingsError, match="axis is 'middle'"):
        PerPosition(axis="middle")


def test_metrics_are_over_positions():
    task = PerPosition((0, 1), ignore=9)
    y = task.encode(np.array([[0, 1, 9], [1, 9, 9]]), "p")
    answers = task.answers(torch.tensor([[[5.0, 0.0]] * 3, [[0.0, 5.0]] * 3]))
    assert task.measure(answers, y)[0]["accuracy"] == pytest.approx(2 / 3)
    assert not task.known(torch.full((2, 3), -1)).any()


def test_one_label_for_a_sample_is_refused():
    with pytest.raises(DataError, match="expected a label for each position"):
        PerPosition((0, 1)).encode(np.array([0, 1]), "p")
    with pytest.raises(DataError, match="PerPosition needs targets"):
        PerPosition((0, 1)).unknown(3)


IDS = torch.tensor([[3, 1, 2, 0], [2, 2, 0, 0]])


@pytest.mark.parametrize("inputs", [IDS, {"ids": IDS, "mask": IDS > 0}, IDS.to(torch.uint8)])
def test_the_next_token_is_the_target(inputs):
    task = NextToken(4, padding=0)
    y = task.encode(task.targets_in(inputs, "p"), "p")
    assert y.tolist() == [[1, 2, -1, -1], [2, -1, -1, -1]]
    assert task.shapes(y) == ((2, 4, 4),)
    assert task.outputs == 4
    assert task.said(F.one_hot(IDS, 4).float()).tolist() == IDS.tolist()


def test_tokens_must_fit():
    with pytest.raises(DataError, match="holds token 3; expected tokens below 3"):
        NextToken(3).encode(IDS.numpy(), "p")
    with pytest.raises(DataError, match="expected texts × positions"):
        NextToken(3).targets_in(torch.rand(2, 3), "p")
    with pytest.raises(
        DataError, match=r"p: targets of shape \(2,\) beside the tokens; expected the tokens alone, data=ids"
    ):
        NextToken(4).encode(np.array([0, 1]), "p")
    with pytest.raises(SettingsError, match="vocabulary is 0"):
        NextToken(0)
