"""Random messages over the whole protocol: none ends a run, gets out as an exception, or changes the honest."""

from __future__ import annotations

import pytest

from tests.protocol_fuzzing import METHODS, fuzz_participant, fuzz_server, in_memory

OF_A_SERVER, OF_PARTICIPANTS = 1_500 // len(METHODS), 540 // len(METHODS)
"""How many messages of each method are tried at once: participants' cost more, since the others work meanwhile."""
MANY = 50_000 // len(METHODS) + 1


@pytest.mark.parametrize("name", METHODS)
def test_no_message_of_a_server_harms_a_participant(name):
    with in_memory() as folder:
        assert fuzz_participant(name, OF_A_SERVER, 0, folder) >= OF_A_SERVER


@pytest.mark.parametrize("name", METHODS)
def test_no_message_of_a_participant_harms_the_others(name):
    with in_memory() as folder:
        assert fuzz_server(name, OF_PARTICIPANTS, 0, folder) >= OF_PARTICIPANTS


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_none_of_many_messages_of_a_server_harms_a_participant(name):
    with in_memory() as folder:
        assert fuzz_participant(name, MANY, 1, folder) >= MANY


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_none_of_many_messages_of_a_participant_harms_the_others(name):
    with in_memory() as folder:
        assert fuzz_server(name, MANY, 1, folder) >= MANY
