from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.core.randomness import all_seeded, derive, drawing, generator, seeded

purposes = st.tuples(st.integers(), st.lists(st.text(max_size=3) | st.integers(0, 30), max_size=3).map(tuple))


def test_derived_seeds_never_change():
    """Anything else would change every result ever published."""
    assert derive(0) == 3456079177858693020
    assert derive(7, "clinic", 3, "fit", 1) == 5756695987669740585


@settings(deadline=None)
@given(st.integers(), st.text(max_size=5))
def test_derived_seeds_fit_in_63_bits(seed, purpose):
    assert 0 <= derive(seed, purpose) < 2**63


@settings(deadline=None)
@given(one=purposes, other=purposes)
def test_every_purpose_has_a_seed_of_its_own(one, other):
    assert (derive(one[0], *one[1]) == derive(other[0], *other[1])) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [((0, "a", "b"), (0, "ab")), ((0, "1"), (0, 1)), ((0, "a", "b"), (0, "b", "a")), ((1,), (0, 1)), ((0,), (0, ""))],
)
def test_purposes_that_read_alike_differ(one, other):
    assert derive(*one) != derive(*other)


def draw(random):
    return torch.rand(4, generator=random)


def test_a_generator_draws_the_same_for_the_same_purpose_only():
    assert torch.equal(draw(generator(1, "order", 0)), draw(generator(1, "order", 0)))
    assert not torch.equal(draw(generator(1, "order", 0)), draw(generator(1, "order", 1)))
    assert not torch.equal(draw(generator(1, "order", 0)), draw(generator(2, "order", 0)))


def test_draws_inside_come_from_the_seed_and_those_outside_go_on_untouched():
    torch.manual_seed(5)
    before, after = torch.rand(3), torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), before)
    with seeded(9):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), after)
    with seeded(9):
        assert torch.equal(torch.rand(3), inside)
    assert not torch.equal(inside, after)


def test_an_error_inside_leaves_the_generator_as_it_was():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(3):
        torch.rand(2) @ torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def global_states():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


def draw_everywhere():
    return torch.rand(()).item(), np.random.random(), random.random()


def test_all_global_generators_are_seeded_and_left_as_they_were():
    before = global_states()
    found = []
    for seed in (2**62, 2**62, 5):
        with all_seeded(seed):
            found.append(draw_everywhere())
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])
    assert global_states() == before


def test_generators_are_left_as_they_were_by_code_that_fails():
    def failing():
        draw_everywhere()
        raise KeyError

    before = global_states()
    with pytest.raises(KeyError), all_seeded(1):
        failing()
    assert global_states() == before


@pytest.mark.parametrize(
    ("call", "draws"),
    [
        (lambda: 1, False),
        (lambda: torch.rand((), generator=torch.Generator()).item(), False),
        (lambda: torch.rand(()).item(), True),
        (lambda: np.random.random(), True),
        (lambda: random.random(), True),
    ],
    ids=["nothing", "a generator of its own", "torch", "numpy", "Python"],
)
def test_code_that_draws_is_found_out(call, draws):
    before = global_states()
    found, drew = drawing(call)
    assert drew is draws
    assert drawing(call) == (found, drew)
    assert global_states() == before
