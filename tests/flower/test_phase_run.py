"""A half on its own machine: where it waits, and what it does not take from the server."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.engines import pick_device
from potluck.flower.phase_run import PhaseRun
from potluck.methods import FedAvg
from tests.tables import PLAN, made_data, mlp


class Trusting(potluck.Method):
    """It takes whatever comes, and stumbles over it."""

    def round(self, me):
        reply = yield potluck.Exchange("ask", Payload({"x": torch.zeros(2)}))
        yield potluck.Exchange("tell", Payload({"y": reply["y"] + torch.zeros(3)}))

    @potluck.exchange(lambda self, server, sender: potluck.Schema())
    def ask(self, server, answers):
        return Payload()

    @potluck.exchange(lambda self, server, sender: potluck.Schema())
    def tell(self, server, answers):
        return Payload()


def run_of(method):
    me = potluck.Participant("p0", mlp(0), made_data(20, 0), plan=PLAN, labels=range(3))
    me.join(3, None, method)
    return PhaseRun(me, method, False, pick_device("cpu"), None), me


def test_it_waits_at_each_exchange_until_it_has_ended():
    run, me = run_of(FedAvg())
    assert not run.waits_at("join", 0, 0)
    assert run.to_next("join", 0, 0, b"").exchange.name == "greet"
    assert run.waits_at("join", 0, 0)
    assert run.to_next("join", 0, 1, Payload(facts={"send": []}).to_bytes()).exchange.name == "start"
    assert run.waits_at("join", 0, 1)
    assert not run.waits_at("join", 0, 0)
    assert run.to_next("join", 0, 2, Payload(me.weights()).to_bytes()).exchange is None
    assert not run.waits_at("join", 0, 1)
    with pytest.raises(PayloadError, match="step 3 of join 0 is asked for, which ended before it"):
        run.to_next("join", 0, 3, Payload().to_bytes())


def test_a_half_that_is_closed_says_where_it_was():
    run, _ = run_of(FedAvg())
    assert run.close() is None
    run.to_next("join", 0, 0, b"")
    assert run.close() == ("join", 0, 0)
    assert run.close() is None


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Payload(), r"the reply in 'ask' cannot be used \(KeyError: 'y'\)"),
        (Payload({"y": torch.zeros(7)}), r"the reply in 'ask' cannot be used \(RuntimeError: The size of tensor a"),
        (Payload({"y": torch.tensor([float("inf")] * 3)}), "holds NaN or infinity"),
    ],
)
def test_what_cannot_be_made_of_a_reply_is_the_servers_doing(reply, why):
    run, _ = run_of(Trusting())
    run.to_next("round", 1, 0, b"")
    with pytest.raises(PayloadError, match=why):
        run.to_next("round", 1, 1, reply.to_bytes())
