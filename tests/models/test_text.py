"""Models of texts, checked against PyTorch's own layers and against what they must not see."""

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck.core.errors import ModelError, SettingsError
from potluck.models import build
from potluck.models.text import Attention, Recurrence


def test_attention_is_pytorchs():
    torch.manual_seed(0)
    ours, theirs = Attention(8, 2, causal=False), nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x, mask = torch.randn(3, 5, 8), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours(x, mask), theirs(x, x, x, key_padding_mask=mask == 0)[0], rtol=1e-5, atol=1e-6)
    ours.causal = True
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    torch.testing.assert_close(ours(x), theirs(x, x, x, attn_mask=later)[0], rtol=1e-5, atol=1e-6)


def test_the_recurrence_is_pytorchs():
    torch.manual_seed(0)
    ours, theirs = Recurrence(3, 4), nn.LSTM(3, 4, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input.weight)
        theirs.bias_ih_l0.copy_(ours.input.bias)
        theirs.weight_hh_l0.copy_(ours.hidden.weight)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(2, 6, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["transformer", "char_lstm"])
def test_at_each_position_nothing_is_seen_of_what_follows(name):
    settings = {"width": 16} if name == "transformer" else {"hidden": 8}
    model = build(name, (7,), 11, per_position=True, **settings).eval()
    ids = torch.randint(11, (2, 7))
    changed = ids.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model(ids), model(changed)
    assert before.shape == (2, 7, 11)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_what_fills_up_a_text_does_not_count():
    model = build("transformer", (6,), 3, vocabulary=20, width=16).eval()
    ids, mask = torch.randint(1, 20, (2, 6)), torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]])
    other = torch.where(mask == 1, ids, 7)
    torch.testing.assert_close(model(ids=ids, mask=mask), model(ids=other, mask=mask))
    assert not torch.allclose(model(ids), model(other))
    assert build("transformer", {"ids": (6,), "mask": (6,)}, 3).positions.num_embeddings == 6


def test_sizes_of_the_lstm_are_those_of_fedavgs_paper():
    model = build("char_lstm", (80,), 90, per_position=True)
    assert [model.embedding.embedding_dim, len(model.layers), model.head.in_features] == [8, 2, 256]


def test_mistakes_are_told():
    with pytest.raises(ModelError, match=r"transformer reads token ids, a row for each text"):
        build("transformer", (1, 8, 8), 3)
    with pytest.raises(ModelError, match=r"the inputs have the shape \{'words': \(8,\)\}"):
        build("transformer", {"words": (8,)}, 3)
    with pytest.raises(SettingsError, match="width = 10 cannot be shared by heads = 4"):
        build("transformer", (8,), 3, width=10)


@pytest.mark.parametrize("name", ["transformer", "char_lstm"])
def test_serial_and_batched_agree_and_learn(name):
    """Texts of class 1 hold more of the upper half of the alphabet."""
    random = np.random.default_rng(0)

    def texts(rows):
        y = random.integers(2, size=rows)
        return np.where(random.random((rows, 6)) < 0.75, y[:, None] * 5, 5 - y[:, None] * 5) + random.integers(
            5, size=(rows, 6)
        ), y

    data, test = [texts(40) for _ in range(2)], texts(60)
    settings = {"width": 8, "heads": 2, "layers": 1} if name == "transformer" else {"hidden": 8, "layers": 1}

    def play(engine):
        people = []
        for number, own in enumerate(data):
            torch.manual_seed(number)
            model = build(name, (6,), 2, vocabulary=10, **settings).double()
            plan = potluck.Plan(lr=0.02, epochs=6, batch_size=8)
            people.append(potluck.Participant(f"p{number}", model, own, labels=range(2), plan=plan))
        return potluck.Federation(people, potluck.methods.FedAvg(), test=test, engine=engine).run(2)

    serial, batched = play("serial"), play("batched")
    for one, other in zip(serial.rows(), batched.rows(), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-9)
    assert serial.final.accuracy > 0.8
