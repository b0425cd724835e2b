"""Whom the server lets take part: what each said when it accepted, looked at alone and beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potluck.core.errors import PotluckError
from potluck.core.inputs import InputKinds, describe
from potluck.core.labels import LabelSpace, some_labels
from potluck.core.task_choice import task_from
from potluck.core.tasks import Task
from potluck.federation.agreement import most
from potluck.federation.method import Needs
from potluck.flower.protocol import Accepted

TaskKind = list[Any]
"""What must be equal for tasks whose answers can be compared, in values that JSON can hold."""

MAX_OUTPUTS = 2**17
"""How many numbers a model may put out for each sample: models of the server's are made for as many."""


class Acceptance:
    """What participants must have in common: what the federation's file says, or else what most of them say.

    Args:
        needs: what the method needs.
        inputs: the kind of inputs of the federation's own data, which all have then; by default it has none.
        labels: the labels that the file names; by default none.
    """

    def __init__(self, needs: Needs, inputs: InputKinds | None = None, labels: LabelSpace | None = None) -> None:
        self._one_task, self._labels = needs.one_label_space, labels
        self._shared, self._one_kind = needs.shared_labels, needs.one_input_shape
        self._inputs = None if inputs is None else describe(inputs)
        self._task: TaskKind | None = None

    def check(self, accepted: Accepted) -> str | None:
        """What is wrong with what a participant says: alone, and beside what is settled. None if nothing is."""
        try:
            task = task_of(accepted)
        except (PotluckError, ValueError, TypeError) as error:
            return f"its task cannot be read: {error}"
        if task.outputs > MAX_OUTPUTS:
            return f"its models put out {task.outputs} numbers; expected at most {MAX_OUTPUTS}"
        if self._labels is not None and task.labels != self._labels:
            return f"its labels are {some_labels(task.labels)}; expected {some_labels(self._labels)}"
        if self._inputs is not None and (found := inputs_of(accepted)) != self._inputs:
            return _other_inputs(found, self._inputs)
        if self._task is not None and (kind := _kind(task)) != self._task:
            return _another_task(kind, self._task)
        return None

    def settle(self, accepted: Mapping[str, Accepted]) -> dict[str, str]:
        """Settles what all must have in common, and says who is odd, and why.

        Raises RequirementsError where nobody can tell who is odd.
        """
        if self._inputs is None and self._one_kind and accepted:
            self._inputs = most({name: inputs_of(each) for name, each in accepted.items()}, _other_inputs)
        if self._one_task and accepted:
            self._task = most({name: _kind(task_of(each)) for name, each in accepted.items()}, _another_task)
        odd = {name: why for name, each in accepted.items() if (why := self.check(each)) is not None}
        if self._shared:
            spaces = {name: set(task_of(each).labels) for name, each in accepted.items() if name not in odd}
            for name, labels in spaces.items():
                if labels and not any(labels & others for other, others in spaces.items() if other != name):
                    odd[name] = f"it has no class in common with anyone: its labels are {some_labels(sorted(labels))}"
        return odd


def task_of(accepted: Accepted) -> Task:
    """The task that a participant reports."""
    return task_from(accepted.task, accepted.settings, accepted.metrics)


def inputs_of(accepted: Accepted) -> str:
    """The kind of its inputs, in words."""
    return describe({name: facts.kind() for name, facts in accepted.inputs.items()})


def _kind(task: Task) -> TaskKind:
    return [task.KIND, list(task.labels), task.outputs]


def _another_task(found: TaskKind, expected: TaskKind) -> str:
    if found[0] == expected[0] and found[1] != expected[1]:
        return f"its labels are {some_labels(found[1])}; expected {some_labels(expected[1])}"
    return f"it learns {found[0]} of {found[2]}; expected {expected[0]} of {expected[2]}"


def _other_inputs(found: str, expected: str) -> str:
    return f"its inputs are of {found}; expected {expected}"
