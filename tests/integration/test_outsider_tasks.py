"""Every task, as somebody outside of Potluck uses it: by public names alone, on both engines."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from torch import nn

import potluck
from potluck.methods import FD, MHAT, CoFED, FedAvg, FedIN, HeteroFL, Local

PLAN = potluck.Plan(optimizer="sgd", lr=0.2, epochs=2, batch_size=16)


def play(people, test, method, engine, rounds=2, **settings):
    federation = potluck.Federation(people, method, test=test, engine=engine, seed=1, **settings)
    return federation.run(rounds)


def equal(one, other):
    """Two histories agree to within 1e-9, but for the seconds."""
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            if isinstance(value, float) and name != "seconds":
                assert value == pytest.approx(theirs[name], abs=1e-9), name


def on_both(make, test, method, **settings):
    """The last rows, where serial and batched agree."""
    found = {engine: play(make(), test, method, engine, **settings).rows() for engine in ("serial", "batched")}
    equal(found["serial"], found["batched"])
    return found["batched"]


@pytest.fixture(autouse=True)
def nothing_runs_alone(caplog):
    """What cannot be stacked runs alone, with the right result: so a stack that fails would not be seen otherwise."""
    yield
    assert "cannot be stacked" not in caplog.text


# Regression: diabetes


def diabetes():
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    rows, test = order[:360], order[360:]
    return [(x[part], y[part]) for part in np.array_split(rows, 3)], (x[test], y[test])


def net(input_shape, classes):
    return nn.Sequential(nn.Linear(*input_shape, 8), nn.Tanh(), nn.Linear(8, classes)).double()


def test_fedavg_for_regression():
    shares, test = diabetes()
    y = np.concatenate([y for _, y in shares])
    task = potluck.Regression(scale=(y.mean(), y.std()))

    def people():
        return [potluck.Participant(f"p{i}", net, share, plan=PLAN, task=task) for i, share in enumerate(shares)]

    rows = on_both(people, test, FedAvg(), rounds=8)
    assert rows[-1]["r2"] > 0.2
    assert 30 < rows[-1]["mae"] < rows[0]["mae"]


def test_networks_and_a_forest_learn_values_in_one_federation():
    shares, test = diabetes()

    def people():
        models = [net, net, RandomForestRegressor(20, random_state=0)]
        return [
            potluck.Participant(f"p{i}", model, share, plan=PLAN, task="regression")
            for i, (model, share) in enumerate(zip(models, shares, strict=True))
        ]

    rows = on_both(people, test, Local())
    assert {tuple(row)[2:5] for row in rows} == {("r2", "mae", "rmse")}
    assert rows[-1]["r2"] > 0.1
    (forest,) = people()[2:]
    potluck.Federation([forest], Local(), test=test).run(1)
    assert 50 < forest.predict(test[0]).mean() < 250


def test_a_network_that_puts_out_one_number_without_an_axis():
    shares, test = diabetes()

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(10, 1).double()

        def forward(self, x):
            return self.inner(x)[:, 0]

    def people():
        return [
            potluck.Participant(f"p{i}", Flat, share, plan=PLAN, task="regression") for i, share in enumerate(shares)
        ]

    assert on_both(people, test, FedAvg())[-1]["r2"] > 0


def test_several_values_and_width_scaling():
    random = np.random.default_rng(3)
    x = random.normal(size=(90, 4))
    y = np.stack([x[:, 0] + x[:, 1], 10 * x[:, 2]], axis=1)

    class Narrow(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Linear(4, width)
            self.head = nn.Linear(width, 2)
            self.double()

        def forward(self, x):
            return self.head(torch.tanh(self.body(x)))

    def people():
        torch.manual_seed(0)
        return [
            potluck.Participant(f"p{i}", Narrow(w), (x[i::3], y[i::3]), plan=PLAN, task=potluck.Regression(2))
            for i, w in enumerate((8, 8, 4))
        ]

    rows = on_both(people, (x, y), HeteroFL(), rounds=6)
    assert rows[-1]["r2"] > 0.2


# Several labels


def genres(rows, seed):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 6))
    return x, (x[:, :3] + x[:, 3:] > 0).astype(int)


def test_fedavg_for_several_labels():
    def people():
        return [
            potluck.Participant(
                f"p{i}", net, genres(60, i), plan=PLAN.replace(lr=0.5), task="multilabel", labels=["calm", "old", "sad"]
            )
            for i in range(3)
        ]

    rows = on_both(people, genres(80, 9), FedAvg(), rounds=10)
    assert list(rows[-1])[2:5] == ["average_precision", "f1_macro", "accuracy"]
    assert rows[-1]["average_precision"] > 0.8


def test_lists_of_labels_and_a_forest():
    x, table = genres(60, 0)
    lists = [[name for name, yes in zip(("calm", "old", "sad"), row, strict=True) if yes] for row in table]
    forest = potluck.Participant("forest", RandomForestClassifier(30, random_state=0), (x, lists), task="multilabel")
    history = potluck.Federation([forest], Local(), test=genres(50, 1)).run(1)
    assert history.rows()[0]["average_precision"] > 0.7
    assert forest.predict(x[:4]).shape == (4, 3)
    assert forest.labels == ("calm", "old", "sad")


# Sequences


def tagged(rows, seed):
    """Texts of tokens 1 to 9 (0 fills up), and a tag for each token: whether it is larger than the one before."""
    random = np.random.default_rng(seed)
    ids = random.integers(1, 10, size=(rows, 7))
    tags = np.where(np.diff(ids, axis=1, prepend=0) > 0, "up", "down").astype(object)
    empty = np.arange(7) >= random.integers(3, 8, size=(rows, 1))
    ids[empty], tags[empty] = 0, "-"
    return ids, tags


class Tagger(nn.Module):
    """Looks at a token and the one before it."""

    def __init__(self, classes, tokens=10):
        super().__init__()
        self.embed = nn.Embedding(tokens, 6)
        self.head = nn.Linear(12, classes)
        self.double()

    def forward(self, ids):
        found = self.embed(ids)
        before = torch.cat([torch.zeros_like(found[:, :1]), found[:, :-1]], dim=1)
        return self.head(torch.cat([found, before], dim=-1))


def test_fedavg_for_a_label_for_each_token():
    task = potluck.PerPosition(["down", "up"], ignore="-")

    def people():
        torch.manual_seed(0)
        models = [Tagger(2) for _ in range(3)]
        return [
            potluck.Participant(f"p{i}", model, tagged(40, i), plan=PLAN.replace(lr=1.0), task=task)
            for i, model in enumerate(models)
        ]

    rows = on_both(people, tagged(40, 9), FedAvg(), rounds=6)
    assert rows[-1]["accuracy"] > 0.75


def counting(rows, seed):
    """Texts that count upwards, from a token to the next one."""
    start = np.random.default_rng(seed).integers(1, 10, size=(rows, 1))
    ids = (start + np.arange(7) - 1) % 9 + 1
    ids[:, 5:] = np.where(np.arange(rows)[:, None] % 2, ids[:, 5:], 0)
    return ids


def test_fedavg_for_the_next_token():
    task = potluck.NextToken(10, padding=0)

    def people():
        torch.manual_seed(0)
        return [
            potluck.Participant(f"p{i}", Tagger(10), counting(30, i), plan=PLAN.replace(lr=1.0), task=task)
            for i in range(3)
        ]

    rows = on_both(people, counting(20, 9), FedAvg(), rounds=4)
    assert list(rows[-1])[2:4] == ["loss", "accuracy"]
    assert rows[-1]["accuracy"] > 0.9


# Pixels


def pictures(rows, seed):
    """A bright square under noise, and for each pixel whether it belongs to the square; the rim has no label."""
    random = np.random.default_rng(seed)
    mask = np.zeros((rows, 6, 6), dtype=int)
    for one, (top, left) in zip(mask, random.integers(1, 4, size=(rows, 2)), strict=True):
        one[top : top + 2, left : left + 2] = 1
    x = random.normal(size=(rows, 1, 6, 6)) * 0.5 + 2 * mask[:, None]
    mask[:, 0] = 255
    return x, mask


def test_fedavg_for_a_label_for_each_pixel():
    def conv():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1)).double()

    def people():
        return [
            potluck.Participant(
                f"p{i}",
                conv(),
                pictures(16, i),
                plan=PLAN.replace(lr=0.3),
                task=potluck.PerPosition(ignore=255),
                metrics=["jaccard_macro", "accuracy"],
            )
            for i in range(3)
        ]

    rows = on_both(people, pictures(12, 9), FedAvg(), rounds=6)
    assert rows[-1]["accuracy"] > 0.9
    assert rows[-1]["jaccard_macro"] > 0.5


# Tasks and methods


def test_a_method_that_does_not_serve_a_task_says_so():
    people = [potluck.Participant("a", net, diabetes()[0][0], task="regression")]
    with pytest.raises(potluck.RequirementsError, match=r"it serves classification alone.*: a \(regression\)"):
        potluck.Federation(people, potluck.methods.FML())


def test_one_federation_learns_one_thing():
    people = [
        potluck.Participant("a", net, genres(9, 0), task="multilabel"),
        potluck.Participant("b", net, genres(9, 1), task=potluck.Regression(3)),
    ]
    with pytest.raises(potluck.RequirementsError, match="it needs one label space"):
        potluck.Federation(people, FedAvg())


def test_scales_of_ones_own_are_told_where_networks_are_averaged(caplog):
    shares, _ = diabetes()
    shifted = [(x, y + 1000 * i) for i, (x, y) in enumerate(shares)]

    def told(task, method):
        caplog.clear()
        potluck.Federation([potluck.Participant(f"p{i}", net, s, task=task) for i, s in enumerate(shifted)], method)
        return caplog.text

    assert "p0 and p1 scale values by their own data" in told("regression", FedAvg())
    assert told("regression", Local()) == told(potluck.Regression(scale=(150, 80)), FedAvg()) == ""


def test_metrics_may_be_ones_own():
    def worst(truth, said):
        return float(np.abs(truth - said).max())

    shares, test = diabetes()
    person = potluck.Participant("a", net, shares[0], plan=PLAN, task="regression", metrics=[worst, "r2"])
    row = potluck.Federation([person], Local(), test=test).run(1).rows()[0]
    assert row["worst"] > 50


def test_features_and_weights_are_shared_for_values_too():
    """FedIN's local loss is the task's."""
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 1, 6, 6))
    y = x[:, 0, 2].sum(axis=1)

    def people():
        torch.manual_seed(0)
        body = [nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Flatten()]
        whole = nn.Sequential(*body, nn.Linear(108, 1)).double()
        return [
            potluck.Participant(f"p{i}", model, (x[i::3], y[i::3]), plan=PLAN.replace(lr=0.02), task="regression")
            for i, model in enumerate(copy.deepcopy(whole) for _ in range(3))
        ]

    assert on_both(people, (x, y), FedIN(pairs=4))[-1]["r2"] is not None


# Learning from each other's answers


ANSWERING = {
    "FD": FD(),
    "MHAT": MHAT(auxiliary=net, server_plan={"lr": 0.05}),
    "CoFED": CoFED(update_batch_size=None),
}


@pytest.mark.parametrize("method", ANSWERING.values(), ids=ANSWERING)
def test_networks_and_a_forest_learn_from_the_values_of_each_other(method):
    """They send values in the user's units, whatever each one's own scale is."""
    shares, test = diabetes()
    few = [(x[:40], y[:40]) for x, y in shares]
    public = shares[2][0][40:]

    def people():
        models = [net, net, RandomForestRegressor(20, random_state=0)]
        return [
            potluck.Participant(f"p{i}", model, share, plan=PLAN, task="regression")
            for i, (model, share) in enumerate(zip(models, few, strict=True))
        ]

    rows = on_both(people, test, method, public=public, rounds=3)
    last = {row["participant"]: row["r2"] for row in rows if row["round"] == 3}
    assert all(value is not None and value > -0.5 for value in last.values())
    assert last["p2"] > 0


@pytest.mark.parametrize("labelled", [True, False])
def test_public_data_with_values_are_learned_in_ones_own_scale(labelled):
    shares, test = diabetes()
    public = shares[2] if labelled else shares[2][0]
    person = potluck.Participant("a", net, shares[0], plan=PLAN, task="regression")
    for method in (FD(), ANSWERING["MHAT"]):
        history = potluck.Federation([person], method, public=public, test=test).run(2)
        assert history.rows()[-1]["mae"] < 70


@pytest.mark.parametrize("method", [FD(), ANSWERING["MHAT"]], ids=["FD", "MHAT"])
def test_several_labels_are_told_softly(method):
    def people():
        models = [net, net, RandomForestClassifier(20, random_state=0)]
        return [
            potluck.Participant(f"p{i}", model, genres(40, i), plan=PLAN, task="multilabel")
            for i, model in enumerate(models)
        ]

    rows = on_both(people, genres(50, 9), method, public=genres(60, 8)[0])
    assert rows[-1]["average_precision"] > 0.6


@pytest.mark.parametrize("model", [net, RandomForestRegressor(20, random_state=0)], ids=["network", "forest"])
def test_who_has_inputs_alone_learns_the_values_of_others(model):
    shares, test = diabetes()
    scale = potluck.Regression(scale=(150.0, 77.0))
    people = [
        potluck.Participant("a", RandomForestRegressor(20, random_state=0), shares[0], task=scale),
        potluck.Participant("b", model, shares[1][0], plan=PLAN.replace(epochs=20), task=scale),
    ]
    history = potluck.Federation(people, CoFED(update_batch_size=None), public=shares[2][0], test=test).run(1)
    assert history.rows()[1]["r2"] > 0.05


def test_who_has_inputs_alone_learns_the_labels_of_others():
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 4))
    y = (x[:, 0] > 0).astype(int)

    def people():
        with_labels = [potluck.Participant(f"p{i}", net, (x[i:80:2], y[i:80:2]), plan=PLAN) for i in range(2)]
        return [*with_labels, potluck.Participant("q", net, x[80:90], labels=[0, 1], plan=PLAN)]

    rows = on_both(people, (x[200:], y[200:]), CoFED(update_batch_size=16), public=x[90:200], rounds=3)
    assert rows[-1]["participant"] == "q"
    assert rows[-1]["accuracy"] > 0.75
    with pytest.raises(potluck.RequirementsError, match="targets of their own, and these have none: q"):
        potluck.Federation(people(), FedAvg())
