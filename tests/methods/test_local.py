"""Local: everybody trains as alone, and nothing travels."""

from __future__ import annotations

import pytest

import potluck
from potluck.methods import Local
from tests.methods.plain import begun, data_of, descended, lines, same
from tests.tables import PLAN, agree, made_data, mlp, participants, weights_agree


def test_two_steps_by_hand():
    """From 1 by 0.2·5 to 2 and by 0.2·4 to 2.8; by 0.2·1 to 1.2 and by 0.2·0.8 to 1.36."""
    assert lines(Local(), epochs=2) == [[pytest.approx(2.8)], [pytest.approx(1.36)]]


def test_a_round_in_plain_pytorch():
    federation, models = begun(Local(), [mlp(0), mlp(1, 5)])
    people = list(federation.participants.values())
    federation.run(1)
    for person, model in zip(people, models, strict=True):
        same(person.weights(), descended(model, data_of(person)).state_dict())


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_nobody_notices_the_others(engine):
    def run(people):
        return potluck.Federation(people, Local(), test=made_data(9, 50), seed=2, engine=engine).run(2).rows()

    everybody, some = (participants([mlp(i) for i in range(3)]) for _ in range(2))
    together, alone = run(everybody), run([some[1]])
    agree([row for row in together if row["participant"] == "p1"], alone, 1e-10)
    weights_agree([everybody[1]], [some[1]], 1e-10)


def test_nothing_travels():
    federation = potluck.Federation(participants([mlp(0), mlp(1)]), Local(), seed=2, engine="serial")
    assert {(row["bytes_up"], row["bytes_down"]) for row in federation.run(2).rows()} == {(0, 0)}
    assert list(Local.exchanges()) == []


def test_what_cannot_show_its_layers_fits_too():
    svm = potluck.Participant("svm", "sklearn.svm:SVC", made_data(20, 3), plan=PLAN)
    potluck.Federation([svm, *participants([mlp(0)])], Local()).run(1)
