"""What holds for every method, on a tiny federation that fits it: one table, a row for each.

Each row plays once on the serial engine. The batched engine, a run that was broken off, and participants behind the
protocol must come to the same, and after three rounds participants must know more than nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck import models
from potluck.engines import pick_device
from potluck.flower import gateway
from potluck.flower.public_data import to_payload
from potluck.methods import (
    DENSE,
    FCCL,
    FD,
    FLOP,
    FML,
    HFL,
    METHODS,
    MHAT,
    MOON,
    SCAFFOLD,
    CoFED,
    Describe,
    Ditto,
    DraftFed,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedBN,
    FedDF,
    FedDistill,
    FedGen,
    FedGH,
    FedIN,
    FedKD,
    FedMD,
    FedMRL,
    FedNova,
    FedPer,
    FedProto,
    FedProx,
    FedRep,
    FedRolex,
    FedSALoRA,
    FedSSA,
    FedTGP,
    FedYogi,
    FlexLoRA,
    FLoRA,
    Hermes,
    HeteroFL,
    HetLoRA,
    InclusiveFL,
    InCo,
    LGFedAvg,
    Local,
    LotteryFL,
    PerHeFed,
    PFedES,
    ScaleFL,
)
from potluck.methods.pruning import Pruning
from potluck.methods.robust import Median, MultiKrum
from tests.flower.fakes import FakeGrid, client_of, served, shared
from tests.fuzzing import LIARS, Refused, fuzz, strangers_play
from tests.host_copies import watched
from tests.tables import (
    PLAN,
    SHAPE,
    agree,
    cnn,
    deep_cnn,
    exit_mlp,
    headed_cnn,
    made_data,
    mlp,
    participants,
    slim_cnn,
    weights_agree,
)

SLIM, NARROW = "tests.tables:slim_cnn", "tests.tables:narrow_mlp"
NARROW_CNN = "tests.tables:narrow_cnn"
PUBLIC, TEST = made_data(30, 90), made_data(80, 91)
ROUNDS = 3
SGD = PLAN.replace(momentum=0.0, lr=0.2)


def alike() -> list[nn.Module]:
    return [cnn(seed, 3) for seed in range(4)]


def mixed() -> list[nn.Module]:
    return [mlp(0), cnn(1, 3), mlp(2), mlp(3, 6)]


def deep() -> list[nn.Module]:
    return [deep_cnn(seed, 1 + seed % 2) for seed in range(4)]


def narrow_mixed() -> list[nn.Module]:
    """The architectures of ``NARROW`` and ``NARROW_CNN``."""
    return [mlp(0, 4), cnn(1, 2), mlp(2, 4), cnn(3, 2)]


def narrow() -> list[nn.Module]:
    torch.manual_seed(0)
    return [slim_cnn(rate).double() for rate in (1, 0.5, 0.5, 1)]


def adapted() -> list[nn.Module]:
    """Networks with adapters of different rank; some get theirs from the method."""
    nets = [mlp(seed, 12) for seed in range(4)]
    return [nets[0], models.lora(nets[1], 4), models.lora(nets[2], 1), nets[3]]


def residual() -> list[nn.Module]:
    """ResNets whose second and third stages have two blocks, or one."""
    torch.manual_seed(0)
    return [models.build(f"resnet{d}", SHAPE, 3, stem="small", width=2).double() for d in (14, 10, 14, 10)]


def leaving() -> list[nn.Module]:
    return [exit_mlp(seed, exits, width) for seed, (exits, width) in enumerate(((2, 8), (1, 4), (2, 8), (1, 8)))]


def headed() -> list[nn.Module]:
    """Two architectures, with heads of one shape."""
    return [mlp(0), headed_cnn(1), mlp(2), headed_cnn(3)]


@dataclass(frozen=True)
class Row:
    """A method, and the federation that it is tried in.

    Args:
        method: the method, with settings for few samples.
        models: makes the participants' networks, anew each time.
        public: the public data, inputs alone or with labels; by default none.
        people: more settings of all participants; by default none.
        federation: more settings of the federation; by default everybody takes part in every round.
        chance: what the mean accuracy must be above after three rounds; by default 0.5, where guessing has a third.
        trains: whether it trains at all; by default True.
        imports: what the settings name that is not Potluck's own, which participants must allow; by default nothing.
    """

    method: potluck.Method
    models: Callable[[], Sequence[Any]]
    public: Any = None
    people: dict[str, Any] = field(default_factory=dict)
    federation: dict[str, Any] = field(default_factory=dict)
    chance: float = 0.5
    trains: bool = True
    imports: tuple[str, ...] = ()


# One line for each method, by name, so that lines of several people meet without trouble.
ROWS = {
    "CoFED": Row(CoFED(update_batch_size=16), mixed, PUBLIC[0], chance=0.4),
    "DENSE": Row(
        DENSE(architectures=(NARROW, NARROW_CNN), student=NARROW, epochs=2, generator_steps=2, batch_size=8, width=4),
        narrow_mixed,
        imports=(NARROW, NARROW_CNN),
        chance=0.4,
    ),
    "DENSE as its code": Row(
        DENSE(
            architectures=(NARROW, NARROW_CNN),
            student=NARROW,
            epochs=2,
            generator_steps=2,
            batch_size=8,
            width=4,
            norms="sum",
            pool=True,
            train_noise=True,
            fresh_generator=True,
            inputs="best",
        ),
        narrow_mixed,
        imports=(NARROW, NARROW_CNN),
        chance=0.4,
    ),
    "Ditto": Row(Ditto(), alike, federation={"participation": 0.75}),
    "Describe": Row(Describe(bins=4), mixed, trains=False),
    "DraftFed": Row(DraftFed(samples=20, draft_batch_size=16), deep, PUBLIC[0]),
    "FCCL": Row(FCCL(pretrain_epochs=1, public_batch_size=16), mixed, PUBLIC[0]),
    "FCCL batch": Row(
        FCCL(pretrain_epochs=1, public_batch_size=16, exchange_every="batch", own="previous"), mixed, PUBLIC[0]
    ),
    "FD": Row(FD(), mixed, PUBLIC[0]),
    "FedAdagrad": Row(FedAdagrad(server_lr=0.03), alike),
    "FedAdam": Row(FedAdam(server_lr=0.03), alike, federation={"participation": 0.75}),
    "FedAdam layerwise": Row(FedAdam(server_lr=0.03, aggregation="layerwise"), mixed),
    "FedAvg": Row(FedAvg(), alike, federation={"participation": 0.75}),
    "FedAvg layerwise": Row(FedAvg(aggregation="layerwise", batchnorm="local"), mixed),
    "FedAvg personalised": Row(FedAvg(fine_tune=1, batchnorm="local statistics"), alike),
    "FedKD": Row(FedKD(rounds=3), mixed, federation={"participation": 0.75}),
    "FedMRL": Row(FedMRL(common=NARROW), mixed, imports=(NARROW,)),
    "FedBN": Row(FedBN(), alike),
    "FedDF": Row(
        FedDF(architectures=(NARROW, NARROW_CNN), steps=8, server_plan={"batch_size": 16}),
        narrow_mixed,
        PUBLIC[0],
        federation={"participation": 0.75},
        imports=(NARROW, NARROW_CNN),
    ),
    "FedDistill": Row(FedDistill(), mixed),
    "FedDistill trained": Row(FedDistill(means="trained"), mixed),
    "FedGen": Row(FedGen(server_steps=10, hidden=16), headed),
    "FedGH": Row(FedGH(), headed, federation={"participation": 0.75}),
    "FedIN": Row(FedIN(pairs=6), deep),
    "FedMD": Row(FedMD(subset=20), mixed, PUBLIC),
    "FedNova": Row(FedNova(), alike, federation={"participation": 0.75}),
    "FedNova layerwise": Row(FedNova(aggregation="layerwise"), mixed),
    "FedPer": Row(FedPer(), alike, federation={"participation": 0.75}),
    "FedProto": Row(FedProto(), headed, federation={"participation": 0.75}),
    "FedProx": Row(FedProx(mu=0.1), alike),
    "FedProx layerwise": Row(FedProx(mu=0.1, aggregation="layerwise"), mixed),
    "FedRep": Row(FedRep(head_epochs=2), alike, federation={"participation": 0.75}),
    "FedRolex": Row(FedRolex(), narrow, federation={"participation": 0.75}),
    "FedSSA": Row(FedSSA(), headed, federation={"participation": 0.75}),
    "FedTGP": Row(FedTGP(), headed),
    "FedYogi": Row(FedYogi(server_lr=0.03), alike),
    "FLOP": Row(FLOP(), alike),
    "FML": Row(FML(), mixed),
    "Hermes": Row(Hermes(), alike, people={"validation": 0.25}),
    "FLoRA": Row(FLoRA(rank=2, base="sent"), adapted, federation={"participation": 0.75}),
    "FedSALoRA": Row(FedSALoRA(rank=2, base="sent"), adapted),
    "FlexLoRA": Row(FlexLoRA(rank=2, base="sent"), adapted),
    "HetLoRA": Row(HetLoRA(rank=2, base="sent", share=0.5, decay=0.1), adapted),
    "HeteroFL": Row(HeteroFL(model=SLIM), narrow, imports=(SLIM,)),
    "HFL": Row(HFL(), alike),
    "InclusiveFL": Row(InclusiveFL(), deep),
    "InCo": Row(InCo(), residual),
    "LGFedAvg": Row(LGFedAvg(), headed, federation={"participation": 0.75}),
    "Local": Row(Local(), mixed),
    "LotteryFL": Row(LotteryFL(), alike, people={"validation": 0.25}, federation={"participation": 0.75}),
    "MHAT": Row(MHAT(server_plan=PLAN), mixed, PUBLIC),
    "MOON": Row(MOON(), alike, federation={"participation": 0.75}),
    "MOON layerwise": Row(MOON(mu=5, aggregation="layerwise"), mixed),
    "PerHeFed": Row(PerHeFed(intra=0.5, offsets="random"), deep),
    "SCAFFOLD": Row(SCAFFOLD(), alike, people={"plan": SGD}, federation={"participation": 0.75}),
    "SCAFFOLD layerwise": Row(SCAFFOLD(aggregation="layerwise"), mixed, people={"plan": SGD}),
    "PFedES": Row(PFedES(), mixed, federation={"participation": 0.75}),
    "ScaleFL": Row(ScaleFL(), leaving),
}


def people_of(row: Row) -> list[potluck.Participant]:
    return participants(row.models(), **{"sizes": (24, 31, 17, 28), "test": TEST, **row.people})


def federation_of(row: Row, engine: str) -> potluck.Federation:
    return potluck.Federation(
        people_of(row), row.method, public=row.public, test=TEST, seed=3, engine=engine, **row.federation
    )


def of_everybody(row: Row, engine: Any, people: Any = None, **settings: Any) -> potluck.Federation:
    """A federation in which all take part in every round."""
    people = people or people_of(row)
    return potluck.Federation(people, row.method, public=row.public, seed=3, engine=engine, **settings)


@cache
def serial(name: str) -> potluck.Federation:
    """The reference, played once for all tests of a row."""
    federation = federation_of(ROWS[name], "serial")
    federation.run(ROUNDS)
    return federation


def equals_serial(name: str, found: potluck.Federation, tolerance: float) -> None:
    """All that is measured, and all that participants answer, is the reference's."""
    expected = serial(name)
    agree(found.history.rows(), expected.history.rows(), tolerance)
    if ROWS[name].trains:
        weights_agree(found.participants.values(), expected.participants.values(), tolerance)


def test_every_method_has_a_row() -> None:
    assert {type(row.method).__name__ for row in ROWS.values()} == set(METHODS)


@pytest.mark.parametrize("name", ROWS)
def test_batched_is_serial(name: str, caplog: pytest.LogCaptureFixture) -> None:
    batched = federation_of(ROWS[name], "batched")
    batched.run(ROUNDS)
    equals_serial(name, batched, 1e-9)
    assert "cannot be stacked" not in caplog.text


@pytest.mark.parametrize("name", ROWS)
def test_a_resumed_run_is_an_unbroken_one(name: str, tmp_path: Any) -> None:
    federation_of(ROWS[name], "serial").run(ROUNDS - 1, run_dir=tmp_path)
    resumed = federation_of(ROWS[name], "serial")
    resumed.run(ROUNDS, run_dir=tmp_path, resume=True)
    equals_serial(name, resumed, 0)


@pytest.mark.parametrize("name", ROWS)
def test_over_the_protocol_it_is_the_same(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(gateway, "NODE_INTERVAL", 0.0)
    row = ROWS[name]
    people = people_of(row)
    grid = FakeGrid([client_of(person, tmp_path, allow_imports=row.imports) for person in people])
    names = [person.name for person in people]
    over = served(grid, row.method, names, public=row.public, test=TEST, **row.federation)
    over.run(ROUNDS)
    public = 0 if row.public is None else to_payload(shared(row.public)).size  # which participants fetch at first
    expected = [
        {**one, "bytes_down": one["bytes_down"] + public * (one["round"] == 1)} for one in serial(name).history.rows()
    ]
    agree(over.history.rows(), expected, 1e-9)
    if row.trains:
        weights_agree(people, serial(name).participants.values(), 1e-9)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.trains])
def test_it_learns(name: str) -> None:
    accuracy = serial(name).history.final.accuracy
    assert accuracy is not None
    assert accuracy > ROWS[name].chance


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.trains])
def test_what_answers_can_be_exported(name: str, tmp_path: Any) -> None:
    """As the method answers, for any number of rows."""
    for participant in list(serial(name).participants.values())[:2]:
        participant.save(tmp_path / participant.name, test=TEST)
        found = potluck.load(tmp_path / participant.name)
        for rows in (1, 2, 40):
            x = TEST[0][:rows]
            np.testing.assert_allclose(found.predict_proba(x), participant.predict_proba(x), rtol=1e-4, atol=1e-5)


@cache
def digits() -> tuple[Any, Any]:
    """Zeros, ones and twos, as much of each picture as the networks of the table read."""
    source = potluck.data.digits()
    rows = np.flatnonzero(source.y < 3)
    return source.x[rows][:, :, 1:7, 1:7].astype("float64"), source.y[rows]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.trains])
def test_it_learns_real_digits(name: str) -> None:
    row, (x, y) = ROWS[name], digits()
    public = None if row.public is None else (x[:60], y[:60]) if isinstance(row.public, tuple) else x[:60]
    people, begin = [], 60
    for place, (model, size) in enumerate(zip(row.models(), (40, 50, 30, 45), strict=True)):
        own = x[begin : begin + size], y[begin : begin + size]
        settings = {"plan": PLAN, "labels": range(3), **row.people}
        people.append(potluck.Participant(f"p{place}", model, own, **settings))
        begin += size
    federation = potluck.Federation(
        people, row.method, public=public, test=(x[-150:], y[-150:]), seed=3, engine="batched"
    )
    accuracy = federation.run(ROUNDS).final.accuracy
    assert accuracy is not None
    assert accuracy > 0.5, "a guess has a third"


TAKES_LATECOMERS = [name for name, row in ROWS.items() if row.method.late_joining]


@pytest.mark.parametrize("name", TAKES_LATECOMERS)
def test_a_newcomer_joins_late(name: str) -> None:
    """It is given what the others have, and answers."""
    row = ROWS[name]
    first, newcomer, *others = people_of(row)
    federation = potluck.Federation(
        [first, *others], row.method, public=row.public, test=TEST, seed=3, engine="serial", unseen=[newcomer]
    )
    federation.run(1)
    assert federation.unseen_scores[newcomer.name]["own"]["accuracy"] is not None


SERVES_ALL_TASKS = [name for name, row in ROWS.items() if row.method.requires().tasks == "any" and row.trains]


@pytest.mark.parametrize("name", SERVES_ALL_TASKS)
def test_it_learns_numbers_where_it_says_that_it_serves_any_task(name: str) -> None:
    """Three numbers for each sample, of which one is 1: a network soon explains some of what varies."""
    row = ROWS[name]

    def numbers(rows: int, seed: int) -> Any:
        x, y = made_data(rows, seed)
        return x, np.eye(3)[y]

    settings = {"plan": PLAN.replace(lr=0.02), **row.people}
    people = [
        potluck.Participant(f"p{i}", model, numbers(size, i), test=numbers(60, 91), task="regression", **settings)
        for i, (model, size) in enumerate(zip(row.models(), (24, 31, 17, 28), strict=True))
    ]
    public = None if row.public is None else PUBLIC[0]
    federation = potluck.Federation(people, row.method, public=public, seed=3, engine="serial")
    federation.run(2)
    explained = [
        row["r2"] for row in federation.history.rows() if row["round"] == 2 and row["took_part"] and "model" not in row
    ]
    assert sum(explained) / len(explained) > 0


def takes_robust_rules(method: potluck.Method) -> bool:
    field = type(method).model_fields.get("robust")
    return field is not None and bool(get_args(field.annotation))


TAKE_ROBUST_RULES = [name for name, row in ROWS.items() if takes_robust_rules(row.method)]


@pytest.mark.parametrize("name", TAKE_ROBUST_RULES)
def test_robust_merges_are_the_same_on_both_engines(name: str) -> None:
    """And over those who hold the same: of mixed networks, of windows, of those who took part."""
    rule = Median() if isinstance(ROWS[name].method, Pruning) else MultiKrum()
    row = replace(ROWS[name], method=ROWS[name].method.model_copy(update={"robust": rule}))
    serial, batched = federation_of(row, "serial"), federation_of(row, "batched")
    agree(batched.run(2).rows(), serial.run(2).rows(), 1e-9)
    assert all(not each["refused"] for each in serial.history.rows())


EXCHANGING = [name for name, row in ROWS.items() if row.method.exchanges()]


@pytest.mark.parametrize("name", EXCHANGING)
def test_no_message_ends_a_run(name: str) -> None:
    assert fuzz(partial(of_everybody, ROWS[name]), 2_000 // len(EXCHANGING) + 1, 0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", EXCHANGING)
def test_none_of_many_messages_ends_a_run(name: str) -> None:
    assert fuzz(partial(of_everybody, ROWS[name]), 100_000 // len(EXCHANGING) + 1, 10_000) > 0


@pytest.mark.parametrize("name", ["FedAvg", "FedIN", "CoFED", "DraftFed", "MHAT", "PerHeFed"])
def test_who_is_refused_at_once_leaves_no_trace(name: str) -> None:
    """Honest results are those of a federation that the others were never in."""
    row, device = ROWS[name], pick_device("cpu")
    honest = [person for person in people_of(row) if person.name not in LIARS]
    beside = strangers_play(of_everybody(row, Refused(device)), 2)
    alone = strangers_play(of_everybody(row, "serial", honest), 2)
    agree([each for each in beside if each["participant"] not in LIARS], alone, 1e-12)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.trains])
def test_no_training_step_copies_from_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a graph of the step could not; a single network of the server's is a stack on a GPU, too."""
    found = watched(monkeypatch)
    federation_of(ROWS[name], "batched").run(2)
    assert found == []
