"""A dry run: what would travel, and nothing trained or measured."""

from __future__ import annotations

import torch
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.methods import CoFED, FedAvg
from tests.tables import PLAN, made_data, mlp, participants

PUBLIC, TEST = made_data(30, 90), made_data(30, 91)


def run(method, engine, models):
    people = participants(models)
    federation = potluck.Federation(people, method, public=PUBLIC, test=TEST, seed=1, engine=engine)
    return federation.run(2).rows(), people


def test_no_network_is_changed_and_the_bytes_are_those_of_a_run():
    dry, people = run(FedAvg(), "dry-run", [mlp(0), mlp(0)])
    real, _ = run(FedAvg(), "serial", [mlp(0), mlp(0)])
    sizes = [[(row["participant"], row["bytes_up"], row["bytes_down"]) for row in rows] for rows in (dry, real)]
    assert sizes[0] == sizes[1]
    assert min(row["bytes_up"] for row in dry) > 0
    for person in people:
        torch.testing.assert_close(person.weights(), dict(mlp(0).state_dict()), rtol=0, atol=0)


def test_nothing_is_measured():
    rows, _ = run(FedAvg(), "dry-run", [mlp(0), mlp(0)])
    assert {row["accuracy"] for row in rows} == {row["loss"] for row in rows} == {None}


def test_an_estimator_is_fitted_on_a_few_so_that_it_can_vote():
    seen = []

    class Noting(DecisionTreeClassifier):
        def fit(self, x, y, **more):
            seen.append(len(y))
            return super().fit(x, y, **more)

    tree = potluck.Participant("tree", Noting(), made_data(40, 5), plan=PLAN, labels=range(3))
    federation = potluck.Federation(
        [*participants([mlp(0)]), tree], CoFED(), public=PUBLIC, test=TEST, engine="dry-run"
    )
    rows = federation.run(1).rows()
    assert not any(row["refused"] for row in rows)
    assert max(seen) < 40
