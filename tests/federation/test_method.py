"""What a method says of itself: its exchanges, what it sends, what it needs."""

from __future__ import annotations

from typing import ClassVar

import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from torch import nn

import potluck
from potluck.core.errors import SettingsError
from potluck.core.exchange_order import ExchangeTurn
from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Method, Needs, exchange
from potluck.federation.server import Server
from potluck.methods import METHODS
from tests.tables import cnn, deep_cnn, made_data, mlp, participants


class First(Method):
    sends: ClassVar[dict[str, str]] = {"hello": "its name"}

    @exchange(lambda self, server, sender: Schema(facts={"name": str}))
    def hello(self, server, answers):
        return Payload()

    @exchange(lambda self, server, sender: Schema({sender: TensorSpec((server.round,))}))
    def weights(self, server, answers):
        return Payload()

    def helper(self):
        """No exchange."""


class Second(First):
    """One exchange more, one of its own way, and one that is none any more."""

    def hello(self):
        """No exchange."""

    @exchange(lambda self, server, sender: Schema())
    def more(self, server, answers):
        return Payload()

    @exchange(lambda self, server, sender: Schema())
    def weights(self, server, answers):
        return Payload()


def test_exchanges_are_in_the_order_in_which_they_are_defined():
    assert First.exchanges() == ["hello", "weights"]
    assert Second.exchanges() == ["weights", "more"], "those of what it extends come first"
    assert Method.exchanges() == []


def test_what_is_sent_is_described_or_said_not_to_be():
    assert First.described_exchanges() == {"hello": "its name", "weights": "the method does not say what"}
    for method in METHODS.values():
        assert set(method.sends) >= set(method.exchanges()), method


def test_an_exchange_is_answered_by_its_function_under_its_contract():
    method, server = First(), Server(0, {}, round=3)
    serve, contract = method.answered_by("weights")
    assert serve(server, iter(())).size == Payload().size
    assert contract(server, "a") == Schema({"a": TensorSpec((3,))})
    with pytest.raises(SettingsError, match=r"^First has no exchange 'helo'\. Did you mean 'hello'\? Known: hello"):
        method.answered_by("helo")


def test_a_method_without_a_round_says_so():
    with pytest.raises(NotImplementedError, match="First has no `round`"):
        First().round(None)


def test_joining_takes_nothing_unless_a_method_says_otherwise():
    assert list(First().join(None)) == []


# What a method needs


def joined(*people):
    for person in people:
        person.join(0, None)
    return list(people)


def tree(name="tree", **settings):
    return potluck.Participant(name, DecisionTreeClassifier(), made_data(9, 0), **{"labels": range(3), **settings})


@pytest.mark.parametrize(
    ("needed", "there", "reason"),
    [
        ("nothing", "nothing", None),
        ("nothing", "labels", None),
        ("inputs", "inputs", None),
        ("inputs", "labels", None),
        ("labels", "labels", None),
        ("inputs", "nothing", "it needs public data, and there is none; add `public`"),
        ("labels", "nothing", "it needs public data, and there is none; add `public`"),
        ("labels", "inputs", "it needs labels on the public data, and there are none; add them to `public`"),
    ],
)
def test_public_data(needed, there, reason):
    found = Needs(public=needed).unmet(joined(tree()), there)
    assert found == ([] if reason is None else [reason])


def test_torch_modules():
    people = joined(*participants([mlp(0)]), *(tree(f"t{number}") for number in range(7)))
    assert Needs().unmet(people, "nothing") == []
    (reason,) = Needs(torch_module=True, same_architecture=True).unmet(people, "nothing")
    assert reason.endswith("no torch modules: t0, t1, t2, t3, t4 and 2 more")
    (reason,) = Needs(torch_module=True).unmet(people[:6], "nothing")
    assert reason.endswith("no torch modules: t0, t1, t2, t3, t4")
    assert Needs(torch_module=True).unmet(people[:1], "nothing") == []


def test_one_architecture():
    people = joined(*participants([cnn(0), cnn(1), cnn(2, width=5), mlp(3)]))
    needs = Needs(same_architecture=True)
    assert needs.unmet(people[:2], "nothing") == []
    (reason,) = needs.unmet(people, "nothing")
    assert "differ from p0's: p2, p3; p2's 0.weight is float64 of shape (5, 1, 3, 3)" in reason


def test_layers_that_a_method_looks_for():
    people = joined(*participants([cnn(0), mlp(1), deep_cnn(2)]))
    (reason,) = Needs(torch_module=True, convolutions=True).unmet(people, "nothing")
    assert reason.startswith("p1: ")
    reasons = Needs(torch_module=True, stages=True).unmet(people, "nothing")
    assert [reason.split(":")[0] for reason in reasons] == ["p0", "p1"]


def test_a_head_with_layers_before_it():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(36, 3).double())
    people = joined(*participants([cnn(0), mlp(1), linear]))
    (reason,) = Needs(torch_module=True, head=True).unmet(people, "nothing")
    assert reason == "p2: Sequential has no parameters beside its head, 1."
    (same,) = Needs(torch_module=True, head=True, own_layers=2).unmet(people[2:], "nothing")
    assert same == reason, "found by two looks, told once"


def test_one_label_space():
    people = joined(tree("a"), tree("b"), tree("c", labels=range(4)))
    needs = Needs(one_label_space=True)
    assert needs.unmet(people[:2], "nothing") == []
    (reason,) = needs.unmet(people, "nothing")
    assert reason.endswith("differ from a's [0, 1, 2]: c; give all of them the same `labels`")


def test_tasks_that_a_method_serves():
    values = potluck.Participant("v", DecisionTreeRegressor(), made_data(9, 0), task="regression")
    people = joined(tree("a"), values)
    (reason,) = Needs().unmet(people, "nothing")
    assert reason == "it serves classification alone, and the task of these is another one: v (regression)"
    (reason,) = Needs(tasks=("multilabel", "per-position", "next-token")).unmet(people[:1], "nothing")
    assert reason.startswith("it serves multilabel, per-position and next-token alone, ")
    (reason,) = Needs(tasks=("regression", "multilabel")).unmet(people, "nothing")
    assert (
        reason == "it serves regression and multilabel alone, and the task of these is another one: a (classification)"
    )
    assert Needs(tasks="any").unmet(people, "nothing") == []
    (reason,) = Needs(tasks="any", one_label_space=True).unmet(people[::-1], "nothing")
    assert reason == "it needs one task, and these differ from v's (regression of 1): a"


def test_targets_of_ones_own():
    people = joined(tree("a"), potluck.Participant("b", DecisionTreeClassifier(), made_data(9, 0)[0], labels=range(3)))
    assert not people[1].labelled
    (reason,) = Needs().unmet(people, "nothing")
    assert reason == "it trains everybody on targets of their own, and these have none: b"
    assert Needs(own_targets=False).unmet(people, "nothing") == []


def test_a_label_in_common_with_somebody():
    def telling(name, *labels):
        data = made_data(9, 0, labels)
        return potluck.Participant(name, DecisionTreeClassifier(), data, labels=labels)

    needs = Needs(shared_labels=True)
    assert needs.unmet(joined(telling("a", 0, 1), telling("b", 1, 2)), "nothing") == []
    found = needs.unmet(joined(telling("a", 0, 1), telling("b", 1, 2), telling("c", 3, 4)), "nothing")
    assert found == ["c has no class in common with anyone: its labels are [3, 4]"]


def test_when_an_exchange_is_due_is_said_where_it_is_defined_or_overridden():
    class Joining(Method):
        @exchange(lambda self, server, sender: Schema(), phase="join")
        def hello(self, server, answers):
            return Payload()

        @exchange(lambda self, server, sender: Schema(), optional=True, repeats=True)
        def more(self, server, answers):
            return Payload()

    class Other(Joining):
        @exchange(lambda self, server, sender: Schema())
        def hello(self, server, answers):
            return Payload()

        @exchange(lambda self, server, sender: Schema(), phase="round")
        def more(self, server, answers):
            return Payload()

    assert Joining.turns() == {
        "hello": ExchangeTurn("join"),
        "more": ExchangeTurn("round", optional=True, repeats=True),
    }
    assert Other.turns() == {"hello": ExchangeTurn("join"), "more": ExchangeTurn()}


def test_layers_of_ones_own_may_differ():
    people = joined(*participants([mlp(0), mlp(1, hidden=8)]))
    people[1].learner.model[3] = nn.Linear(8, 3, bias=False).double()
    people[1].learner.look_again()
    (reason,) = Needs(torch_module=True, same_architecture=True).unmet(people, "nothing")
    assert "p1's 3.bias is missing" in reason
    assert Needs(torch_module=True, same_architecture=True, own_layers=1).unmet(people, "nothing") == []


def test_what_a_method_leaves_unsaid():
    """Optimizers forget, nobody joins late, and nothing of the server's or of further models is reported."""
    assert not potluck.Method.keep_optimizer
    assert not potluck.Method.late_joining
    assert (tuple(potluck.Method.reports), tuple(potluck.Method.server_reports)) == ((), ())
