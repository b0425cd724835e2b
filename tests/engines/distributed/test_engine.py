"""The distributed engine comes to one result, whatever the number of its workers and whichever of them die."""

from __future__ import annotations

import builtins
import os

import pytest
import torch
from torch import nn

import potluck
from potluck.core.errors import SettingsError
from potluck.engines import Batched, Ray
from potluck.engines.distributed.engine import groups_of
from potluck.methods import FD, FML, MHAT, CoFED, DraftFed, FedAvg, FedIN, Local, PerHeFed
from tests.tables import PLAN, agree, deep_cnn, made_data, mlp, narrow_mlp, participants

CPU = torch.device("cpu")
PUBLIC, TEST = made_data(30, 90), made_data(40, 91)
PAPERS = [
    DraftFed(samples=20, draft_batch_size=16),
    PerHeFed(intra=0.5),
    MHAT(server_plan=PLAN),
    FedIN(pairs=4),
    CoFED(update_batch_size=16),
]


@pytest.fixture(scope="module")
def _cluster():
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")  # else others on this machine come first
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def federation(method, workers=2, block=2, engine=None, **settings):
    people = participants([deep_cnn(i) for i in range(3)] + [mlp(5) for _ in range(2)], plan=PLAN)
    if isinstance(method, FedAvg | FML | PerHeFed | DraftFed | FedIN):
        people = people[:3]
    engine = engine or Ray(CPU, workers=workers, block=block)
    return potluck.Federation(people, method, public=PUBLIC, test=TEST, seed=4, engine=engine, **settings)


def timeless(history):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history.rows()]


def weights(found):
    return {name: person.weights() for name, person in found.participants.items()}


def equal(ours, theirs):
    assert timeless(ours.history) == timeless(theirs.history)
    for name, entries in weights(ours).items():
        for entry, value in entries.items():
            assert torch.equal(value, theirs.participants[name].weights()[entry]), (name, entry)


@pytest.mark.slow
@pytest.mark.usefixtures("_cluster")
class TestWithRay:
    @pytest.mark.parametrize("method", [FD(), FedAvg(), FML(common=narrow_mlp)], ids=lambda m: type(m).__name__)
    def test_the_number_of_workers_changes_no_bit(self, method):
        one, two, three = (federation(method, workers) for workers in (1, 2, 3))
        for found in (one, two, three):
            found.run(2)
        equal(one, two)
        equal(one, three)
        alone = federation(method, engine=Batched(CPU))
        alone.run(2)
        agree(one.history.rows(), alone.history.rows(), 1e-9)

    def test_a_run_goes_on_with_another_number_of_workers(self, tmp_path):
        whole = federation(FedAvg(), 2)
        whole.run(4)
        federation(FedAvg(), 1).run(2, run_dir=tmp_path)
        rest = federation(FedAvg(), 3)
        rest.run(4, run_dir=tmp_path, resume=True)
        equal(whole, rest)
        assert rest.engine.incidents == []

    @pytest.mark.parametrize("method", PAPERS, ids=lambda m: type(m).__name__)
    def test_a_worker_may_die_at_each_exchange(self, method, monkeypatch):
        import ray

        calm = federation(method, workers=1)
        calm.run(2)
        alone = federation(method, engine=Batched(CPU))
        alone.run(2)
        agree(calm.history.rows(), alone.history.rows(), 1e-9)
        shaken, deaths = federation(method), []
        resume = Ray.resume

        def resume_after_a_death(self, replies):
            ray.kill(self._workers[len(deaths) % 2])
            deaths.append(list(replies))
            return resume(self, replies)

        monkeypatch.setattr(Ray, "resume", resume_after_a_death)
        shaken.run(2)
        monkeypatch.undo()
        assert len(deaths) >= 2
        assert any("died; its participants go on in a new one" in told for told in shaken.engine.incidents)
        equal(calm, shaken)

    def test_a_worker_may_die_between_rounds_and_before_models_are_looked_at(self):
        import ray

        calm, shaken = federation(FedAvg()), federation(FedAvg())
        calm.run(2)
        shaken.run(1)
        for worker in shaken.engine._workers:
            ray.kill(worker)
        shaken.run(1)
        for worker in shaken.engine._workers:
            ray.kill(worker)
        equal(calm, shaken)

    def test_what_is_changed_here_counts_there(self):
        ours, theirs = federation(Local()), federation(Local(), engine=Batched(CPU))
        for found in (ours, theirs):
            found.run(1)
            person = found.participants["p0"]
            person.load({name: torch.zeros_like(entry) for name, entry in person.weights().items()})
            found.participants["p1"].state["seen"] = 3
            found.run(1)
            assert found.participants["p1"].state["seen"] == 3
        agree(ours.history.rows(), theirs.history.rows(), 1e-9)

    def test_newcomers_partial_participation_and_a_changed_method_state(self):
        def play(engine):
            people = participants([deep_cnn(i) for i in range(4)], plan=PLAN)
            found = potluck.Federation(
                people[:3],
                FedAvg(),
                test=TEST,
                seed=4,
                engine=engine,
                participation=2,
                unseen=people[3:],
                unseen_epochs=1,
            )
            found.run(1)
            found.run(2)
            return found

        ours, theirs = play(Ray(CPU, workers=2, block=2)), play(Batched(CPU))
        agree(ours.history.rows(), theirs.history.rows(), 1e-9)
        for metrics, same in zip(ours.unseen_scores["p3"].values(), theirs.unseen_scores["p3"].values(), strict=True):
            assert metrics == pytest.approx(same)

    def test_functions_of_ones_own_travel(self):
        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = mlp(3)

            def forward(self, x):
                return self.inner(x)

        plan = PLAN.replace(transform=lambda x: x * 0.5)
        people = participants([Own(), Own()], plan=plan)
        found = potluck.Federation(people, Local(), test=TEST, engine=Ray(CPU, workers=2, block=1))
        assert found.run(1).final.accuracy is not None

    def test_an_error_in_a_half_is_the_error_itself(self):
        class Broken(Local):
            def round(self, me):
                yield potluck.Fit()
                raise ZeroDivisionError(f"{me.name} divides")

        with pytest.raises(ZeroDivisionError, match="divides"):
            federation(Broken()).run(1)

    def test_what_was_decided_is_recorded(self):
        found = federation(FedAvg(), workers=2, block=2)
        found.run(1)
        assert found.engine.decisions()["workers"] == 2
        assert found.engine.decisions()["blocks"] == 2


def test_participants_stay_with_the_workers_and_not_on_disk():
    with pytest.raises(SettingsError, match="participants stay in its workers' memory"):
        federation(Local(), storage="disk")


def test_without_ray_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *more):
        if name == "ray":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match=r"pip install '.\[ray\]'"):
        federation(Local()).run(1)


@pytest.mark.parametrize(("name", "wrong"), [("workers", 0), ("block", 0), ("threads", 0), ("block", 1.5)])
def test_settings_are_checked(name, wrong):
    with pytest.raises(SettingsError, match=name):
        Ray(CPU, **{name: wrong})


def test_groups():
    assert [list(some) for some in groups_of([1, 2, 3, 4, 5], 2)] == [[1, 2], [3, 4], [5]]
