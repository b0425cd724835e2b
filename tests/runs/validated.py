"""A small federation with validation data."""

from __future__ import annotations

import potluck
from potluck.methods import FedAvg
from tests.tables import PLAN, cnn, made_data


def federation(validation=0.3, **settings):
    people = [
        potluck.Participant(f"p{n}", cnn(n), made_data(20, n), plan=PLAN, validation=validation) for n in range(2)
    ]
    return potluck.Federation(people, FedAvg(), test=made_data(40, 91), seed=1, engine="serial", **settings)
