"""Model cards: what people read."""

from __future__ import annotations

import re

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import potluck
from potluck.methods import FedProto, Local
from tests.export.models import TEST, after_a_run, patients


def card_of(me, folder):
    me.save(folder / "model")
    return (folder / "model" / "README.md").read_text()


def test_it_says_what_it_is_how_good_and_where_from(tmp_path):
    me = after_a_run(FedProto())[0]
    card = card_of(me, tmp_path)
    assert "# p0's model" in card
    assert "probabilities of: `ill`, `unclear`, `well`" in card
    accuracy = re.search(r"\| accuracy \| ([\d.]+)% \|", card)
    assert accuracy is not None
    right = (torch.from_numpy(me.predict_proba(me.test.x.numpy())).argmax(dim=1) == me.test.y).float().mean()
    assert float(accuracy[1]) == pytest.approx(100 * float(right), abs=0.01)
    assert "FedProto (Tan et al." in card
    assert "| rounds | 1 |" in card
    assert card.count("SHA-256 of") == 2


def test_its_code_runs(tmp_path, monkeypatch):
    me = after_a_run(Local())[0]
    card = card_of(me, tmp_path)
    potluck_code, torch_code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path / "model")
    there: dict[str, object] = {"x": TEST[0]}
    exec(potluck_code.replace("this folder", "."), there)
    assert list(there["answers"]) == list(me.predict(TEST[0]))
    there = {"x": torch.from_numpy(TEST[0])}
    exec(torch_code, there)
    assert there["answers"].shape == (40, 3)


@pytest.mark.parametrize("model", [DecisionTreeClassifier(), XGBClassifier(n_estimators=3)])
def test_code_for_estimators_runs(model, tmp_path, monkeypatch):
    frame = patients().drop(columns="ward")
    me = potluck.Participant("ann", model, (frame, "state"), test=(frame, "state"))
    potluck.Federation([me], Local()).run(1)
    card = card_of(me, tmp_path)
    code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    monkeypatch.chdir(tmp_path / "model")
    there = {"x": frame.drop(columns="state")}
    exec(code, there)
    names = list(there["answers"]) if isinstance(model, DecisionTreeClassifier) else ["ill", "well"]
    assert set(names) == {"ill", "well"}
    assert ("0, 1, … stand for `ill`, `well`" in card) == isinstance(model, XGBClassifier)
    assert "`age` (float64), `pressure` (float64)" in card


def test_names_cannot_break_the_table(tmp_path):
    x = torch.randn(20, 3).numpy()
    me = potluck.Participant("a|b\n# <c>", "mlp", (x, [0, 1] * 10))
    potluck.Federation([me], Local()).run(0)
    card = card_of(me, tmp_path)
    assert "| participant | a\\|b\\n# &lt;c> |" in card
