"""The loop, and what it does about bad input and bad answers."""

from __future__ import annotations

import logging
import re
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck import (
    DataError,
    Exchange,
    Federation,
    Method,
    Needs,
    Participant,
    Payload,
    RequirementsError,
    Schema,
    TensorSpec,
)
from potluck.core.errors import ModelError, SettingsError
from potluck.core.payload import LazyReplies
from potluck.engines import Auto, Batched, Serial
from potluck.engines import base as local
from potluck.methods import FD, CoFED, DraftFed, FedAvg, Local
from tests.tables import agree, cnn, made_data, mlp, participants

TEST = made_data(40, 91)


def nets(count=3):
    return participants([mlp(i) for i in range(count)])


# The loop


def test_the_ten_lines_of_the_readme_work():
    clinic = Participant(
        "clinic", mlp(0), made_data(20, 0), plan=potluck.Plan(optimizer="adam", lr=1e-3, epochs=5, batch_size=32)
    )
    bank = Participant("bank", DecisionTreeClassifier(), made_data(20, 1))
    federation = Federation([clinic, bank], CoFED(alpha=0.3), public=made_data(30, 2)[0], test=TEST, seed=0)
    history = federation.run(rounds=1)
    assert "clinic" in history.table()
    assert federation.participants["bank"] is bank
    assert bank.predict(TEST[0]).shape == (40,)


def test_rows_are_plain_and_complete():
    rows = Federation(nets(), FedAvg(), test=TEST).run(2).rows()
    assert [(row["round"], row["participant"]) for row in rows] == [(r, f"p{i}") for r in (1, 2) for i in range(3)]
    for row in rows:
        assert {"accuracy", "loss", "bytes_up", "bytes_down", "seconds", "macro_f1", "balanced_accuracy"} <= set(row)
        assert all(isinstance(value, int | float | str | bool | type(None)) for value in row.values())


def test_running_on_equals_running_through():
    through = Federation(nets(), FedAvg(), test=TEST, seed=5).run(3).rows()
    going_on = Federation(nets(), FedAvg(), test=TEST, seed=5)
    going_on.run(1)
    agree(through, going_on.run(2).rows(), 0)


def test_the_seed_decides():
    one, same, other = (Federation(nets(), Local(), test=TEST, seed=seed).run(1).rows() for seed in (1, 1, 2))
    agree(one, same, 0)
    assert one[0]["loss"] != other[0]["loss"]


def test_own_test_data_come_before_the_published():
    table = nets(2)
    table[0].held["brought test"] = table[0]._own(made_data(7, 3), "p0")
    accuracy = Federation(table, Local(), test=TEST).run(1).rows()[0]["accuracy"]
    assert (accuracy * 7) == pytest.approx(round(accuracy * 7))


def test_without_test_data_there_is_no_accuracy():
    rows = Federation(nets(), Local()).run(1).rows()
    assert rows[0]["accuracy"] is None
    assert rows[0]["loss"] is None


def test_epochs_zero_trains_nothing():
    table = participants([mlp(0)], plan=potluck.Plan(epochs=0))
    before = table[0].weights()
    Federation(table, Local()).run(1)
    torch.testing.assert_close(before, table[0].weights(), rtol=0, atol=0)


def test_answers_are_merged_as_they_come():
    """The server's half sees an answer before the next participant has begun."""
    log = []

    class Chatty(Method):
        def round(self, me):
            log.append(f"{me.name} works")
            yield Exchange("tell", Payload())

        @potluck.exchange(lambda self, server, sender: Schema())
        def tell(self, server, answers):
            for sender, _ in answers:
                log.append(f"server hears {sender}")
            return Payload()

    Federation(nets(2), Chatty(), engine="serial").run(1)
    assert log == ["p0 works", "server hears p0", "p1 works", "server hears p1"]


def test_participants_may_come_to_different_exchanges():
    class Forked(Method):
        def round(self, me):
            reply = yield Exchange("left" if me.name == "p1" else "right", Payload())
            return {"told": reply.facts["by"]}

        @potluck.exchange(lambda self, server, sender: Schema(), optional=True)
        def left(self, server, answers):
            return Payload(facts={"by": f"left {[name for name, _ in answers]}"})

        @potluck.exchange(lambda self, server, sender: Schema(), optional=True)
        def right(self, server, answers):
            return Payload(facts={"by": f"right {[name for name, _ in answers]}"})

    for engine in ("serial", "batched"):
        rows = Federation(nets(3), Forked(), engine=engine).run(1).rows()
        assert [row["told"] for row in rows] == ["right ['p0', 'p2']", "left ['p1']", "right ['p0', 'p2']"]


def test_the_servers_half_may_train_a_model_of_its_own():
    class Taught(Method):
        needs: ClassVar[Needs] = Needs(public="labels")

        def round(self, me):
            reply = yield Exchange("ask", Payload())
            return {"steps": reply.facts["steps"], "right": reply.facts["right"]}

        def server_models(self, server):
            return {"auxiliary": lambda: mlp(0)}

        @potluck.exchange(lambda self, server, sender: Schema())
        def ask(self, server, answers):
            list(answers)
            plan = potluck.Plan(lr=0.05, epochs=10)
            fitted = yield potluck.Fit(on=server.public, plan=plan, model="auxiliary")
            probabilities = yield potluck.Predict(server.public, model="auxiliary")
            right = (probabilities.argmax(1) == server.public.y).double().mean().item()
            return Payload(facts={"steps": fitted.steps, "right": right})

    public = made_data(60, 8)
    histories = [Federation(nets(2), Taught(), public=public, engine=e).run(2) for e in ("serial", "batched")]
    agree(histories[0].rows(), histories[1].rows(), 1e-9)
    assert histories[0].rows()[0]["steps"] == 20
    assert histories[0].rows()[-1]["right"] > 0.9


@pytest.mark.parametrize("kind", [Serial, Batched, Auto])
def test_one_engine_may_be_given_to_many_federations(kind):
    """What one of them sets, finds out or measures is nothing to the other."""
    engine = kind(torch.device("cpu"), "float32")

    def table(**settings):
        return Federation(nets(), FedAvg(), test=TEST, engine=engine, **settings)

    expected = table().run(2).rows()
    first = table(max_concurrent=2, storage="disk")
    first.profile()
    first.run(1)
    measured, waits_on_disk = dict(first.profile().seconds), first.engine.storage
    agree(expected, table(max_concurrent=1).run(2).rows(), 1e-10)
    assert first.profile().seconds == measured
    assert (first.engine.max_concurrent, first.engine.storage) == (2, waits_on_disk)
    first.run(1)
    agree(expected, first.history.rows(), 1e-10)
    assert first.engine.precision == "float32"
    assert (engine.max_concurrent, engine.storage) == (None, None)
    assert engine.decisions() == {"cores": torch.get_num_threads()}


# Bad answers


def spoiling(spoil):
    """FD, but p1's answer goes through ``spoil`` first."""

    class Spoiled(FD):
        def round(self, me):
            steps = super().round(me)
            request = next(steps)
            while request is not None:
                if isinstance(request, Exchange) and me.name == "p1":
                    request = Exchange(request.name, spoil(request.payload))
                answer = yield request
                try:
                    request = steps.send(answer)
                except StopIteration:
                    request = None

    return Spoiled()


def with_tensor(change):
    return lambda payload: Payload({"probabilities": change(payload["probabilities"].clone())})


BAD_ANSWERS = {
    "NaN or infinity": with_tensor(lambda t: t * float("nan")),
    r"shape \(49, 3\); expected \(50, 3\)": with_tensor(lambda t: t[:-1]),
    r"shape \(51, 3\)": with_tensor(lambda t: torch.cat([t, t[:1]])),
    "is torch.float64; expected torch.float32": with_tensor(lambda t: t.double()),
    "expected at most 1": with_tensor(lambda t: t * 9),
    "'gift' was not asked for": lambda payload: Payload({**payload.tensors, "gift": torch.ones(1)}),
    "fact 'hello' was not asked for": lambda payload: Payload(payload.tensors, {"hello": 1}),
    "'probabilities' is missing": lambda payload: Payload(),
}


@pytest.mark.parametrize("reason", BAD_ANSWERS)
@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_a_bad_answer_is_refused_by_name_and_the_round_goes_on(reason, engine, caplog):
    federation = Federation(
        nets(3), spoiling(BAD_ANSWERS[reason]), public=made_data(50, 7)[0], test=TEST, engine=engine
    )
    with caplog.at_level(logging.WARNING):
        rows = federation.run(1).rows()
    bad = next(row for row in rows if row["participant"] == "p1")
    assert re.search(reason, bad["refused"])
    assert "without p1" in caplog.text
    assert bad["bytes_up"] > 0
    assert [row["refused"] for row in rows if row["participant"] != "p1"] == [None, None]
    others = [p.state["soft"] for p in federation.participants.values() if p.name != "p1"]
    torch.testing.assert_close(others[0], others[1])
    assert "soft" not in federation.participants["p1"].state


def test_the_others_get_what_they_would_have_got_without_the_bad_one():
    spoiled = Federation(nets(3), spoiling(BAD_ANSWERS["NaN or infinity"]), public=made_data(50, 7)[0])
    spoiled.run(1)
    without = Federation([p for p in nets(3) if p.name != "p1"], FD(), public=made_data(50, 7)[0])
    without.run(1)
    torch.testing.assert_close(spoiled.participants["p0"].state["soft"], without.participants["p0"].state["soft"])


def test_an_answer_over_the_limit_is_refused():
    channel = potluck.Channel(potluck.Limits(bytes=500))
    federation = Federation(nets(2), FD(), public=made_data(50, 7)[0], channel=channel)
    assert "the limit is 500" in federation.run(1).rows()[0]["refused"]


def test_a_round_in_which_everyone_is_refused_still_ends():
    class Silent(Method):
        def round(self, me):
            yield Exchange("tell", Payload(facts={"x": 1}))

        @potluck.exchange(lambda self, server, sender: Schema())
        def tell(self, server, answers):
            raise AssertionError("nobody to hear")

    assert all(row["refused"] for row in Federation(nets(2), Silent()).run(1).rows())


def test_who_is_refused_at_joining_takes_no_part():
    class Picky(Method):
        def join(self, me):
            yield Exchange("hello", Payload({"x": torch.zeros(1 if me.name == "p0" else 2)}))

        def round(self, me):
            yield potluck.Fit()

        @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((2,))}), phase="join")
        def hello(self, server, answers):
            list(answers)
            return Payload()

    rows = Federation(nets(3), Picky()).run(2).rows()
    assert [row["took_part"] for row in rows] == [False, True, True] * 2
    assert "hello" in rows[0]["refused"]


# Bad input


def test_labels_outside_the_label_space():
    with pytest.raises(DataError, match="label 2, which is not in its label space"):
        Participant("x", mlp(0), made_data(20, 0), labels=[0, 1])


def test_empty_data():
    with pytest.raises(DataError, match="no samples"):
        Participant("x", mlp(0), (np.zeros((0, 3)), np.zeros(0)))


def test_nan_in_data():
    x, y = made_data(10, 0)
    x[3] = np.nan
    with pytest.raises(DataError, match="1 of 10 samples hold NaN"):
        Participant("x", mlp(0), (x, y))


def test_inputs_of_different_shapes():
    tree = Participant("tree", DecisionTreeClassifier(), (np.zeros((4, 5)), [0, 1, 0, 1]))
    with pytest.raises(RequirementsError, match=r"the public data has inputs of shape \(5,\), p0 of shape \(1, 6, 6\)"):
        Federation([*nets(1), tree], CoFED(), public=np.zeros((4, 5)))


def test_public_data_of_another_shape():
    with pytest.raises(RequirementsError, match=r"the public data has inputs of shape \(7,\)"):
        Federation(nets(2), CoFED(), public=np.zeros((5, 7)))


def test_a_model_whose_output_does_not_fit_its_labels():
    odd = Participant("odd", mlp(0, classes=4), made_data(10, 0), labels=range(3))
    with pytest.raises(ModelError, match=r"odd: Sequential puts out \(2, 4\) .* expected \(2, 3\)"):
        Federation([odd], Local())


def test_a_model_that_cannot_read_its_inputs():
    odd = Participant("odd", torch.nn.Linear(5, 3), made_data(10, 0, dtype="float32"))
    with pytest.raises(ModelError, match="odd: Linear cannot read inputs of shape"):
        Federation([odd], Local())


def test_every_reason_for_a_misfit_is_told_at_once():
    tree = Participant("tree", DecisionTreeClassifier(), made_data(10, 0, [0, 1]))
    with pytest.raises(RequirementsError) as error:
        Federation([*nets(1), tree], DraftFed())
    for reason in ("needs public data", "no torch modules: tree", "one label space"):
        assert reason in str(error.value)


def test_labels_on_public_data_where_needed():
    class Strict(Local):
        needs: ClassVar[Needs] = Needs(public="labels")

    with pytest.raises(RequirementsError, match="needs labels on the public data"):
        Federation(nets(1), Strict(), public=made_data(5, 0)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"participation": 0}, "participation is 0"),
        ({"participation": 1.5}, "participation is 1.5"),
        ({"engine": "bached"}, "Did you mean 'batched'"),
        ({"device": "gpu9"}, "gpu9"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingsError, match=message):
        Federation(nets(1), Local(), **settings)


def test_participants_must_differ():
    same = mlp(0)
    with pytest.raises(SettingsError, match="named 'p0'"):
        Federation([*nets(1), *nets(1)], Local())
    with pytest.raises(SettingsError, match="same model object"):
        Federation(participants([same, same]), Local())
    with pytest.raises(SettingsError, match="at least one"):
        Federation([], Local())
    with pytest.raises(SettingsError, match="expected a Participant"):
        Federation([mlp(0)], Local())


def test_a_method_is_an_object():
    with pytest.raises(SettingsError, match="expected a Method"):
        Federation(nets(1), "fedavg")


def test_fewer_than_no_rounds():
    with pytest.raises(SettingsError, match="rounds is -1"):
        Federation(nets(1), Local()).run(-1)


def test_an_exchange_the_server_does_not_know():
    class Lost(Method):
        def round(self, me):
            yield Exchange("model_dump", Payload())

    with pytest.raises(SettingsError, match="has no exchange 'model_dump'"):
        Federation(nets(1), Lost()).run(1)


def test_networks_are_left_as_they_were_when_a_check_fails():
    """Running two samples through a network to check it changes neither weights nor statistics."""
    table = participants([cnn(0)])
    before = table[0].weights()
    Federation(table, Local())
    torch.testing.assert_close(before, table[0].weights(), rtol=0, atol=0)


# Replies made when they are handed out


def test_replies_are_made_one_by_one_and_counted_when_handed_out():
    log = []

    class Told(Method):
        def round(self, me):
            reply = yield Exchange("tell", Payload())
            log.append(f"{me.name} hears {reply.facts['you']}")

        @potluck.exchange(lambda self, server, sender: Schema())
        def tell(self, server, answers):
            def make(name):
                log.append(f"made for {name}")
                return Payload(facts={"you": name})

            return LazyReplies([sender for sender, _ in answers], make)

    rows = Federation(nets(2), Told(), engine="serial").run(1).rows()
    assert log == ["made for p0", "p0 hears p0", "made for p1", "p1 hears p1"]
    assert [row["bytes_down"] for row in rows] == [Payload(facts={"you": name}).size for name in ("p0", "p1")]


def test_replies_to_others_than_those_who_asked_are_a_mistake():
    class Odd(Method):
        def round(self, me):
            yield Exchange("tell", Payload())

        @potluck.exchange(lambda self, server, sender: Schema())
        def tell(self, server, answers):
            list(answers)
            return LazyReplies(["p0", "stranger"], lambda name: Payload())

    with pytest.raises(TypeError, match="must reply to"):
        Federation(nets(2), Odd()).run(1)


def test_test_data_is_shared_by_those_with_one_label_space():
    federation = Federation(nets(3), Local(), test=TEST, public=made_data(10, 4))
    tests = [federation.test_of(p) for p in federation.participants.values()]
    assert len({id(test) for test in tests}) == 1
    assert len({id(p.public) for p in federation.participants.values()}) == 1


@pytest.mark.parametrize(("free", "size"), [(10**12, 3), (1, 1)])
def test_waves_are_as_large_as_the_memory_allows(free, size, monkeypatch):
    monkeypatch.setattr(local, "free_memory", lambda device: free)
    waves = []

    class Noted(Local):
        def round(self, me):
            waves.append(me.name)
            yield potluck.Fit()
            waves.append(f"{me.name} has trained")

    Federation(nets(3), Noted(), engine="batched").run(1)
    together = next(i for i, name in enumerate(waves) if "trained" in name)
    assert together == size


def test_a_participant_may_be_named_server_where_nothing_of_the_servers_is_reported():
    x, y = made_data(12, 0)
    person = potluck.Participant("server", mlp(0), (x, y))
    assert potluck.Federation([person], Local()).run(1).rounds == 1
