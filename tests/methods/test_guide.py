"""What helps to choose: something for every method, in sentences that go on where they are put."""

from __future__ import annotations

import pytest

from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, GUIDE, Cost


def test_every_method_but_the_study_is_of_one_kind():
    assert set(ADVICE) == set(METHODS) - {"Describe"}
    assert sum(len(kind) for kind in GUIDE.values()) == len(ADVICE) == 47


@pytest.mark.parametrize("name", ADVICE)
def test_it_goes_on_in_a_sentence(name):
    for words in (ADVICE[name].choose, ADVICE[name].learns):
        assert words[0].islower()
        assert words[-1] not in ".;,"


def test_a_cost_in_words():
    cost = Cost("mixed", ("common",), 1000, 2000, 3000, 0, 0, 1.0, 40.0, 0.5, 3500)
    assert cost.of_network == 5
    assert str(cost) == (
        "2.0 kB up and 3.0 kB down in a round, 5 of one's network; passes: 1 + 40, with common; "
        "the server trains on 3,500 samples"
    )
