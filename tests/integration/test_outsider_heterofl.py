"""HeteroFL (Diao et al., ICLR 2021) as somebody outside writes it, from public imports alone.

Participants hold the first units of a wide network of the server's. The server trains nothing, and yet its network is
what the method is for: it is evaluated, has rows of its own in the history, and is there after the run.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from potluck import (
    Exchange,
    Federation,
    Fit,
    History,
    Method,
    Needs,
    Participant,
    Payload,
    Plan,
    Schema,
    TensorSpec,
    exchange,
)
from tests.flower.fakes import FakeGrid, client_of, invitation, served

WIDE, CLASSES = 8, 3
PLAN = Plan(optimizer="sgd", lr=0.2, epochs=3, batch_size=8)


class Net(nn.Module):
    """A network of any width."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, CLASSES)
        self.double()

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def wide():
    return Net(WIDE)


def corner(entry, shape):
    """The first rows and columns of an entry."""
    return entry[tuple(map(slice, shape))]


class HeteroFL(Method):
    """Everybody trains the first units of the server's network; each weight is averaged over those who hold it."""

    needs = Needs(torch_module=True, one_label_space=True)
    server_reports: ClassVar[tuple[str, ...]] = ("global",)

    def server_models(self, server):
        return {"global": wide}

    def join(self, me):
        reply = yield Exchange("hello", Payload(facts={"width": len(me.weights()["body.bias"])}))
        me.load(reply.tensors)

    def round(self, me):
        yield Fit()
        reply = yield Exchange("weights", Payload(me.weights()))
        me.load(reply.tensors)

    @exchange(lambda self, server, sender: Schema(facts={"width": int}), phase="join")
    def hello(self, server, answers):
        widths = {sender: payload.facts["width"] for sender, payload in answers}
        server.state["widths"] = {**server.state.get("widths", {}), **widths}
        return {sender: self.cut(server, sender) for sender in widths}

    def shapes(self, server, sender):
        width = server.state["widths"][sender]
        return {
            name: [width if size == WIDE else size for size in entry.shape]
            for name, entry in server.models["global"].weights().items()
        }

    def cut(self, server, sender):
        whole = server.models["global"].weights()
        return Payload({name: corner(whole[name], shape) for name, shape in self.shapes(server, sender).items()})

    def schema(self, server, sender):
        shapes = self.shapes(server, sender)
        return Schema({name: TensorSpec(tuple(shape), torch.float64) for name, shape in shapes.items()})

    @exchange(schema)
    def weights(self, server, answers):
        whole = server.models["global"].weights()
        total = {name: torch.zeros_like(entry) for name, entry in whole.items()}
        holders = {name: torch.zeros_like(entry) for name, entry in whole.items()}
        senders = []
        for sender, payload in answers:
            senders.append(sender)
            for name, entry in payload.tensors.items():
                corner(total[name], entry.shape).add_(entry)
                corner(holders[name], entry.shape).add_(1)
        held = {name: torch.where(holders[name] > 0, total[name] / holders[name], whole[name]) for name in whole}
        server.models["global"].load(held)
        return {sender: self.cut(server, sender) for sender in senders}


def made(rows, seed):
    """The label says which of the first three inputs is the largest."""
    x = np.random.default_rng(seed).normal(size=(rows, 4))
    return x, x[:, :CLASSES].argmax(axis=1)


TEST = made(90, 99)


def people(**settings):
    return [
        Participant(f"p{i}", Net(width), made(30 + i, i), plan=PLAN, labels=range(CLASSES), **settings)
        for i, width in enumerate((4, 2, 4, 2))
    ]


def play(engine="serial", rounds=3, **settings):
    federation = Federation(people(), HeteroFL(), test=TEST, engine=engine, seed=4)
    federation.run(rounds, **settings)
    return federation


def of_the_server(history):
    return [row for row in history.rows() if row["participant"] == "server"]


def same(ours, theirs, tolerance):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours.rows(), theirs.rows(), strict=True):
        assert mine.keys() == other.keys()
        for name, value in mine.items():
            if name != "seconds":
                assert value == (pytest.approx(other[name], abs=tolerance) if isinstance(value, float) else other[name])


def test_the_server_s_network_has_rows_and_is_there_after_the_run(tmp_path):
    federation = play(run_dir=tmp_path)
    rows = of_the_server(federation.history)
    assert [(row["round"], row["model"], row["bytes_up"]) for row in rows] == [(r, "global", 0) for r in (1, 2, 3)]
    network = federation.server.models["global"].model
    with torch.no_grad():
        said = network(torch.from_numpy(TEST[0])).argmax(dim=1).numpy()
    assert rows[-1]["accuracy"] == (said == TEST[1]).mean()
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert of_the_server(History.load(tmp_path)) == rows
    assert len(federation.history.final.rows) == 4, "it counts in no mean"


def test_a_round_is_the_mean_over_who_holds_a_weight():
    federation = play(rounds=0)
    before = federation.server.models["global"].weights()
    for person in federation.participants.values():
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, corner(before[name], entry.shape), rtol=0, atol=0)
    alone = [partial(corner, person.weights()["body.weight"]) for person in played_alone(before)]
    federation.run(1)
    after = federation.server.models["global"].weights()["body.weight"]
    torch.testing.assert_close(after[:2], torch.stack([cut((2, 4)) for cut in alone]).mean(dim=0))
    torch.testing.assert_close(after[2:4], torch.stack([cut((4, 4))[2:] for cut in alone[::2]]).mean(dim=0))
    torch.testing.assert_close(after[4:], before["body.weight"][4:], rtol=0, atol=0)


def played_alone(start):
    """Everybody after one round of training from these weights, without the others."""

    class Alone(Method):
        def join(self, me):
            me.load({name: corner(start[name], entry.shape) for name, entry in me.weights().items()})
            return
            yield

        def round(self, me):
            yield Fit()

    federation = Federation(people(), Alone(), engine="serial", seed=4)
    federation.run(1)
    return federation.participants.values()


def test_engines_and_resumed_runs_agree(tmp_path):
    serial = play()
    same(play("batched").history, serial.history, 1e-9)
    play(rounds=1, run_dir=tmp_path)
    resumed = play(rounds=3, run_dir=tmp_path, resume=True)
    same(resumed.history, serial.history, 0)
    weights = serial.server.models["global"].weights()
    torch.testing.assert_close(resumed.server.models["global"].weights(), weights, rtol=0, atol=0)


def test_over_a_network_it_is_the_same(tmp_path):
    name, method = f"{__name__}:HeteroFL", HeteroFL()
    grid = FakeGrid([client_of(me, tmp_path, allow_imports=(name,)) for me in people(test=TEST)])
    invite = invitation(method, method=name)
    over = served(grid, method, [f"p{i}" for i in range(4)], invite=invite, test=TEST)
    over.run(2)
    assert len(of_the_server(over.history)) == 2
    here = Federation(people(test=TEST), HeteroFL(), test=TEST, engine="serial", seed=over.seed).run(2)
    same(over.history, here, 1e-9)
