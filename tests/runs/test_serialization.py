from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.runs.serialization import StateError, as_text, from_text, pack, unpack

plain = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats(allow_nan=False) | st.text(max_size=5)
tensors = st.lists(st.integers(-9, 9), max_size=4).map(torch.tensor)
states = st.recursive(
    plain | tensors,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(states)
def test_state_comes_back_as_it_was(state):
    found, skeleton = pack(state)
    assert same(unpack(found, json.loads(json.dumps(skeleton, allow_nan=False))), state)


def test_names_that_look_like_paths_do_not_collide():
    state = {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}}
    assert same(unpack(*pack(state)), state)


@pytest.mark.parametrize(
    ("state", "message"),
    [({"x": {1: 2}}, r"State '/x' has the key 1"), ({"x": [object()]}, r"State '/x/0' is a object")],
)
def test_what_cannot_be_kept_is_named(state, message):
    with pytest.raises(StateError, match=message):
        pack(state)


def test_numbers_that_json_does_not_have_come_back():
    tensors, skeleton = pack({"best": float("-inf"), "mean": 0.5, "none": float("nan")})
    found = unpack(tensors, json.loads(json.dumps(skeleton, allow_nan=False)))
    assert (found["best"], found["mean"], found["none"] == found["none"]) == (float("-inf"), 0.5, False)
    assert skeleton["dict"]["mean"] == 0.5, "as JSON writes it"


def test_a_tensor_that_is_held_in_several_places_is_stored_once():
    base = torch.arange(6.0).reshape(2, 3)
    state = {"a": base, "b": [base.detach(), base.T, base[0], base.clone(), torch.zeros(0), torch.zeros(0)]}
    tensors, skeleton = pack(state)
    assert len(tensors) == 6
    assert same(unpack(tensors, skeleton), state)
    starts = [tensor.data_ptr() for tensor in tensors.values() if tensor.numel()]
    assert len(set(starts)) == 4, "safetensors refuses tensors that share memory"


@given(states)
def test_state_without_tensors_is_a_text(state):
    text = as_text(state, 10_000)
    assert (text is None) == bool(pack(state)[0])
    assert text is None or same(state, from_text(text))


def test_a_long_text_is_left_to_a_file():
    assert as_text({"a": "b" * 50}, 50) is None
    assert from_text(as_text({"a": "b"}, 50) or "") == {"a": "b"}
