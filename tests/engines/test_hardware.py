from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from potluck.core.errors import SettingsError
from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict
from potluck.core.samples import Samples
from potluck.engines import Batched, Serial, make_engine
from potluck.engines.hardware import computing_in
from potluck.learners.network import Network
from potluck.models import transformer
from tests.jobs import samples
from tests.tables import cnn

CPU = torch.device("cpu")


def jobs(work):
    plan = Plan(lr=0.001, epochs=1, batch_size=8)  # small, since BatchNorm on few samples makes much of a rounding
    made = []
    for i in range(3):
        data = samples(24, i)
        made.append(Job(f"p{i}", work(data), Network(cnn(i, dtype=torch.float32)), data, plan, seed=i, round=1))
    return made


def trained(engine):
    made = jobs(lambda data: Fit())
    engine.answer(made)
    return [job.learner.weights() for job in made]


def test_bfloat16_is_near_float32_and_not_equal_to_it():
    exact, short = trained(Serial(CPU)), trained(Serial(CPU, "bfloat16"))
    torch.testing.assert_close(exact, short, rtol=0.01, atol=0.005)
    assert any(not torch.equal(exact[0][name], short[0][name]) for name in exact[0])
    assert all(entry.dtype != torch.bfloat16 for entry in short[0].values()), "weights keep their type"


def test_engines_agree_in_bfloat16():
    torch.testing.assert_close(
        trained(Serial(CPU, "bfloat16")), trained(Batched(CPU, "bfloat16")), rtol=0.01, atol=0.005
    )
    one, other = (e(CPU, "bfloat16").answer(jobs(Predict)) for e in (Serial, Batched))
    torch.testing.assert_close(one, other, rtol=0.02, atol=0.01)
    assert one[0].dtype == torch.float32


PRODUCTS = {
    "conv1d": lambda x, y: F.conv1d(x, y),
    "conv_transpose1d": lambda x, y: F.conv_transpose1d(x, y),
    "linear": lambda x, y: F.linear(x, y[0]),
    "bilinear": lambda x, y: F.bilinear(x[0], x[0], y),
    "matmul": torch.matmul,
    "@": lambda x, y: x @ y,
    "Tensor.matmul": lambda x, y: x.matmul(y),
    "mm": lambda x, y: torch.mm(x[0], y[0]),
    "Tensor.mm": lambda x, y: x[0].mm(y[0]),
    "addmm": lambda x, y: torch.addmm(x[1], x[0], y[0]),
    "bmm": torch.bmm,
    "Tensor.bmm": lambda x, y: x.bmm(y),
    "baddbmm": lambda x, y: torch.baddbmm(x, x, y),
    "einsum": lambda x, y: torch.einsum("bij,bjk->bik", x, y),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, y),
    "heads": lambda x, y: F.multi_head_attention_forward(
        x, x, x, 4, 2, y.flatten(0, 1)[:12], None, None, None, False, 0.0, y[0], None
    )[0],
}


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_products_are_computed_in_bfloat16_and_come_back_in_float32(product):
    torch.manual_seed(0)
    x, y = torch.randn(4, 4, 4), torch.randn(4, 4, 4)
    with computing_in("bfloat16"):
        found = product(x, y)
    assert found.dtype == torch.float32
    assert torch.equal(found, product(x.bfloat16(), y.bfloat16()).float())
    assert not torch.equal(found, product(x, y))


def test_a_transformer_trains_in_bfloat16_alike_on_both_engines():
    def trained(engine):
        made, plan = [], Plan(optimizer="sgd", lr=0.1, batch_size=4)
        for i in range(2):
            torch.manual_seed(i)
            data = Samples({"x": torch.randint(0, 9, (8, 5)), "y": torch.arange(8) % 3})
            network = Network(transformer((5,), 3, vocabulary=9, width=8, heads=2, layers=1))
            made.append(Job(f"p{i}", Fit(), network, data, plan, seed=i, round=1))
        engine.answer(made)
        return [job.learner.weights() for job in made]

    serial, batched, exact = trained(Serial(CPU, "bfloat16")), trained(Batched(CPU, "bfloat16")), trained(Serial(CPU))
    torch.testing.assert_close(serial, batched, rtol=0.05, atol=0.01)
    assert not torch.equal(serial[0]["blocks.0.attention.query.weight"], exact[0]["blocks.0.attention.query.weight"])
    assert {entry.dtype for entry in serial[0].values()} == {torch.float32}


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(6, 5), (4, 6)),
        (nn.Conv1d(2, 3, 3), (4, 2, 8)),
        (nn.Conv2d(2, 3, 3), (4, 2, 8, 8)),
        (nn.ConvTranspose2d(2, 3, 3), (4, 2, 8, 8)),
        (nn.Conv2d(2, 3, 3), (2, 8, 8)),
    ],
    ids=["linear", "conv1d", "conv2d", "transposed", "one sample"],
)
def test_a_bias_is_added_in_float32(layer, shape):
    """Stacked, a product would be rounded before its bias is added; alone, after. So neither is."""
    x = torch.randn(shape)
    with computing_in("bfloat16"):
        found = layer(x)
        bias, layer.bias = layer.bias, None
        expected = layer(x) + bias.reshape(-1, *[1] * (layer.weight.ndim - 2))
    assert torch.equal(found, expected)


def test_a_step_in_bfloat16_is_the_same_stacked():
    """As near as in float32, and much nearer than either is to a step in float32."""

    def stepped(engine):
        made, plan = [], Plan(optimizer="sgd", lr=1.0, batch_size=16)
        for i in range(4):
            torch.manual_seed(i)
            network = nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.ReLU(), nn.Linear(9, 3))
            data = Samples({"x": torch.randn(16, 6), "y": torch.arange(16) % 3})
            made.append(Job(f"p{i}", Fit(), Network(network), data, plan, seed=i, round=1))
        engine.answer(made)
        return [job.learner.weights() for job in made]

    serial, batched, exact = stepped(Serial(CPU, "bfloat16")), stepped(Batched(CPU, "bfloat16")), stepped(Serial(CPU))
    torch.testing.assert_close(serial, batched, rtol=0, atol=1e-6)
    assert (
        max((one[name] - other[name]).abs().max() for one, other in zip(serial, exact, strict=True) for name in one)
        > 1e-4
    )


def test_float64_networks_stay_as_they_are():
    layer, x = cnn(0), torch.randn(2, 1, 6, 6, dtype=torch.float64)
    layer.eval()
    expected = layer(x)
    with computing_in("bfloat16"):
        assert torch.equal(layer(x), expected)


def test_float32_turns_shortcuts_off_and_on_again():
    before = torch.backends.cudnn.allow_tf32
    with computing_in("float32"):
        assert not torch.backends.cudnn.allow_tf32
        assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cudnn.allow_tf32 == before


def test_an_unknown_precision_is_refused():
    with pytest.raises(SettingsError, match="bfloat16"):
        make_engine("serial", "cpu", "bfloat")
