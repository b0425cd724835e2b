"""Participants at rest on disk: nothing about a federation changes but the memory it takes."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import potluck
from potluck.core.errors import SettingsError
from potluck.federation.participant import HEAVY
from potluck.methods import MHAT, CoFED, FedAvg, Local
from tests.methods_to_try import METHODS_TO_TRY, PUBLIC, TEST
from tests.tables import PLAN, agree, cnn, deep_cnn, made_data, mlp, weights_agree


def people(builders, **settings):
    """As they come, one by one; each with a model built at joining."""
    for i, builder in enumerate(builders):
        yield potluck.Participant(
            f"p{i}", builder, made_data((24, 31, 17, 40, 9)[i % 5], i), plan=PLAN, labels=range(3), **settings
        )


def fitting(method):
    needs = method.requires()
    if needs.same_architecture:
        return [partial(cnn, i) for i in range(5)]
    if needs.stages or needs.convolutions:
        return [partial(deep_cnn, i, 1 + i % 2) for i in range(5)]
    return [partial(cnn if i % 2 else mlp, i) for i in range(5)]


def table(method, brought=None, storage="disk", max_concurrent=2, **settings):
    return potluck.Federation(
        people(fitting(method)) if brought is None else brought,
        method,
        **{
            "public": PUBLIC,
            "test": TEST,
            "seed": 3,
            "engine": "batched",
            "max_concurrent": max_concurrent,
            "storage": storage,
        }
        | settings,
    )


def resting(participant):
    return [name for name in HEAVY if name not in participant.held]


@pytest.mark.parametrize("keep_optimizer", [False, True])
@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
def test_results_are_the_same(method, engine, keep_optimizer):
    settings = {"engine": engine, "keep_optimizer": keep_optimizer, "participation": 0.8}
    awake, asleep = (table(method, storage=place, **settings) for place in ("memory", "disk"))
    agree(awake.run(3).rows(), asleep.run(3).rows(), 0)
    weights_agree(awake.participants.values(), asleep.participants.values(), 0)


@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
def test_waves_change_nothing(method):
    one, several = (table(method, storage="memory", max_concurrent=count).run(2).rows() for count in (None, 2))
    agree(one, several, 1e-10)


@pytest.mark.parametrize("method", [FedAvg(), MHAT(server_plan=PLAN), CoFED(update_batch_size=16)], ids=str)
def test_a_run_goes_on(method, tmp_path):
    unbroken = table(method, keep_optimizer=True)
    unbroken.run(4)
    table(method, keep_optimizer=True).run(2, run_dir=tmp_path)
    resumed = table(method, keep_optimizer=True)
    agree(unbroken.history.rows(), resumed.run(4, run_dir=tmp_path, resume=True).rows(), 0)
    weights_agree(unbroken.participants.values(), resumed.participants.values(), 0)
    in_memory = table(method, keep_optimizer=True, storage="memory")
    agree(unbroken.history.rows(), in_memory.run(4, run_dir=tmp_path, resume=True).rows(), 0)


def test_between_rounds_everyone_rests():
    federation = table(FedAvg())
    for _ in range(2):
        federation.run(1)
        for person in federation.participants.values():
            assert set(resting(person)) == {"brought", "data", "learner", "state"}


def test_each_is_put_to_rest_before_the_next_one_comes():
    before = []

    def coming():
        for person in people([partial(mlp, i) for i in range(4)]):
            yield person
            before.append(resting(person))

    table(Local(), coming())
    assert all({"data", "learner"} <= set(names) for names in before)


def test_whoever_asks_wakes_a_participant():
    federation, awake = table(FedAvg()), table(FedAvg(), storage="memory")
    for f in (federation, awake):
        f.run(1)
    mine, other = federation.participants["p3"], awake.participants["p3"]
    assert len(mine.data) == len(other.data)
    assert mine.data.x.equal(other.data.x)
    assert mine.state == other.state
    assert isinstance(mine.model, nn.Sequential)
    assert (mine.predict(TEST[0]) == other.predict(TEST[0])).all()
    assert "p3" in repr(mine)


def test_what_a_user_changes_is_kept():
    federation, awake = table(Local()), table(Local(), storage="memory")
    for f in (federation, awake):
        for p in f.participants.values():
            p.load({name: torch.zeros_like(entry) for name, entry in p.weights().items()})
            p.data.x.add_(1.0)
            p.state["note"] = {"here": torch.arange(3)}
    agree(awake.run(2).rows(), federation.run(2).rows(), 0)
    assert federation.participants["p1"].state["note"]["here"].tolist() == [0, 1, 2]


def test_only_a_few_stay_awake_when_all_are_looked_at():
    federation = table(Local(), people([partial(mlp, i) for i in range(9)]))
    models = [p.model for p in federation.participants.values()]
    assert sum("learner" in p.held for p in federation.participants.values()) <= 2
    assert len({id(model) for model in models}) == 9


def test_how_many_stay_unless_somebody_says_otherwise():
    assert table(Local()).storage.loaded == 2
    assert table(Local(), max_concurrent=None).storage.loaded == 64


def test_test_and_validation_data_rest_too():
    def whole(storage):
        brought = list(people([partial(mlp, i) for i in range(4)], test=made_data(12, 5), validation=0.3))
        return table(Local(), brought, storage=storage)

    federation, awake = whole("disk"), whole("memory")
    agree(awake.run(2).rows(), federation.run(2).rows(), 0)
    mine, other = federation.participants["p2"], awake.participants["p2"]
    assert {"validation", "test"} <= set(resting(mine))
    assert mine.validation.x.equal(other.validation.x)
    assert mine.test.y.equal(other.test.y)


def test_models_brought_as_objects_stay_with_their_owner():
    module, tree = mlp(0), DecisionTreeClassifier()
    brought = [
        potluck.Participant("net", module, made_data(20, 0), plan=PLAN, labels=range(3)),
        potluck.Participant("tree", tree, made_data(20, 1), labels=range(3)),
    ]
    federation = table(CoFED(update_batch_size=16), brought)
    federation.run(1)
    assert federation.participants["net"].model is module
    assert federation.participants["tree"].model is tree
    assert {"data", "state"} <= set(resting(brought[0]))
    awake = [
        potluck.Participant("net", mlp(0), made_data(20, 0), plan=PLAN, labels=range(3)),
        potluck.Participant("tree", DecisionTreeClassifier(), made_data(20, 1), labels=range(3)),
    ]
    agree(table(CoFED(update_batch_size=16), awake, storage="memory").run(1).rows(), federation.history.rows(), 0)


class Counting(nn.Module):
    """Counts its batches in a plain attribute and remembers the last one's mean in a buffer it does not save.

    Both scale what it puts out: a softmax would not see what is added to all classes alike.
    """

    def __init__(self):
        super().__init__()
        self.flat, self.line, self.seen = nn.Flatten(), nn.Linear(36, 3).double(), 0
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64), persistent=False)

    def forward(self, x):
        if self.training:
            self.seen += 1
            self.mean = x.mean().detach()
        return self.line(self.flat(x)) * (1.0 + self.mean + 0.1 * self.seen)


def test_networks_that_change_in_other_ways_than_by_weights():
    runs = [table(Local(), people([Counting] * 5), storage=place, engine="serial") for place in ("memory", "disk")]
    agree(runs[0].run(3).rows(), runs[1].run(3).rows(), 0)


class Marked(nn.Module):
    """Keeps in a buffer that it does not save who made it: the first one made is 1, the next one 2."""

    made = 0

    def __init__(self):
        super().__init__()
        Marked.made += 1
        self.line = nn.Sequential(nn.Flatten(), nn.Linear(36, 3).double())
        self.register_buffer("owner", torch.tensor(Marked.made), persistent=False)

    def forward(self, x):
        return self.line(x)


def test_what_a_network_does_not_save_stays_its_owners(monkeypatch):
    """Networks of one architecture are read back into copies of one of them, with its buffers."""
    monkeypatch.setattr(Marked, "made", 0)
    federation = table(Local(), people([Marked] * 5))
    federation.run(2)
    for owner, person in enumerate(federation.participants.values(), start=1):
        assert "learner" in resting(person)
        assert person.model.owner == owner


def test_a_participant_moves_on_to_another_federation():
    federation = table(Local())
    federation.run(1)
    brought = list(federation.participants.values())
    again = table(Local(), brought, storage="memory").run(1).rows()
    agree(federation.history.rows(), again, 0)
    assert all(p.storage is None for p in brought)


def test_the_folder_goes_with_the_last_who_needs_it():
    federation = table(FedAvg())
    federation.run(1)
    person, folder = federation.participants["p0"], Path(federation.storage._folder.name)
    del federation
    gc.collect()
    assert len(person.data) == 24
    del person
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_concurrent": 0}, "max_concurrent is 0; expected a number of participants from 1 on"),
        ({"max_concurrent": True}, "max_concurrent is True"),
        ({"max_concurrent": 2.5}, "max_concurrent is 2.5"),
        ({"storage": "dsk"}, "storage is 'dsk'. Did you mean 'disk'"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(SettingsError, match=message):
        table(Local(), **settings)


def files(federation):
    """When each participant's files were written last, by participant and thing."""
    storage = federation.storage
    paths = {key: storage._path(stored) for key, stored in storage._stored.items()}
    return {key: path.stat().st_mtime_ns for key, path in paths.items() if path.exists()}


def test_only_what_has_changed_is_written_again():
    federation = table(Local(), people([partial(mlp, i) for i in range(5)]))
    federation.run(1)
    before = files(federation)
    for person in federation.participants.values():  # each is loaded, and lets another one go
        assert len(person.data) > 0
        assert person.weights()
    federation.storage.evict(federation.participants.values())
    assert files(federation) == before
    changed = federation.participants["p1"]
    changed.data.x.add_(1.0)
    changed.load({name: entry + 1 for name, entry in changed.weights().items()})
    federation.storage.evict([changed])
    after = files(federation)
    written = {key for key in after if after[key] != before[key]}
    assert written == {("p1", "brought"), ("p1", "learner")}, "what it trains on is all that it has brought"


def test_a_few_plain_values_of_state_take_no_file():
    federation = table(Local(), people([partial(mlp, i) for i in range(3)]))
    federation.run(0)
    person, storage = federation.participants["p1"], federation.storage
    for state in (
        {"round": 1, "seen": (1, [2.5, None])},
        {"round": 2, "much": list(range(99))},
        {"t": torch.ones(2)},
        {},
    ):
        person.state.clear()
        person.state.update(state)
        storage.evict([person])
        assert "state" not in person.held
        assert str(person.state) == str(state)
        assert (storage._stored["p1", "state"].text is None) == ("much" in state or "t" in state)
    storage.evict([person])
    storage.release(person)
    assert person.state == {}


def test_whoever_was_asked_for_longest_ago_goes_first():
    federation = table(Local(), people([partial(mlp, i) for i in range(5)]))
    federation.run(0)
    p0, p1, p2 = (federation.participants[name] for name in ("p0", "p1", "p2"))
    assert len(p0.data)
    assert len(p1.data)
    assert p0.weights()  # another of its fields
    assert len(p2.data)
    assert ["data" in person.held for person in (p0, p1, p2)] == [True, False, True]


class CountingSGD(torch.optim.SGD):
    """Remembers a plain number of each parameter, and no tensor."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["steps"] = self.state[parameter].get("steps", 0) + 1
        return super().step(closure)


def test_what_optimizers_remember_may_be_plain_numbers():
    found = {}
    for storage in ("memory", "disk"):
        brought = [potluck.Participant(f"p{i}", mlp(i), made_data(8, i), plan=COUNTED) for i in range(3)]
        federation = table(Local(), brought, storage=storage, keep_optimizer=True)
        rows = federation.run(2).rows()
        found[storage] = (
            [row["loss"] for row in rows],
            {
                name: {parameter: dict(kept) for parameter, kept in p.learner.optimizer_state.items()}
                for name, p in federation.participants.items()
            },
        )
    assert found["disk"] == found["memory"]
    assert {kept["steps"] for kept in found["disk"][1]["p2"].values()} == {4}


COUNTED = potluck.Plan(optimizer=CountingSGD, lr=0.05, epochs=2, batch_size=8)
