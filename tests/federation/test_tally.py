"""Tallies as checkpoints hold them: plain values that make the same tally again."""

from __future__ import annotations

import json
from dataclasses import asdict

from potluck.federation.tally import ExchangeTally, ParticipantTally


def test_a_tally_comes_back_from_a_checkpoint():
    for tally in (ParticipantTally(3, 4, 0.5, 2.0, "late", {"loss": 0.1}, 2, True), ExchangeTally(1, 2, 3, 4)):
        assert type(tally)(**json.loads(json.dumps(asdict(tally)))) == tally


def test_nothing_has_happened_at_first():
    assert asdict(ExchangeTally()) == {"answers": 0, "bytes_up": 0, "replies": 0, "bytes_down": 0}
    tally = ParticipantTally()
    assert (tally.bytes_up, tally.bytes_down, tally.seconds, tally.refused, tally.notes) == (0, 0, 0.0, None, {})
    assert (tally.since, tally.absent) == (1, False)


def test_without_a_virtual_clock_no_simulated_time_passes():
    assert ParticipantTally().simulated == 0.0
    assert ParticipantTally().simulated_seconds is None
    assert ParticipantTally(simulated_seconds=1.5).simulated == 1.5
