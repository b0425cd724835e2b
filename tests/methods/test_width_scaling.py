"""What the methods that scale width share: who starts, what is refused, what travels."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import HeteroFL
from potluck.methods.width_scaling import WidthScaling, occurring
from potluck.models import build
from tests.tables import SHAPE, made_data, participants


def narrow(rate, seed=0):
    torch.manual_seed(seed)
    return build("mlp", SHAPE, 3, hidden=(8, 4), rate=rate).double()


def test_all_start_from_the_widest():
    people = participants([narrow(0.5, 0), narrow(1.0, 1), narrow(1.0, 2)])
    start = {name: entry.clone() for name, entry in people[1].weights().items()}
    potluck.Federation(people, HeteroFL(), seed=1).run(0)
    for person in people:
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, start[name][tuple(map(slice, entry.shape))], rtol=0, atol=0)


def test_everybody_sends_its_own_part_and_no_more():
    people = participants([narrow(1.0, 0), narrow(0.5, 1)])
    rows = potluck.Federation(people, HeteroFL(), seed=1).run(2).rows()
    for person, row in zip(people, rows[-2:], strict=True):
        assert (row["bytes_up"], row["bytes_down"]) == (Payload(person.weights()).size,) * 2


def test_classes_without_samples_are_not_owned():
    person = potluck.Participant("p", narrow(1.0), made_data(9, 0, [0, 2]), labels=range(3))
    assert occurring(person).tolist() == [True, False, True]


def test_one_head_row_for_each_label_of_the_union():
    """Where several have a value to start from, the widest one's counts, whoever comes first."""
    layouts = {"A": [["b", "c"], 2], "B": [["a", "b", "c"], 3]}
    facts = {
        name: {
            "samples": 1,
            "layout": {"fc.bias": ["float32", n]},
            "head": ["fc"],
            "labels": own,
            "owned": [True] * n,
            "statistics": [],
        }
        for name, (own, n) in layouts.items()
    }
    method, server = WidthScaling(), Server(0, {"A": 1.0, "B": 1.0})
    replies = method.greet(server, iter((name, Payload(facts=told)) for name, told in facts.items()))
    assert {name: reply.facts["send"] for name, reply in replies.items()} == {"A": [], "B": ["fc.bias"]}
    start = method.start(server, iter({"A": Payload(), "B": Payload({"fc.bias": torch.tensor([1.0, 2, 3])})}.items()))
    assert start["A"]["fc.bias"].tolist() == [2, 3]


def test_a_participant_whose_entries_have_another_number_of_dimensions():
    method, server = WidthScaling(), Server(0, {"A": 1.0, "B": 1.0})
    told = {"samples": 1, "head": [], "labels": [0], "owned": [True], "statistics": []}
    layouts = {"A": {"w": ["float32", 2]}, "B": {"w": ["float32", 2, 2]}}
    answers = iter((name, Payload(facts={**told, "layout": own})) for name, own in layouts.items())
    with pytest.raises(potluck.RequirementsError, match=r"its 'w' has 2 dimensions, the others' 1; .* of one family"):
        method.greet(server, answers)


def test_a_participant_whose_head_is_a_layer_before_the_head_of_the_others():
    """Networks of other depths use the same name for other layers: a row for a label is no row for a feature."""
    told = {"samples": 1, "labels": ["no", "yes"], "owned": [True, True], "statistics": []}
    shallow = {**told, "head": ["2"], "layout": {"2.weight": ["float32", 2, 8]}}
    deep = {**told, "head": ["4"], "layout": {"2.weight": ["float32", 8, 16], "4.weight": ["float32", 2, 8]}}
    method, server = WidthScaling(), Server(0, {"A": 1.0, "B": 1.0, "C": 1.0})
    answers = {"A": deep, "B": shallow, "C": shallow}
    asked = method.greet(server, iter((name, Payload(facts=facts)) for name, facts in answers.items()))
    assert {name: reply.facts["send"] for name, reply in asked.items()} == {"B": ["2.weight"], "C": []}
    assert server.refused["A"].startswith("its '2.weight' is before the head, the others' in the head")


@pytest.mark.parametrize("odd", [{"w": ["float32", 2, 9]}, {"w": ["float32", 2**20, 2]}, {"v": ["float32", 1]}])
def test_the_one_that_fits_into_nothing_is_refused_and_the_others_start(odd):
    """Where everybody's entries fit into one network, the odd one may not end it by having its own."""
    told = {"samples": 1, "head": [], "labels": [0], "owned": [True], "statistics": []}
    layouts = {"A": odd, "B": {"w": ["float32", 4, 4]}, "C": {"w": ["float32", 2, 2]}}
    layouts["D"] = {"w": ["float32", 3, 3]}
    method, server = WidthScaling(), Server(0, dict.fromkeys("ABCD", 1.0), budget=2**20)
    asked = method.greet(server, iter((name, Payload(facts={**told, "layout": own})) for name, own in layouts.items()))
    if "A" in asked:
        assert asked["A"].facts["send"] == ["v"], "what nobody else has harms nobody"
        return
    assert list(server.refused) == ["A"]
    assert "do not fit into the whole that most fit into" in server.refused["A"]
    assert {name: reply.facts["send"] for name, reply in asked.items()} == {"B": ["w"], "C": [], "D": []}
    assert server.state["global"]["w"].shape == (4, 4)
