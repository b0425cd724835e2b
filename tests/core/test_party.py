"""Parties as engines see them: participants and the server are such, and say where they have come to."""

from __future__ import annotations

import inspect

import pytest

import potluck
from potluck.core.party import Arrival, Host, Movable, Party, Storage
from potluck.engines.distributed.engine import Ray
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.federation.storage import DiskStorage
from potluck.federation.worker_storage import WorkerStorage
from potluck.methods import FedAvg
from tests.tables import mlp, participants


def functions_of(protocol):
    return {name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"}


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        (Party, Participant),
        (Party, Server),
        (Movable, Participant),
        (Storage, DiskStorage),
        (Storage, WorkerStorage),
        (Host, Ray),
    ],
)
def test_who_plays_a_part_has_its_functions(protocol, kind):
    for name, function in functions_of(protocol).items():
        needed = len(inspect.signature(function).parameters)
        assert len(inspect.signature(getattr(kind, name)).parameters) == needed, name


def test_participants_and_the_server_say_all_that_engines_ask_for():
    federation = potluck.Federation(participants([mlp(0)]), FedAvg())
    asked = {name for name, value in vars(Party).items() if isinstance(value, property)}
    assert {"name", "seed", "round", "task", "working_bytes"} == asked
    for party in (federation.server, *federation.participants.values()):
        assert {name for name in asked if not hasattr(party, name)} == set()


def test_an_arrival_has_its_own_notes():
    first, second = Arrival("ann"), Arrival("ben")
    first.notes["loss"] = 1.0
    assert (second.exchange, second.notes, second.failed) == (None, {}, None)
