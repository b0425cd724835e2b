"""What a method says of itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

import potluck
from potluck.core.requests import Fit
from potluck.federation.method_facts import facts_of, in_words, is_fixed, plain
from potluck.methods import CoFED, FedPer, HeteroFL, Local


class Gossip(potluck.Method):
    """Tells neighbours.

    Args:
        neighbours: how many others hear of it,
            at least one.
        often: how often.
    """

    needs = potluck.Needs(torch_module=True, public="labels")

    neighbours: int = Field(ge=1)
    often: Literal["always"] = "always"

    def round(self, me):
        yield Fit()


def test_of_a_method_of_the_field():
    facts = facts_of(CoFED)
    assert facts.title.startswith("CoFED (Cao et al.,")
    assert facts.about == "co-training by votes."
    assert facts.sentence == f"{facts.title}: {facts.about}"
    assert facts.leaves == ("statistics", "predictions")
    assert facts.settings["alpha"].default == 0.3
    assert facts.settings["alpha"].about.startswith("a public sample gets a class if")


def test_a_setting_must_be_given_or_is_fixed():
    facts = facts_of(Gossip)
    assert facts.sentence == "What a method says of itself."
    assert facts.steps == "Tells neighbours."
    assert list(facts.settings) == ["neighbours"]
    assert facts.settings["neighbours"].required
    assert facts.settings["neighbours"].about == "how many others hear of it, at least one."
    assert is_fixed(Literal["always"])
    assert not is_fixed(Literal["always", "never"])


def test_needs_in_words():
    assert list(in_words(facts_of(Gossip).needs)) == ["torch modules", "public data with labels", "classification"]
    assert "one architecture but for the last layer" in in_words(facts_of(FedPer).needs)
    assert list(in_words(facts_of(HeteroFL).needs)) == ["torch modules", "a head"]
    assert list(in_words(facts_of(Local).needs)) == []


def test_defaults_that_json_can_hold():
    assert plain((1, potluck.Plan(lr=0.5))) == [1, {"lr": 0.5}]


class Whispering(Gossip):
    """Tells one neighbour.

    Args:
        neighbours: as in ``Gossip``; by default 1.
    """

    neighbours: int = 1


def test_what_is_explained_where_a_method_comes_from_is_read_there():
    assert (
        facts_of(Whispering).settings["neighbours"].about == "how many others hear of it, at least one; by default 1."
    )
