from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from potluck.core.errors import DataError, SettingsError
from potluck.core.regression import Regression

RAW = np.array([10.0, 20.0, 60.0])


def test_targets_are_scaled_inside_by_ones_own_data():
    task = Regression().fitted(RAW, "p")
    y = task.encode(RAW, "p")
    assert (task.outputs, y.shape, y.dtype) == (1, (3, 1), torch.float64)
    assert y.mean().item() == pytest.approx(0)
    assert y.std(correction=0).item() == pytest.approx(1)
    np.testing.assert_allclose(task.decode(y), RAW)
    np.testing.assert_allclose(task.said(task.answers(y)), RAW)


def test_a_published_scale_is_the_same_for_all():
    task = Regression(scale=(30.0, 10.0))
    assert task.encode(RAW, "p").flatten().tolist() == [-2.0, -1.0, 3.0]
    assert task.fitted(None, "p") is task
    both = Regression(2, scale=([0.0, 1.0], 2.0))
    assert both.encode(np.array([[2.0, 5.0]]), "p").tolist() == [[1.0, 2.0]]


def test_without_a_scale_targets_stay_as_they_are():
    task = Regression(scale="none").fitted(RAW, "p")
    assert task.encode(RAW, "p").flatten().tolist() == RAW.tolist()


def test_a_constant_target_is_not_divided_by_nothing():
    task = Regression().fitted(np.ones(3), "p")
    assert task.encode(np.ones(3), "p").tolist() == [[0.0]] * 3


def test_the_loss_is_the_squared_error_and_one_output_may_lack_its_axis():
    task, y = Regression(1), torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    assert task.loss(torch.tensor([0.0, 0.0]), y).item() == pytest.approx(5.0)
    assert task.loss(torch.zeros(2, 1), y, torch.tensor([1, 0])).item() == pytest.approx(1.0)
    assert task.shapes(y) == ((2, 1), (2,))
    assert Regression(2).shapes(torch.zeros(2, 2)) == ((2, 2),)


def test_metrics_are_in_the_users_units():
    task = Regression().fitted(RAW, "p")
    said = torch.tensor([[11.0], [19.0], [57.0]], dtype=torch.float64)
    found, reasons = task.measure(said, task.encode(RAW, "p"))
    assert found["mae"] == pytest.approx(5 / 3)
    assert found["rmse"] == pytest.approx((11 / 3) ** 0.5)
    assert list(found) == ["r2", "mae", "rmse"]
    assert reasons == {}


def test_samples_without_a_target_do_not_count():
    task = Regression(scale="none").fitted(RAW, "p")
    y = torch.cat([task.encode(RAW, "p"), task.unknown(1)])
    assert task.known(y).tolist() == [True, True, True, False]
    assert task.measure(torch.zeros(4, 1), y)[0]["mae"] == pytest.approx(30.0)
    with pytest.raises(DataError, match="Some samples have no target"):
        task.decode(y)


def test_an_estimators_values_are_taken_as_they_are():
    x = np.arange(6.0).reshape(3, 2)
    task = Regression().fitted(RAW, "p")
    found = task.of_estimator(LinearRegression().fit(x, RAW), x, "p")
    assert found.shape == (3, 1)


def test_the_server_knows_a_scale_that_all_have():
    known = Regression(scale=(1.0, 2.0))
    assert known.common([known]).scale == ((1.0,), (2.0,))
    own = Regression().fitted(RAW, "p")
    assert own.common([own]) == Regression(1)
    assert known.common([Regression(scale=(1.0, 3.0))]).scale == "standard"
    assert own.shared_settings() == {"outputs": 1, "scale": "standard"}, "a scale may tell of a participant's targets"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (np.array(["a", "b"]), "expected numbers to regress on"),
        (np.zeros((2, 3, 4)), "expected one value for each sample, or a row"),
        (np.zeros((2, 3)), "3 targets for each sample; expected 1"),
        (np.array([1.0, np.nan]), "NaN or infinity"),
    ],
)
def test_targets_that_are_no_values_are_refused(raw, message):
    with pytest.raises(DataError, match=message):
        Regression(1).encode(raw, "p")


@pytest.mark.parametrize("scale", ["robust", (1.0,), (1.0, 0.0), (0.0, -1.0), (np.nan, 1.0), 3])
def test_a_scale_is_a_mean_and_a_deviation(scale):
    with pytest.raises(SettingsError, match=r"scale is .*; expected 'standard', 'none', or"):
        Regression(scale=scale)


def test_settings_are_checked():
    with pytest.raises(SettingsError, match="outputs is -1"):
        Regression(-1)
    with pytest.raises(SettingsError, match="scale has 2 numbers"):
        Regression(3, scale=([1.0, 2.0], 1.0))
    with pytest.raises(DataError, match="p: there are no targets to scale by"):
        Regression(1).fitted(None, "p")


def test_others_are_told_values_in_the_users_units():
    task = Regression().fitted(RAW, "p")
    outputs = task.encode(RAW, "p")
    np.testing.assert_allclose(task.soft(outputs, temperature=5.0).flatten(), RAW)
    torch.testing.assert_close(task.taught(task.soft(outputs)), outputs)
    torch.testing.assert_close(task.outputs_for(task.answers(outputs)), outputs)


def test_values_that_nobody_told_count_in_no_distance():
    task = Regression(2, "none")
    soft = torch.cat([torch.tensor([[1.0, 3.0]]), task.no_targets(1)])
    assert task.distances(torch.zeros(2, 2), soft).tolist() == [5.0, 0.0]
    assert task.losses(torch.zeros(1, 2), task.unknown(1)).tolist() == [0.0]


def test_scales_that_differ_make_one_output_mean_two_things():
    own, shifted = Regression().fitted(RAW, "p"), Regression().fitted(RAW + 100, "q")
    assert "scale values by their own data" in own.unlike(shifted)
    assert "scale values by their own data" in own.unlike(Regression(1, "none"))
    assert own.unlike(Regression().fitted(RAW * 1.001, "q")) is None
    assert Regression(1, "none").unlike(Regression(1, "none")) is None
