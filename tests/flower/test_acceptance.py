"""What participants say when they accept: bounded, and alike where the method needs it."""

from __future__ import annotations

import pytest

from potluck.core.errors import PayloadError, RequirementsError
from potluck.core.inputs import InputKind
from potluck.federation.method import Needs
from potluck.flower.acceptance import Acceptance
from potluck.flower.protocol import Accepted, Message, read_response

METRICS = ["accuracy", "loss", "macro_f1", "balanced_accuracy"]


def accepted(labels=(0, 1, 2), shape=(1, 6, 6), name="a", **more):
    head = {
        "kind": "accepted",
        "name": name,
        "task": "classification",
        "settings": {"labels": list(labels)},
        "metrics": METRICS,
        "inputs": {"x": {"shape": list(shape), "numbers": "floats"}},
        "has_public": True,
    }
    found = read_response(Message({**head, **more}))
    assert isinstance(found, Accepted)
    return found


@pytest.mark.parametrize(
    "odd",
    [
        {"shape": [2**40]},
        {"shape": [2**20, 2**20]},
        {"shape": [2**28] * 16},
        {"labels": [0, 0]},
        {"labels": [1, 0]},
        {"labels": list(range(2**17 + 1))},
        {"labels": [0, "a"]},
        {"metrics": ["accuracy\x1b[2J"]},
        {"inputs": {}},
        {"inputs": {"x": {"shape": [1], "numbers": "\x1b[2J"}}},
    ],
    ids=str,
)
def test_what_nobody_would_say_is_no_message(odd):
    with pytest.raises(PayloadError, match="cannot be read"):
        accepted(**odd)


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"task": "nonsense"}, "its task cannot be read"),
        ({"settings": {"nonsense": 1}}, "its task cannot be read"),
        ({"settings": {"labels": [0, 1, 2], "metrics": "x"}}, "its task cannot be read"),
    ],
    ids=str,
)
def test_a_task_that_cannot_be_is_declined(odd, why):
    assert why in Acceptance(Needs()).check(accepted(**odd))


def test_the_odd_one_is_declined_and_not_who_comes_second():
    told = {"a": accepted(shape=(3, 6, 6)), "b": accepted(), "c": accepted()}
    acceptance = Acceptance(Needs(one_label_space=True, one_input_shape=True))
    assert acceptance.settle(told) == {"a": "its inputs are of shape (3, 6, 6); expected shape (1, 6, 6)"}
    assert acceptance.check(accepted((0, 1))) == "its labels are [0, 1]; expected [0, 1, 2]"
    assert acceptance.check(accepted(shape=(1, 6, 7))) == "its inputs are of shape (1, 6, 7); expected shape (1, 6, 6)"
    assert acceptance.check(accepted()) is None
    assert Acceptance(Needs(one_label_space=True)).settle({n: accepted((n,)) for n in "a"}) == {}


def test_label_spaces_are_compared_in_full():
    long = list(range(100))
    told = {"a": accepted([*long[:99], 200]), "b": accepted(long), "c": accepted(long)}
    assert list(Acceptance(Needs(one_label_space=True)).settle(told)) == ["a"]
    assert Acceptance(Needs()).settle(told) == {}


def test_the_file_and_the_public_data_come_before_the_majority():
    acceptance = Acceptance(Needs(), {"x": InputKind((1, 6, 6))}, (0, 1))
    told = {"a": accepted((0, 1)), "b": accepted((0, 2)), "c": accepted((0, 2)), "d": accepted((0, 1), (2,))}
    assert set(acceptance.settle(told)) == {"b", "c", "d"}


def test_where_nobody_can_tell_who_is_odd_all_are_told():
    with pytest.raises(RequirementsError, match="b differs from a: its inputs are of"):
        Acceptance(Needs(one_input_shape=True)).settle({"a": accepted(), "b": accepted(shape=(2,))})


def test_inputs_may_differ_where_the_method_does_not_need_them_to_be_alike():
    """As in a study of tables with columns of their own, or where features alone are compared."""
    acceptance = Acceptance(Needs())
    assert acceptance.settle({"a": accepted(shape=(3,)), "b": accepted(), "c": accepted(shape=(5,))}) == {}
    assert acceptance.check(accepted(shape=(9,), name="late")) is None


def test_whoever_has_no_class_in_common_with_anyone_is_declined():
    told = {"a": accepted([0, 1]), "b": accepted([1, 2]), "c": accepted([7, 8])}
    odd = Acceptance(Needs(shared_labels=True)).settle(told)
    assert odd == {"c": "it has no class in common with anyone: its labels are [7, 8]"}
