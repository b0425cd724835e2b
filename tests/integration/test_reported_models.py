"""Further models whose answers are reported: those of participants beside their own, and those of the server."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from potluck import (
    Exchange,
    Federation,
    Fit,
    Method,
    Payload,
    Plan,
    Predict,
    Schema,
    SettingsError,
    TensorSpec,
    exchange,
)
from potluck.core.history import History
from tests.flower.fakes import FakeGrid, client_of, invitation, served, shared
from tests.tables import PLAN, SHAPE, agree, made_data, participants

CLASSES = 3
TEST = made_data(40, 91)
PUBLIC = made_data(30, 90)


def student(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(36, classes)).double()


class CommonMeans(Method):
    """Each trains its own network; all agree on the mean input of each class, by which the common model answers.

    The server trains a student of its own on the public data.
    """

    reports = ("common",)
    server_reports = ("student", "never")

    def round(self, me):
        yield Fit()
        sums = torch.zeros(CLASSES, *SHAPE, dtype=torch.float64).index_add_(0, me.data.y, me.data.x)
        reply = yield Exchange(
            "means", Payload({"mean": sums / me.data.y.bincount(minlength=CLASSES)[:, None, None, None]})
        )
        me.state["means"] = reply["mean"]

    def predict_with(self, model, party, inputs):
        if model != "common":
            return (yield from super().predict_with(model, party, inputs))
        if "means" not in party.state:
            return None
        yield Predict(inputs)  # stacked like any other reading, though nothing is made of it here
        distances = torch.cdist(inputs.x.flatten(1), party.state["means"].flatten(1))
        return (-distances).softmax(dim=1)

    def server_models(self, server):
        return {"student": student}

    @exchange(lambda self, server, sender: Schema({"mean": TensorSpec((CLASSES, *SHAPE), torch.float64)}))
    def means(self, server, answers):
        mean = torch.stack([payload["mean"] for _, payload in answers]).mean(dim=0)
        plan = Plan(lr=0.1, epochs=1, batch_size=10)
        yield Fit(on=server.public, plan=plan, model="student")
        return Payload({"mean": mean})


def table(method=None, **settings):
    people = participants([student] * 4, plan=PLAN)
    return Federation(people, method or CommonMeans(), public=PUBLIC, test=TEST, seed=5, **settings)


def of_model(history: History, model):
    return [row for row in history.rows() if row.get("model") == model]


def test_further_models_have_rows_of_their_own():
    federation = table(engine="serial")
    history = federation.run(2)
    final = history.final
    assert [row["participant"] for row in final.rows] == ["p0", "p1", "p2", "p3"]
    assert [(row["participant"], row["model"]) for row in final.models] == [
        *((f"p{i}", "common") for i in range(4)),
        ("server", "student"),
    ]
    means = federation.participants["p0"].state["means"].flatten(1).numpy()
    nearest = ((TEST[0].reshape(40, 1, 36) - means) ** 2).sum(2).argmin(1)
    assert final.models[0]["accuracy"] == (nearest == TEST[1]).mean()
    with torch.no_grad():
        logits = federation.server.models["student"].model(torch.from_numpy(TEST[0]))
    assert final.models[4]["accuracy"] == (logits.argmax(1).numpy() == TEST[1]).mean()
    expected = nn.functional.cross_entropy(logits, torch.from_numpy(TEST[1])).item()
    assert final.models[4]["loss"] == pytest.approx(expected, abs=1e-9)


def test_they_count_in_no_mean_and_cost_nothing():
    history = table(engine="serial").run(2)
    own = [row["accuracy"] for row in history.rows() if row["round"] == 2 and "model" not in row]
    assert history.final.accuracy == pytest.approx(np.mean(own))
    assert history.final.worst == min(own)
    assert history.best.accuracy in {history.at(1).accuracy, history.at(2).accuracy}
    assert all(len(values) == 4 for _, values in history.values("accuracy"))
    assert history.bytes("server") == (0, 0)
    assert {row["seconds"] for row in history.final.models} == {0.0}


def test_a_row_is_recorded_only_where_a_model_has_changed():
    """The common means are the same in every round, since data are; the student learns on."""
    history = table(engine="serial").run(3)
    recorded = [(row["round"], row["model"]) for row in history.recorded() if "model" in row]
    assert [place for place in recorded if place[1] == "common"] == [(1, "common")] * 4
    assert [place for place in recorded if place[1] == "student"] == [(1, "student"), (2, "student"), (3, "student")]
    assert len(of_model(history, "common")) == 12


@pytest.mark.parametrize("engine", ["batched", "auto"])
def test_engines_agree_on_them(engine):
    agree(table(engine=engine).run(3).rows(), table(engine="serial").run(3).rows(), 1e-9)


def test_over_a_network_they_are_the_same(tmp_path):
    def people():
        return participants([student] * 3, plan=PLAN, test=TEST)

    name, method = f"{__name__}:CommonMeans", CommonMeans()
    grid = FakeGrid(
        client_of(person, tmp_path, allow_imports=(name,), public=lambda seed: shared(PUBLIC)) for person in people()
    )
    invite = invitation(method, public=PUBLIC, method=name)
    over = served(grid, method, ["p0", "p1", "p2"], public=PUBLIC, invite=invite, test=TEST)
    here = Federation(people(), CommonMeans(), public=PUBLIC, test=TEST, seed=3, engine="serial")
    found = over.run(2)
    agree(found.rows(), here.run(2).rows(), 1e-9)
    assert len(of_model(found, "common")) == 6
    assert len(of_model(found, "student")) == 2


def test_a_resumed_run_goes_on_with_the_server_s_models(tmp_path):
    whole = table(engine="serial").run(3, run_dir=tmp_path / "whole")
    table(engine="serial").run(2, run_dir=tmp_path / "cut")
    resumed = table(engine="serial").run(3, run_dir=tmp_path / "cut", resume=True)
    agree(resumed.rows(), whole.rows(), 0)


def test_without_test_data_of_the_federation_nothing_is_said_of_the_server():
    people = participants([student] * 2, plan=PLAN, test=TEST)
    history = Federation(people, CommonMeans(), public=PUBLIC, engine="serial").run(1)
    assert of_model(history, "student") == []
    assert len(of_model(history, "common")) == 2


def test_the_name_of_the_server_is_taken():
    people = participants([student])
    people[0].name = "server"
    with pytest.raises(SettingsError, match="named 'server', which rows of the server's models say"):
        Federation(people, CommonMeans(), public=PUBLIC)
