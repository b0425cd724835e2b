"""Liars wait for the honest, know what these send, and stay within what the exchange asks for, on every engine."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.channel.codecs import TopK
from potluck.core.party import Arrival
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.attacks import ATTACKS, ALittleIsEnough, SignFlip
from potluck.federation.liars import Crowd, remember
from potluck.federation.server import Server
from potluck.methods import FD, CoFED, DraftFed, FedAvg, FedIN, PerHeFed
from tests.tables import PLAN, agree, deep_cnn, made_data, participants

METHODS = {
    "CoFED": CoFED(update_batch_size=16),
    "DraftFed": DraftFed(samples=20, draft_batch_size=16),
    "FD": FD(),
    "FedAvg": FedAvg(),
    "FedIN": FedIN(pairs=6),
    "PerHeFed": PerHeFed(intra=0.5),
}


def told(sender, *values, **facts):
    payload = Payload({"w": torch.tensor(values), "n": torch.tensor([1, 2])}, facts)
    return Arrival(sender, Exchange("weights", payload), seconds=2.0)


def crowd(attack, server, low=None):
    schema = Schema({"w": TensorSpec((2,), low=low), "n": TensorSpec((2,), torch.int64)}, {"samples": int})
    return Crowd({"liar": attack}, server, lambda server, sender: schema)


def test_a_liar_knows_the_mean_and_the_deviation_of_the_honest():
    here = crowd(ALittleIsEnough(deviations=2), Server(0, {}))
    assert here.keeps(told("liar", 9.0, 9.0, samples=7))
    assert not here.keeps(told("a", 1.0, 4.0))
    assert not here.keeps(told("b", 3.0, 4.0))
    (lie,) = here.lies()
    assert lie.exchange.payload["w"].tolist() == [0, 4]  # 2 − 2·1, 4 − 2·0
    assert lie.exchange.payload["n"].tolist() == [1, 2]
    assert lie.exchange.payload.facts == {"samples": 7}
    assert lie.seconds == 2.0
    assert not here.keeps(lie)
    assert list(here.lies()) == []


def test_it_knows_what_it_received_last():
    server = Server(0, {})
    remember(server, "liar", Payload({"w": torch.tensor([1.0, 1.0])}))
    remember(server, "liar", Payload({"v": torch.tensor([1.0, 1.0])}))
    here = crowd(SignFlip(), server)
    here.keeps(told("liar", 3.0, 4.0))
    assert next(here.lies()).exchange.payload["w"].tolist() == [-1, -2]


def test_what_it_sends_is_within_its_bounds():
    here = crowd(SignFlip(), Server(0, {}), low=0)
    here.keeps(told("liar", 3.0, -4.0))
    assert next(here.lies()).exchange.payload["w"].tolist() == [0, 4]


def federation(method, attack, engine="serial", **settings):
    models = [deep_cnn(seed, 1) for seed in range(4)]
    people = participants(models, plan=PLAN, attack=None)
    people[1].attack = attack
    public = made_data(30, 90)[0]
    return potluck.Federation(people, method, public=public, test=made_data(60, 91), seed=3, engine=engine, **settings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_the_same_on_both_engines_and_within_the_rules(method, attack):
    """But for FedIN's features: those that are far larger than the others' are refused by name."""
    lying = federation(METHODS[method], ATTACKS[attack]())
    rows = lying.run(2).rows()
    refused = {(row["participant"] == "p1", row["refused"].split(" of ")[0]) for row in rows if row["refused"]}
    assert refused <= ({(True, "its pairs are")} if method == "FedIN" else set())
    agree(federation(METHODS[method], ATTACKS[attack](), "batched").run(2).rows(), rows, 1e-8)


def test_an_attack_changes_what_the_others_learn():
    honest = federation(FedAvg(), None).run(2).rows()
    assert federation(FedAvg(), SignFlip(factor=5)).run(2).rows() != honest


def test_attacked_runs_resume(tmp_path):
    whole = federation(FedAvg(), SignFlip()).run(3).rows()
    federation(FedAvg(), SignFlip()).run(1, run_dir=tmp_path)
    again = federation(FedAvg(), SignFlip())
    agree(again.run(3, run_dir=tmp_path, resume=True).rows(), whole, 0)
    with pytest.raises(potluck.PotluckError, match="participants"):
        federation(FedAvg(), SignFlip(factor=2)).run(3, run_dir=tmp_path, resume=True)


def test_lies_are_coded_as_what_the_honest_send(tmp_path):
    lying = federation(FedAvg(), SignFlip(), channel=potluck.Channel(up=[TopK(0.1)])).run(2)
    sizes = {row["participant"]: row["bytes_up"] for row in lying.rows() if row["round"] == 2}
    assert len(set(sizes.values())) == 1
