"""Federations that go on: everything that lasts between rounds matters in them."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

import potluck
from potluck.methods import FD, CoFED, FedAvg, Local
from tests.tables import PLAN, cnn, made_data, participants

PUBLIC = made_data(40, 90)
TEST = made_data(40, 91)


def resumable(method: Any, engine: str = "serial", seed: int = 1, **settings: Any) -> potluck.Federation:
    """A federation in which optimizers remember, and estimators take part where the method can use them."""
    models = [cnn(i) for i in range(3)]
    plan = settings.pop("plan", PLAN.replace(optimizer="adam", momentum=0.0, lr=0.01))
    people = participants(models, plan=plan)
    if isinstance(method, CoFED):
        people += [
            potluck.Participant("forest", RandomForestClassifier(5), made_data(20, 7)),
            potluck.Participant("svm", SVC(), made_data(20, 8)),
        ]
    return potluck.Federation(
        people, method, public=PUBLIC, test=TEST, seed=seed, engine=engine, keep_optimizer=True, **settings
    )


METHODS = [Local(), FedAvg(), FD(), CoFED(update_batch_size=16)]
