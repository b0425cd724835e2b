"""What a payload must look like: names, shapes, types and ranges, and nothing else in it."""

from __future__ import annotations

import pytest
import torch

from potluck import Payload, PayloadError, Schema, TensorSpec
from tests.core.payloads import sample


def test_a_fact_that_is_not_finite_does_not_pass_a_form():
    with pytest.raises(PayloadError, match="not plain: Out of range float"):
        Schema(facts={"loss": float}).check(Payload(facts={"loss": float("nan")}))


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (torch.zeros(3), r"shape \(3,\); expected \('any', 2\)"),
        (torch.zeros(5, 3), r"shape \(5, 3\); expected \('any', 2\)"),
        (torch.zeros(5, 2, 1), r"shape \(5, 2, 1\)"),
        (torch.zeros(5, 2).double(), "is torch.float64; expected torch.float32"),
        (torch.tensor([[0.0, -0.1]]), r"holds -0.1\d*; expected at least 0"),
        (torch.tensor([[0.0, 1.5]]), "holds 1.5; expected at most 1"),
    ],
)
def test_a_tensor_unlike_what_was_asked_for_is_refused(tensor, complaint):
    with pytest.raises(PayloadError, match=f"tensor 'p' .*{complaint}"):
        TensorSpec((None, 2), low=0, high=1).check("p", tensor)


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_a_tensor_like_what_was_asked_for_is_taken(rows, dtype):
    TensorSpec((None, 2), dtype, low=0, high=1).check("p", torch.ones(rows, 2, dtype=dtype))


def test_a_scalar_is_a_shape_too():
    TensorSpec(()).check("p", torch.tensor(1.0))
    with pytest.raises(PayloadError, match=r"expected \(\)"):
        TensorSpec(()).check("p", torch.ones(1))


FORM = Schema({"votes": TensorSpec((2,), torch.int32)}, {"samples": int})


VOTES = {"votes": torch.zeros(2, dtype=torch.int32)}


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (Payload({}, {"samples": 1}), "^tensor 'votes' is missing$"),
        (Payload({**VOTES, "more": torch.ones(1)}, {"samples": 1}), "^tensor 'more' was not asked for$"),
        (Payload({"votes": torch.zeros(2)}, {"samples": 1}), "^tensor 'votes' is torch.float32"),
        (Payload(VOTES), "^fact 'samples' is missing$"),
        (Payload(VOTES, {"samples": 1, "age": 2}), "^fact 'age' was not asked for$"),
        (Payload(VOTES, {"samples": "1"}), "^fact 'samples' is '1': input should be a valid integer$"),
        (Payload(VOTES, {"samples": 1.0}), "^fact 'samples' is 1.0: input should be a valid integer$"),
        (Payload(VOTES, {"samples": True}), "^fact 'samples' is True: input should be a valid integer$"),
        (Payload(VOTES, {"samples": None}), "^fact 'samples' is None: input should be a valid integer$"),
    ],
)
def test_an_answer_of_another_form_is_refused(payload, complaint):
    with pytest.raises(PayloadError, match=complaint):
        FORM.check(payload)


def test_an_answer_of_the_right_form_is_taken():
    FORM.check(Payload(VOTES, {"samples": 1}))
    Schema(facts={"leads": bool}).check(Payload(facts={"leads": True}))


def test_an_empty_form_takes_only_an_empty_payload():
    Schema().check(Payload())
    with pytest.raises(PayloadError, match="'votes' was not asked for"):
        Schema().check(Payload(VOTES))


def test_an_open_form_takes_any_tensors_but_no_facts():
    Schema(tensors=None).check(sample_without_facts := Payload(sample().tensors))
    assert sample_without_facts.tensors
    with pytest.raises(PayloadError, match="fact 'labels' was not asked for"):
        Schema(tensors=None).check(sample())


def test_a_form_can_be_read_off_tensors():
    form = Schema.of(sample().tensors, {"labels": list, "samples": int})
    form.check(sample())
    with pytest.raises(PayloadError, match=r"'weight' has shape \(3,\); expected \(2, 3\)"):
        form.check(Payload({**sample().tensors, "weight": torch.ones(3)}, sample().facts))


@pytest.mark.parametrize(
    ("tensor", "complaint"),
    [
        (torch.tensor([2.0**61, 0]), "holds 2.30584e\\+18; expected at most 1.15292e\\+18"),
        (torch.tensor([0, -3e38]), "holds -3e\\+38; expected at least"),
        (torch.tensor([float("nan"), 0]), "holds NaN or infinity"),
        (torch.tensor([float("inf"), 0]), "holds NaN or infinity"),
        (torch.tensor([2**49, 0]), "holds 5.6295e\\+14; expected at most 2.81475e\\+14"),
        (torch.tensor([-(2**62), 0]), "holds -4.61169e\\+18; expected at least -2.81475e\\+14"),
    ],
)
def test_numbers_are_such_that_their_sums_are_finite(tensor, complaint):
    with pytest.raises(PayloadError, match=f"^tensor 'p' {complaint}"):
        TensorSpec((2,), tensor.dtype).check("p", tensor)
    with pytest.raises(PayloadError, match=f"^tensor 'p' {complaint}"):
        Schema(None).check(Payload({"p": tensor}))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_sum_of_a_row(dtype):
    like = TensorSpec((None, 3), dtype, low=0, high=1, row_sum=1)
    like.check("p", torch.rand(50, 3, dtype=torch.float64).softmax(dim=1).to(dtype))
    like.check("p", torch.zeros(0, 3, dtype=dtype))
    for odd in ([0, 0, 0], [0.5, 0.5, 0.5]):
        with pytest.raises(PayloadError, match=f"a row of tensor 'p' sums to {sum(odd):g}; expected 1"):
            like.check("p", torch.tensor([[0, 1, 0], odd], dtype=dtype))


def test_lengths_of_one_name_are_equal_and_within_bounds():
    schema = Schema(
        {"in": TensorSpec(("pairs", 2)), "out": TensorSpec(("pairs", 3, "wide"))}, lengths={"pairs": (1, 4)}
    )
    for pairs, wide in ((1, 0), (4, 9)):
        schema.check(Payload({"in": torch.zeros(pairs, 2), "out": torch.zeros(pairs, 3, wide)}))
    for pairs, others, complaint in ((3, 2, "'out' has 2 pairs, 'in' has 3"), (5, 5, "has 5 pairs; expected 1 to 4")):
        with pytest.raises(PayloadError, match=complaint):
            schema.check(Payload({"in": torch.zeros(pairs, 2), "out": torch.zeros(others, 3, 1)}))
    with pytest.raises(PayloadError, match="has 0 pairs; expected 1 to 4"):
        schema.check(Payload({"in": torch.zeros(0, 2), "out": torch.zeros(0, 3, 1)}))


def test_the_nearest_values_that_fit():
    like = TensorSpec((2, 3), low=0, high=1, row_sum=1)
    schema = Schema({"p": like, "n": TensorSpec((1,), torch.int64, low=0), "w": TensorSpec((2,))}, {"k": int})
    near = Payload(
        {
            "p": torch.tensor([[0.5, 0.5, -0.2], [0.0, 0.0, 0.0]]),
            "n": torch.tensor([-3]),
            "w": torch.tensor([5.0, -5.0]),
        },
        {"k": 3},
    )
    found = schema.nearest(near)
    assert found["p"][0].tolist() == [0.5, 0.5, 0.0]
    torch.testing.assert_close(found["p"][1], torch.full((3,), 1 / 3))
    assert found["n"].item() == -3, "counts are never changed"
    assert found["w"].tolist() == [5.0, -5.0]
    assert found.facts == {"k": 3}
    spoilt = schema.nearest(Payload({"p": torch.tensor([[float("nan"), float("inf"), 0.0]] * 2)}))
    assert not spoilt["p"].isfinite().all(), "what is not finite is left to be refused"
    plain = Schema({"w": TensorSpec((2,))})
    assert plain.nearest(near) is near
    assert TensorSpec((2,), low=0).nearest(torch.tensor([-1.0, 3.0])).tolist() == [0.0, 3.0]


def test_the_bytes_of_tensors_whose_shape_is_known():
    assert Schema({"a": TensorSpec((2, 3)), "b": TensorSpec((), torch.float64)}).bytes == 32
    assert Schema({"a": TensorSpec((2, None))}).bytes is None
    assert Schema(None).bytes is None
    assert Schema().bytes == 0


def test_a_row_of_nothing_is_spread_evenly():
    for width in (1, 2, 4):
        found = TensorSpec((3, width), low=0, row_sum=1).nearest(torch.zeros(3, width))
        assert found.tolist() == [[1 / width] * width] * 3
    assert TensorSpec((3, 0), low=0, row_sum=1).nearest(torch.zeros(3, 0)).shape == (3, 0)


def test_some_tensors_may_be_left_out_and_a_schema_can_be_of_some_alone():
    schema = Schema({"w": TensorSpec((2,)), "more": TensorSpec((3,))}, optional={"more"})
    schema.check(Payload({"w": torch.zeros(2)}))
    schema.check(Payload({"w": torch.zeros(2), "more": torch.zeros(3)}))
    for odd in ({"more": torch.zeros(3)}, {"w": torch.zeros(2), "more": torch.zeros(2)}):
        with pytest.raises(PayloadError):
            schema.check(Payload(odd))
    schema.only(["more"]).check(Payload({"more": torch.zeros(3)}))
    with pytest.raises(PayloadError, match="'w' was not asked for"):
        schema.only(["more"]).check(Payload({"w": torch.zeros(2), "more": torch.zeros(3)}))
