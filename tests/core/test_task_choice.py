from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from potluck.core.classification import Classification, MultiLabel
from potluck.core.errors import DataError, SettingsError
from potluck.core.positions import NextToken, PerPosition
from potluck.core.regression import Regression
from potluck.core.task_choice import TASKS, as_task, task_from

CASES = [
    (None, Classification()),
    ("classification", Classification()),
    ("multilabel", MultiLabel()),
    ("multi-label", MultiLabel()),
    ("regression", Regression()),
    ("per-position", PerPosition()),
    ({"name": "regression", "outputs": 2, "scale": [0.0, 2.0]}, Regression(2, (0.0, 2.0))),
    ({"name": "next-token", "vocabulary": 9}, NextToken(9)),
    (Regression(3), Regression(3)),
    (Regression, Regression()),
]


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_a_task_may_be_given_by_its_short_form(given, expected):
    assert as_task(given, "p") == expected


def test_labels_and_metrics_may_be_given_apart():
    task = as_task("multilabel", "p", labels=["a", "b"], metrics=["roc_auc"])
    assert (task.labels, task.headline) == (("a", "b"), "roc_auc")


@pytest.mark.parametrize(
    ("given", "more", "error", "message"),
    [
        ("regresion", {}, SettingsError, "There is no task 'regresion'. Did you mean 'regression'"),
        ({"outputs": 2}, {}, SettingsError, "p: task is .*; expected its name"),
        ({"name": "regression", "output": 2}, {}, SettingsError, "no setting 'output'"),
        (3, {}, SettingsError, "p: task is 3; expected a Task"),
        ("regression", {"labels": [1]}, SettingsError, "p: labels are given, but a task of Regression has none"),
        (None, {"labels": []}, DataError, "p: the label space is empty"),
        (
            Classification([0, 1]),
            {"labels": [0, 1, 2]},
            SettingsError,
            r"p: labels are \[0, 1, 2\], and the task's are \[0, 1\]",
        ),
        ("regression", {"metrics": ["accuracy"]}, SettingsError, "metrics holds 'accuracy'"),
    ],
)
def test_what_is_no_task_is_an_error(given, more, error, message):
    with pytest.raises(error, match=message):
        as_task(given, "p", **more)


@pytest.mark.parametrize(
    "task",
    [
        Classification(("a", "b")),
        MultiLabel((0, 1)),
        Regression(2),
        Regression(2, (0.0, 3.0)),
        PerPosition((0, 1), ignore=9, axis="first"),
        NextToken(5, padding=0),
    ],
)
def test_a_task_that_is_told_is_of_the_same_kind(task):
    found = task_from(task.KIND, task.shared_settings(), [*task.nothing, "somebody's own"])
    assert found.kind == task.kind
    assert json.loads(json.dumps(task.shared_settings())) == task.shared_settings()
    assert replace(found, metrics=()) == replace(task, metrics=())
    assert list(found.nothing) == [*task.nothing, "somebody's own"]
    assert found.loss(torch.zeros(*found.shapes(found_y(task))[0]), found_y(task)) >= 0


def found_y(task):
    """Encoded targets of two samples."""
    if isinstance(task, Classification):
        return torch.tensor([0, 1])
    if isinstance(task, PerPosition | NextToken):
        return torch.zeros(2, 3).long()
    return torch.zeros(2, task.outputs)


def test_nothing_is_imported_by_a_name_that_was_told():
    with pytest.raises(SettingsError, match="There is no task 'os:getcwd' here"):
        task_from("os:getcwd", {}, ["accuracy"])


def test_all_tasks_have_short_forms():
    assert set(TASKS) >= {"classification", "multilabel", "regression", "per-position", "next-token"}
