"""Tasks by their short forms, as in ``Participant(task="regression")`` and in run files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from potluck.core.classification import Classification, LabelTask, MultiLabel
from potluck.core.errors import DataError, SettingsError
from potluck.core.labels import Label, label_space
from potluck.core.metrics import NoMetricError
from potluck.core.positions import NextToken, PerPosition
from potluck.core.registry import Registry, call, import_object
from potluck.core.regression import Regression
from potluck.core.tasks import Task

TASKS = Registry(
    "tasks", {kind.KIND: kind for kind in (Classification, MultiLabel, Regression, PerPosition, NextToken)}
)
"""Tasks by name: Potluck's own, and those that other packages announce under ``potluck.tasks``."""

TaskSetting = Task | type[Task] | str | Mapping[str, Any]
"""A task, or its class; or its name; or a dict of its name and settings."""


def as_task(task: TaskSetting | None, owner: str, labels: Iterable[Label] | None = None, metrics: Any = None) -> Task:
    """The task that a user means.

    Args:
        task: a task, its name, or a dict with its name and settings; None for classification.
        owner: whose it is, for error messages.
        labels: its labels, where they are given apart from it.
        metrics: its metrics, where they are given apart from it; functions also as ``"package.module:function"``.
    """
    if isinstance(task, str):
        task = {"name": task}
    if isinstance(task, Mapping):
        settings = dict(task)
        name = settings.pop("name", None)
        if not isinstance(name, str):
            raise SettingsError(f"{owner}: task is {task!r}; expected its name, and perhaps settings.")
        task = call(name, TASKS[name], settings)
    if isinstance(task, type) and issubclass(task, Task):
        task = call(task.__name__, task, {})
    found = Classification() if task is None else task
    if not isinstance(found, Task):
        raise SettingsError(
            f"{owner}: task is {found!r}; expected a Task, such as potluck.Regression(), or a name: {', '.join(TASKS)}."
        )
    if labels is not None:
        if not isinstance(found, LabelTask):
            raise SettingsError(f"{owner}: labels are given, but a task of {type(found).__name__} has none.")
        space = label_space(labels, owner)
        if not space:
            raise DataError(f"{owner}: the label space is empty; expected at least one label.")
        if found.labels and tuple(found.labels) != tuple(space):
            raise SettingsError(
                f"{owner}: labels are {list(space)}, and the task's are {list(found.labels)}; expected one of the two."
            )
        found = replace(found, labels=space)
    return found if metrics is None else replace(found, metrics=_found(metrics))


def _found(metrics: Any) -> Any:
    """Metrics, those named as ``"package.module:function"`` imported."""
    given = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    return [import_object(one) if isinstance(one, str) and ":" in one else one for one in given]


def task_from(name: str, settings: Mapping[str, Any], metrics: Iterable[str]) -> Task:
    """The task that a party on another machine reported. Nothing is imported by a name that another machine chose.

    Args:
        name: the task's short form.
        settings: its settings, as ``Task.told`` gave them.
        metrics: the names of its metrics; those that only the other machine can compute stay names here.
    """
    if name not in TASKS:
        raise SettingsError(f"There is no task {name!r} here. Install the package that announces it, on both sides.")
    found: Task = call(name, TASKS[name], settings)
    return replace(found, metrics=tuple(metric if metric in found.KNOWN else _elsewhere(metric) for metric in metrics))


def _elsewhere(name: str) -> Callable[..., float]:
    """A metric of which only the name is known here."""

    def metric(truth: Any, answers: Any) -> float:
        raise NoMetricError(f"{name} is computed by participants alone")

    metric.__name__ = name
    return metric
