"""Participants in the workers of Flower's simulation, without Flower: each object stands for a worker."""

from __future__ import annotations

import os

import pytest

from potluck.core.errors import SettingsError
from potluck.flower.protocol import Advance, Message
from potluck.flower.simulation import SimulatedClients
from potluck.methods import FedAvg
from tests.flower.fakes import invitation

OWN = 'model = "mlp"\ndata = { name = "tests.flower.things:data", seed = 0 }\nlabels = [0, 1, 2]\ndevice = "cpu"\n'


@pytest.fixture
def ask(tmp_path):
    """Asks a worker for the answer of one of two participants; the files are not where the tests run."""
    entries = "".join(f'[[participants]]\nname = "{name}"\n' for name in ("p0", "p1"))
    (tmp_path / "server.toml").write_text(f'rounds = 9\nmethod = "FedAvg"\n{entries}')
    for name in ("p0", "p1"):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\n{OWN}')

    def answer(worker, message, number=0):
        config = {"federation": str(tmp_path / "server.toml"), "state": "states"}
        head, body = worker.answer(message.encoded_head().decode(), message.body, config, {"partition-id": number})
        return Message.decode(head, body)

    return answer


INVITATION = invitation(FedAvg()).message()
BEGIN = Advance(phase="join", round=0, step=0).message()


def test_a_worker_that_has_not_seen_a_participant_takes_it_up_from_its_store(ask, tmp_path):
    first, second = SimulatedClients(), SimulatedClients()
    assert ask(first, INVITATION).head["kind"] == "accepted"
    greeted = ask(first, BEGIN)
    assert greeted.head["kind"] == "exchange"
    assert ask(second, BEGIN) == greeted  # though nobody invited it there
    assert (tmp_path / "states" / "p0" / "invitation.json").exists()


def test_a_worker_stays_in_its_folder_and_holds_a_few(ask):
    before, worker = os.getcwd(), SimulatedClients(capacity=1)
    for number in (0, 1, 0):
        ask(worker, INVITATION, number)
        assert ask(worker, BEGIN, number).head["name"] == f"p{number}"
    assert os.getcwd() == before


def test_a_node_too_many_is_named(ask):
    with pytest.raises(SettingsError, match=r"a node 2; .* names 2 participants"):
        ask(SimulatedClients(), INVITATION, 2)
