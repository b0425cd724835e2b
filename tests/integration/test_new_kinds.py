"""A kind of reading of one's own is one class: every engine answers it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor

import potluck
from potluck.core.errors import ModelError
from potluck.core.model_view import ModelView
from potluck.methods import Local
from tests.tables import PLAN, cnn, made_data, participants


@dataclass(frozen=True, eq=False)
class Saliency(potluck.Reading):
    """How much each input moves the highest logit."""

    absolute: bool = True

    def compute(self, model: ModelView, x: Tensor) -> Tensor:
        slope: Tensor = torch.func.grad(lambda x: model(x).amax(dim=-1).sum())(x)
        return slope.abs() if self.absolute else slope


class Looks(Local):
    """Learns alone, and looks at its own data."""

    def round(self, me):
        yield from super().round(me)
        few = me.data.take(torch.arange(10))
        me.state["slope"] = yield Saliency(few)
        me.state["signed"] = yield Saliency(few, absolute=False)


def played(engine, models):
    federation = potluck.Federation(participants(models), Looks(), seed=4, engine=engine)
    federation.run(1)
    return federation.participants


@pytest.mark.parametrize("engine", ["batched", "auto"])
def test_every_engine_answers_it_like_the_serial_one(engine):
    expected, found = (played(kind, [cnn(i) for i in range(3)]) for kind in ("serial", engine))
    for name, person in expected.items():
        model, x = person.model.eval(), person.data.x[:10].clone().requires_grad_()
        model(x).amax(dim=-1).sum().backward()
        torch.testing.assert_close(person.state["signed"], x.grad, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(person.state["slope"], x.grad.abs(), rtol=1e-9, atol=1e-12)
        for key in ("slope", "signed"):
            torch.testing.assert_close(found[name].state[key], person.state[key], rtol=1e-9, atol=1e-12)


def test_stacked_and_not_one_by_one(monkeypatch):
    asked = []
    compute = Saliency.compute
    monkeypatch.setattr(Saliency, "compute", lambda self, model, x: (asked.append(len(x)), compute(self, model, x))[1])
    played("batched", [cnn(i) for i in range(3)])
    assert len(asked) == 2, "once for each of the two readings, however many networks there are"


def test_a_dry_run_answers_it_too():
    assert played("dry-run", [cnn(0)])["p0"].state["slope"].shape == (10, 1, 6, 6)


def test_an_estimator_says_that_it_cannot():
    tree = potluck.Participant("tree", DecisionTreeClassifier(), made_data(20, 0), plan=PLAN, labels=range(3))
    with pytest.raises(ModelError, match="tree: DecisionTreeClassifier has no layers to look into"):
        potluck.Federation([tree], Looks(), engine="serial").run(1)
