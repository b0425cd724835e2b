"""What travels: sizes are exact, reading gives back what was written, and nothing bad gets through."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck import Payload, PayloadError, Schema
from potluck.core.payload import DIMENSIONS, MAX_BYTES, MAX_FACTS, MAX_TENSORS, LazyReplies, dtype_named
from tests.core.payloads import same, sample

DTYPES = [
    torch.int64,
    torch.float64,
    torch.float32,
    torch.int32,
    torch.bfloat16,
    torch.float16,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
facts = st.dictionaries(st.text(max_size=6), plain, max_size=4)
names = st.text(max_size=12).filter(lambda name: name != "__metadata__" and name.isprintable())


@st.composite
def tensors(draw):
    """A tensor of any dtype and shape, with any finite bits in it."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.lists(st.integers(0, 4), max_size=3))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    values = torch.randint(0, 256, (*shape, dtype.itemsize), dtype=torch.uint8, generator=random)
    if dtype is torch.bool:
        return values.reshape(shape) < 128
    found = values.view(dtype).reshape(shape)
    return found.nan_to_num(0.5, 1.0, -1.0) if dtype.is_floating_point else found


payloads = st.builds(Payload, st.dictionaries(names, tensors(), max_size=5), facts)


def packed(header, body=b""):
    """A file as safetensors lays it out, with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def described(dtype, shape, length):
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, length]}}


@settings(deadline=None)
@given(payloads)
def test_size_is_the_number_of_bytes_sent(payload):
    assert payload.size == len(payload.to_bytes())


@settings(deadline=None)
@given(payloads)
def test_reading_gives_back_what_was_written(payload):
    same(Payload.from_bytes(payload.to_bytes()), payload)


@pytest.mark.parametrize("seed", range(100))
def test_size_holds_for_many_tensors_of_mixed_dtypes(seed):
    """The order safetensors lays them out in decides how many digits the offsets have."""
    lengths = torch.randint(0, 20, (12, 2), generator=torch.Generator().manual_seed(seed)).tolist()
    payload = Payload({f"n{i}": torch.zeros(n, dtype=DTYPES[d % len(DTYPES)]) for i, (n, d) in enumerate(lengths)})
    assert payload.size == len(payload.to_bytes())


def test_an_empty_payload_still_has_a_size():
    assert Payload().size == len(Payload().to_bytes()) > 0
    same(Payload.from_bytes(Payload().to_bytes()), Payload())


def test_views_and_shared_memory_are_written_out_in_full():
    whole = torch.arange(12.0).reshape(3, 4)
    payload = Payload({"whole": whole, "again": whole, "turned": whole.T, "part": whole[1:, ::2]})
    assert payload.size == len(payload.to_bytes())
    same(Payload.from_bytes(payload.to_bytes()), payload)


def test_a_payload_carries_no_gradient():
    assert not Payload({"a": torch.ones(2, requires_grad=True)})["a"].requires_grad
    assert type(Payload({"a": torch.nn.Parameter(torch.ones(2), requires_grad=False)})["a"]) is torch.Tensor
    plain = torch.ones(2)
    assert Payload({"a": plain})["a"] is plain


@pytest.mark.parametrize("dtype", [torch.complex64, torch.uint16, torch.float8_e5m2])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(PayloadError, match=rf"'a' is {dtype}; expected one of int64"):
        Payload({"a": torch.zeros(1).to(dtype)})


@pytest.mark.parametrize("name", ["__metadata__", 3, "new\nline", "\ud800"])
def test_a_name_that_cannot_be_written_is_refused(name):
    with pytest.raises(PayloadError, match="expected printable text other than '__metadata__'"):
        Payload({name: torch.zeros(1)})


@pytest.mark.parametrize("fact", [object(), float("nan"), float("inf"), {1, 2}, torch.zeros(1)])
def test_facts_must_be_plain(fact):
    payload = Payload(facts={"a": fact})
    with pytest.raises(PayloadError, match="are not plain"):
        _ = payload.size
    with pytest.raises(PayloadError, match="are not plain"):
        payload.to_bytes()


def test_a_payload_cut_off_anywhere_is_refused():
    data = sample().to_bytes()
    for length in range(len(data)):
        with pytest.raises(PayloadError):
            Payload.from_bytes(data[:length])


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=40))
def test_a_payload_with_more_behind_it_is_refused(more):
    with pytest.raises(PayloadError, match="damaged"):
        Payload.from_bytes(sample().to_bytes() + more)


def reads_or_refuses(data):
    try:
        read = Payload.from_bytes(data)
    except PayloadError:
        return
    assert read.size > 0  # what was read can be used


def test_no_flipped_bit_does_more_than_have_the_payload_refused():
    data = sample().to_bytes()
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            reads_or_refuses(bytes(flipped))


@settings(deadline=None)
@given(payload=payloads, position=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_no_changed_byte_does_more_than_have_the_payload_refused(payload, position, byte):
    data = bytearray(payload.to_bytes())
    data[position % len(data)] = byte
    reads_or_refuses(bytes(data))


@settings(deadline=None)
@given(st.binary(max_size=60) | st.builds(packed, st.binary(max_size=30) | facts, st.binary(max_size=9)))
def test_no_file_at_all_does_more_than_be_refused(data):
    reads_or_refuses(data)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (packed({"__metadata__": {"facts": "[" * 100_000}}), "damaged"),
        (packed({"__metadata__": {"facts": "{"}}), "damaged"),
        (packed({"__metadata__": {"facts": "[1]"}}), "facts are a list; expected names and values"),
        (packed({"__metadata__": {"format": "pt"}}), r"that was not asked for: \['format'\]"),
        (packed(described("U16", [1], 2), b"00"), "torch.uint16; expected one of"),
        (packed(described("F8_E8M0", [1], 1), b"0"), "damaged"),
        (packed(described("F32", [0, 2**63], 0)), "damaged"),
        (packed(described("F32", [1] * 100, 4), b"0000"), "damaged"),
        (packed(described("F32", [2], 4), b"0000"), "damaged"),
        (struct.pack("<Q", 2**60), "damaged"),
    ],
    ids=["deep", "half", "list", "metadata", "dtype", "unknown dtype", "huge", "dimensions", "short", "long header"],
)
def test_a_made_up_file_is_refused_and_says_why(data, complaint):
    with pytest.raises(PayloadError, match=complaint):
        Payload.from_bytes(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_that_are_not_finite_are_refused(value, dtype):
    spoilt = Payload({"fine": torch.ones(2), "bad": torch.tensor([1.0, value], dtype=dtype)})
    with pytest.raises(PayloadError, match="'bad' holds NaN or infinity"):
        Payload.from_bytes(spoilt.to_bytes())
    with pytest.raises(PayloadError, match="'bad' holds NaN or infinity"):
        Schema(tensors=None).check(spoilt)


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": [1, -Infinity]}', '{"a": 1e999}'])
def test_facts_that_are_not_finite_are_refused(text):
    with pytest.raises(PayloadError, match="not plain: Out of range float"):
        Payload.from_bytes(packed({"__metadata__": {"facts": text}}))


def test_large_values_are_finite_even_if_their_sum_is_not():
    Payload({"x": torch.full((4,), torch.finfo(torch.float32).max)}).check_finite()
    Payload({"x": torch.full((4,), 60_000.0, dtype=torch.float16)}).check_finite()
    for bad in (float("inf"), -float("inf"), float("nan")):
        values = torch.full((4,), torch.finfo(torch.float32).max)
        values[2] = bad
        with pytest.raises(PayloadError, match="NaN or infinity"):
            Payload({"x": values}).check_finite()
    with pytest.raises(PayloadError, match="NaN or infinity"):
        Payload({"x": torch.tensor([float("inf"), -float("inf")])}).check_finite()


# Replies made when they are handed out


def test_asking_who_has_a_reply_makes_none():
    """A reply is counted as sent when it is made, so that nothing but handing it out may make one."""
    made = []
    replies = LazyReplies(["p1", "p0", "p1"], lambda name: made.append(name) or name.upper())
    assert "p0" in replies
    assert "stranger" not in replies
    assert list(replies) == ["p1", "p0"]
    assert len(replies) == 2
    assert replies.keys() == {"p0", "p1"}
    assert made == []
    assert replies["p0"] == replies["p0"] == "P0"
    assert made == ["p0", "p0"], "none is kept"


def test_there_is_no_reply_for_a_stranger():
    made = []
    replies = LazyReplies(["p0"], made.append)
    with pytest.raises(KeyError, match="stranger"):
        replies["stranger"]
    assert replies.get("stranger") is None
    assert made == []


# Types by name, and what there may be at most


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_type_that_travels_is_known_by_name(dtype):
    assert dtype_named(str(dtype).removeprefix("torch.")) is dtype


def test_any_other_type_is_refused_with_those_that_travel():
    with pytest.raises(PayloadError, match=r"^type 'complex64' cannot travel; expected one of int64, float64"):
        dtype_named("complex64")


def test_a_tensor_has_as_many_dimensions_as_torch_can_work_with():
    most = Payload.from_bytes(packed(described("F32", [1] * DIMENSIONS, 4), b"0000"))
    assert most["a"].ndim == DIMENSIONS == 64
    with pytest.raises(PayloadError, match="tensor 'a' has more than 64 dimensions"):
        Payload.from_bytes(packed(described("F32", [1] * (DIMENSIONS + 1), 4), b"0000"))


def test_what_a_payload_may_have_unless_somebody_allows_less():
    assert (MAX_BYTES, MAX_TENSORS, MAX_FACTS) == (2_147_483_648, 100_000, 16_777_216)


def headed(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (headed(b" " * (2**24 * 2 + 256 * 100_000 + 1)), "header has 59154433 bytes; the limit is 59154432"),
        (headed(b"[" + b"[]," * 2**20 + b"[]]"), "header and facts have 2097154 values; the limit is 2097152"),
        (headed(b'{"__metadata__":{"facts":"' + b"[]," * 2**20 + b'"}}'), "have 20971.* values; the limit is"),
    ],
    ids=["long", "many", "many facts"],
)
def test_a_header_is_measured_before_it_is_read(data, complaint, monkeypatch):
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("it was read"))
    with pytest.raises(PayloadError, match=complaint):
        Payload.from_bytes(data)
