from __future__ import annotations

import pytest
import torch

from potluck.core.errors import SettingsError
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Job, Predict
from potluck.engines import Batched, Serial, make_engine
from potluck.engines.hardware import computing_in
from potluck.learners.network import Network
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
