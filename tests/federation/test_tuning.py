"""Plans are chosen on validation data: the better one, on every engine, and never by the test data."""

from __future__ import annotations

import copy
import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import potluck
from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.plan import Plan
from potluck.core.requests import Fitted
from potluck.engines.batched import engine as batched
from potluck.federation.tuning import choose_plan, grid
from potluck.learners.network import Network
from potluck.methods import CoFED, Local
from potluck.recipes import read
from tests.tables import agree, cnn, made_data, mlp

SGD = Plan(optimizer="sgd", lr=0.1, epochs=4, batch_size=8)
STILL, GOOD = SGD.replace(lr=1e-9), SGD


def party(model=None, rows=60, **settings):
    settings = {"validation": 0.3, "labels": range(3), "plan": STILL} | settings
    return potluck.Participant("clinic", model or mlp(0), made_data(rows, 5), **settings)


# Grids


def test_a_grid_is_every_combination_in_order():
    plans = grid(Plan(epochs=7), lr=[1e-3, 1e-2], optimizer=["sgd", "adam"])
    assert [(plan.lr, plan.optimizer) for plan in plans] == [
        (1e-3, "sgd"),
        (1e-3, "adam"),
        (1e-2, "sgd"),
        (1e-2, "adam"),
    ]
    assert {plan.epochs for plan in plans} == {7}


def test_a_grid_of_nothing_is_the_plan():
    assert grid(SGD) == [SGD]


def test_a_choice_may_be_nothing_or_an_array():
    assert [plan.max_grad_norm for plan in grid(Plan(max_grad_norm=2.0), max_grad_norm=[None, 1.0])] == [None, 1.0]
    assert [plan.lr for plan in grid(Plan(), lr=np.array([0.1, 0.2]))] == [0.1, 0.2]


def test_impossible_combinations_are_left_out():
    plans = grid(Plan(), optimizer=["sgd", "adam"], momentum=[0.0, 0.9])
    assert [(plan.optimizer, plan.momentum) for plan in plans] == [("sgd", 0.0), ("sgd", 0.9), ("adam", 0.0)]


@pytest.mark.parametrize(
    ("plan", "choices", "message"),
    [
        (
            SGD.replace(momentum=0.9),
            {"optimizer": ["sgd", "adam"]},
            "optimizer = 'adam' is possible in no combination: mom",
        ),
        (Plan(), {"lr": [0.1, -1]}, r"lr = -1 is possible in no combination: .*greater than 0"),
        (Plan(), {"lrr": [0.1]}, "A plan has no setting 'lrr'. Did you mean 'lr'?"),
        (Plan(), {"lr": 0.1}, "lr = 0.1; expected a list of values to choose from."),
        (Plan(), {"lr": []}, r"lr = \[\]; expected a list"),
        (Plan(), {"optimizer": "sgd"}, "optimizer = 'sgd'; expected a list"),
    ],
)
def test_what_a_grid_refuses(plan, choices, message):
    with pytest.raises(SettingsError, match=message):
        grid(plan, **choices)


# Choosing


@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("plans", [[STILL, GOOD], [GOOD, STILL]], ids=["still first", "good first"])
def test_the_better_plan_is_found(plans, engine):
    assert choose_plan(party(), plans, engine=engine) is GOOD


def test_ties_go_to_the_first():
    plans = [STILL, *(SGD.replace(epochs=4) for _ in range(3))]
    assert choose_plan(party(), plans) is plans[1]


def test_it_is_what_plain_pytorch_finds():
    """Whole batches, so that no shuffle matters: the same losses, the same accuracies, the same choice."""
    whole = SGD.replace(batch_size=100, epochs=5)
    for seed in range(4):
        person = party(validation=made_data(40, 50 + seed))
        accuracies = []
        for plan in (plans := grid(whole, lr=[3.0, 0.02, 0.3, 0.1])):
            model, (x, y) = copy.deepcopy(person.model), (person.data.x, person.data.y)
            optimizer = torch.optim.SGD(model.parameters(), lr=plan.lr)
            for _ in range(5):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            said = model(person.validation.x).argmax(dim=1)
            accuracies.append((said == person.validation.y).double().mean().item())
        expected = plans[accuracies.index(max(accuracies))]
        for engine in ("serial", "batched"):
            assert choose_plan(person, plans, seed=seed, engine=engine) is expected


@pytest.mark.parametrize("model", [cnn, mlp])
def test_engines_agree(model, caplog):
    plans = grid(SGD.replace(epochs=2), optimizer=["adam", "sgd"], lr=[1e-4, 1e-3, 1e-2, 0.1], batch_size=[7, 16])
    with caplog.at_level(logging.WARNING):
        for seed in range(3):
            person = party(model(seed), rows=80)
            alone = choose_plan(person, plans, seed=seed, engine="serial")
            assert alone is choose_plan(person, plans, seed=seed, engine="batched")
    assert "cannot be stacked" not in caplog.text


def test_plans_that_differ_in_the_rate_are_trained_side_by_side(monkeypatch):
    sizes = []

    class Noted(batched.Training):
        def __init__(self, jobs, *more):
            sizes.append(len(jobs))
            super().__init__(jobs, *more)

    monkeypatch.setattr(batched, "Training", Noted)
    choose_plan(party(), grid(SGD, lr=[0.1, 0.2, 0.3], optimizer=["sgd", "adam"]), engine="batched")
    assert sizes == [3, 3]


def test_every_candidate_starts_alike_and_shuffles_alike(monkeypatch):
    seen = []

    def fit(self, job, device):
        seen.append((job.seed, job.round, float(self.weights()["1.weight"].sum()), id(self.model)))
        return Fitted(steps=0)

    monkeypatch.setattr(Network, "fit", fit)
    choose_plan(party(), [STILL, GOOD, GOOD], engine="serial", seed=4)
    choose_plan(party(), [STILL], engine="serial", seed=5)
    assert len({entry[:3] for entry in seen[:3]}) == 1
    assert len({entry[3] for entry in seen[:3]}) == 3
    assert seen[3][0] != seen[0][0]


def test_the_choice_depends_on_the_seed_alone():
    plans = grid(SGD.replace(epochs=1), lr=[0.01, 0.03, 0.1, 0.3])
    torch.manual_seed(1)
    first = [choose_plan(party(), plans, seed=seed) for seed in range(4)]
    torch.manual_seed(2)
    assert first == [choose_plan(party(), plans, seed=seed) for seed in range(4)]


def test_the_participant_is_left_as_it_is():
    person = party(mlp(0).train())
    before, kept = person.weights(), (person.data, person.validation, person.learner, person.plan, person.state)
    state = torch.get_rng_state()
    choose_plan(person, [GOOD, STILL], seed=3)
    assert all(torch.equal(entry, before[name]) for name, entry in person.weights().items())
    now = (person.data, person.validation, person.learner, person.plan, person.state)
    assert all(one is other for one, other in zip(kept, now, strict=True))
    assert person.model.training
    assert all(parameter.grad is None for parameter in person.model.parameters())
    assert torch.equal(state, torch.get_rng_state())
    fresh = potluck.Participant("built", lambda input_shape, classes: mlp(0), made_data(30, 1), validation=0.3)
    choose_plan(fresh, [GOOD])
    assert not fresh.built


def test_it_sees_the_weights_and_the_split_of_the_federation():
    seen, built = [], []

    def look(x):
        seen.append(x)
        return x

    def build(input_shape, classes):
        built.append(nn.Sequential(nn.Flatten(), nn.Linear(36, classes, dtype=torch.float64)))
        return built[-1]

    person = party(build)
    choose_plan(person, [STILL.replace(transform=look, epochs=1, batch_size=100)], seed=9, engine="serial")
    federation = potluck.Federation([party(build)], Local(), seed=9)
    there = federation.participants["clinic"]
    assert torch.equal(seen[-1], there.validation.x)
    torch.testing.assert_close(seen[-2].sum(0), there.data.x.sum(0))
    assert not torch.equal(seen[-1], person.validation.x)
    assert torch.equal(built[0][1].weight, there.model[1].weight)


def test_test_data_are_never_looked_at():
    """Test labels that the untrained model guesses all right would choose the other plan."""
    x, _ = made_data(200, 6)
    guessed = mlp(0)(torch.from_numpy(x)).argmax(dim=1)
    person = party(test=(x, guessed))
    chosen = choose_plan(person, [STILL, GOOD])
    accuracy = {}
    for plan in (STILL, GOOD):
        federation = potluck.Federation([party(plan=plan, test=(x, guessed))], Local())
        accuracy[plan.lr] = federation.run(1).final.accuracy
    assert accuracy[STILL.lr] > accuracy[GOOD.lr]
    assert chosen is GOOD


def test_validation_data_of_ones_own():
    assert choose_plan(party(validation=made_data(40, 8)), [STILL, GOOD]) is GOOD


def test_a_plan_that_diverges_is_not_chosen():
    wild = SGD.replace(lr=1e200)
    assert choose_plan(party(cnn(0)), [wild, STILL]) is STILL
    with pytest.raises(SettingsError, match="clinic: training diverged with every plan"):
        choose_plan(party(cnn(0)), [wild, wild])


@pytest.mark.parametrize(
    ("person", "plans", "kind", "message"),
    [
        (
            lambda: party(validation=0.0),
            [GOOD],
            DataError,
            "clinic has no validation data to choose a plan by; expected",
        ),
        (party, [], SettingsError, r"plans is \[\]; expected at least one Plan, e.g. grid\("),
        (party, ["adam"], SettingsError, r"plans is \['adam'\]; expected"),
        (
            lambda: party(DecisionTreeClassifier()),
            [GOOD],
            ModelError,
            "clinic brought a DecisionTreeClassifier, which .* Bring scikit-learn's GridSearchCV around it",
        ),
        (
            lambda: party("sklearn.tree:DecisionTreeClassifier"),
            [GOOD],
            ModelError,
            "clinic brought a DecisionTreeClassifier",
        ),
        (lambda: party(mlp(0, classes=4)), [GOOD], ModelError, "clinic: Sequential puts out"),
    ],
)
def test_what_cannot_be_chosen(person, plans, kind, message):
    with pytest.raises(kind, match=message):
        choose_plan(person(), plans)


def test_a_grid_search_is_a_model_as_it_is(tmp_path):
    def federation():
        search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 4]}, cv=3)
        people = [potluck.Participant("tree", search, made_data(60, 5)), party(plan=GOOD)]
        return potluck.Federation(people, CoFED(), public=made_data(30, 9)[0], test=made_data(50, 10))

    unbroken = federation()
    rows = unbroken.run(2).rows()
    assert unbroken.participants["tree"].model.best_params_ == {"max_depth": 4}
    federation().run(1, run_dir=tmp_path)
    agree(rows, federation().run(2, run_dir=tmp_path, resume=True).rows(), 0)


# Run files

FILE = """\
rounds = 1
method = "Local"
seed = 2

[data]
source = { name = "generated", samples = 150, features = 6, classes = 3 }

[[participants]]
name = "net"
model = { name = "mlp", hidden = [8] }
count = 2
plan = { optimizer = "sgd", epochs = 4, batch_size = 16 }
validation = 0.3
tune = { lr = [1e-9, 0.1], momentum = [0.0] }
"""


def written(folder, *changes):
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_a_run_file_tunes(tmp_path):
    recipe = read(written(tmp_path))
    federation = recipe.federation()
    assert [person.plan.lr for person in federation.participants.values()] == [0.1, 0.1]
    assert federation.participants["net1"].plan == Plan(optimizer="sgd", epochs=4, batch_size=16, lr=0.1)
    federation.run(1, run_dir=tmp_path / "run")
    assert '"lr": 0.1' in (tmp_path / "run" / "settings.json").read_text()
    again = read(written(tmp_path)).federation()
    agree(federation.history.rows(), again.run(1, run_dir=tmp_path / "run", resume=True).rows(), 0)


def test_a_table_chooses_once(tmp_path, monkeypatch):
    from potluck.recipes import builder as module

    asked = []

    def noted(participant, plans, **settings):
        asked.append((participant.name, len(plans), settings))
        return choose_plan(participant, plans, **settings)

    monkeypatch.setattr(module, "choose_plan", noted)
    builder = read(written(tmp_path, ('method = "Local"', 'method = "Local"\ndevice = "cpu"'))).builder()
    for method in (Local(), Local()):
        builder.federation(method, "serial")
    settings = {"seed": 2, "engine": "serial", "device": "cpu"}
    assert asked == [("net1", 2, settings), ("net2", 2, settings)]


def test_a_rehearsal_does_not_train(tmp_path, monkeypatch):
    monkeypatch.setattr(Network, "fit", lambda *_: pytest.fail("trained"))
    federation = read(written(tmp_path)).federation(engine="dry-run")
    assert federation.participants["net1"].plan.lr == 1e-9


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("validation = 0.3\n", "", "line 13, participants.0.tune: there are no validation data to choose by"),
        ("[1e-9, 0.1]", "[1e-9, -0.1]", "line 14, participants.0.tune.lr: lr = -0.1. Input should be greater than 0"),
        ("lr = [1e-9, 0.1]", "lrr = [0.1]", "participants.0.tune.lrr: a plan has no setting 'lrr'. Did you mean 'lr'?"),
        ("[1e-9, 0.1]", "0.1", "participants.0.tune.lr: lr = 0.1. Input should be a valid list"),
        ("[1e-9, 0.1]", "[]", "participants.0.tune.lr: lr = []; expected a list of values to choose from"),
        (
            "momentum = [0.0]",
            'momentum = [0.9], optimizer = ["sgd", "adam"]',
            "participants.0.tune: optimizer = 'adam' is possible in no combination: momentum = 0.9 with 'adam'",
        ),
    ],
)
def test_mistakes_are_told_with_their_key(tmp_path, old, new, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        read(written(tmp_path, (old, new)))


def test_an_estimator_cannot_be_tuned(tmp_path):
    recipe = read(written(tmp_path, ('{ name = "mlp", hidden = [8] }', '"sklearn.tree:DecisionTreeClassifier"')))
    with pytest.raises(ModelError, match=r"line 14, participants.0.tune: net1 brought a DecisionTreeClassifier"):
        recipe.federation()


# The page


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    names = {}
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)):
        exec(compile(code, f"tuning.md, block {number}", "exec"), names)
    for number, code in enumerate(re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)):
        path = tmp_path / f"block{number}.toml"
        path.write_text(code)
        assert read(path).federation().run(1).rows()
