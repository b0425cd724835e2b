"""Simulated time, worked out by hand."""

from __future__ import annotations

import pytest

import potluck
from potluck.core.errors import SettingsError
from potluck.federation.clock import DEVICES, Device, PhaseClock, VirtualClock
from tests.tables import mlp, participants

QUICK = Device(steps_per_second=10, upload=1000, download=2000)
SLOW = Device(steps_per_second=2, upload=100, download=500, latency=0.5)


def federation(method=None, engine="serial", **settings):
    plan = potluck.Plan(epochs=2, batch_size=4)
    people = participants([mlp(0), mlp(0)], sizes=[8, 8], plan=plan)
    return potluck.Federation(people, method or potluck.methods.FedAvg(), engine=engine, **settings)


def test_steps_and_bytes_make_the_time_and_the_server_waits_for_the_slowest():
    clock = PhaseClock(VirtualClock(devices={"a": QUICK, "b": SLOW}), ["a", "b"])
    clock.worked("a", 20)  # 2 s
    clock.worked("b", 4)  # 2 s
    assert clock.sent("a", 500) is None  # 0.5 s
    assert clock.sent("b", 100) is None  # 0.5 s and 1 s
    assert (clock.now["a"], clock.now["b"]) == (2.5, 3.5)
    clock.reply(["a", "b"], lost=False)
    clock.received("a", 1000)  # 0.5 s
    clock.received("b", 250)  # 0.5 s and 0.5 s
    assert (clock.now["a"], clock.now["b"]) == (4.0, 4.5)
    clock.worked("a", 25)  # five steps more
    assert clock.now["a"] == 4.5


def test_whoever_comes_later_than_the_server_waits_is_lost_and_has_been_waited_for():
    clock = PhaseClock(VirtualClock(devices={"a": QUICK, "b": SLOW}, answer_timeout=3), ["a", "b"])
    clock.worked("a", 10)
    clock.worked("b", 10)
    assert clock.sent("a", 0) is None
    assert clock.sent("b", 100) == "too slow: 6.5 simulated s where the server waits 3"
    clock.reply(["a"], lost=True)
    assert (clock.now["a"], clock.now["b"]) == (3, 3)


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_a_round_of_fedavg_takes_its_steps_and_its_bytes(engine):
    clock = VirtualClock(devices={"p0": QUICK, "p1": SLOW})
    history = federation(engine=engine, clock=clock).run(2)
    rows = list(history.recorded(2))
    up, down = rows[0]["bytes_up"], rows[0]["bytes_down"]
    assert rows[1]["bytes_up"] == up
    arrive = max(4 / 10 + up / 1000, 4 / 2 + 0.5 + up / 100)
    assert rows[0]["simulated_seconds"] == pytest.approx(arrive + down / 2000)
    assert rows[1]["simulated_seconds"] == pytest.approx(arrive + 0.5 + down / 500)
    first, second = history.simulated_seconds()
    assert second[1] - first[1] == pytest.approx(rows[1]["simulated_seconds"])


def test_the_slow_one_is_lost_in_every_round_and_the_others_go_on():
    clock = VirtualClock(devices={"p0": "server", "p1": "phone"}, answer_timeout=0.5)
    rows = list(federation(clock=clock).run(2).recorded(2))
    assert rows[0]["refused"] is None
    assert rows[1]["refused"].startswith("too slow: ")
    assert rows[0]["simulated_seconds"] > 0.5, "the server has waited for the slow one"
    assert rows[1]["simulated_seconds"] >= 0.5


def test_without_a_clock_no_time_is_simulated():
    history = federation().run(1)
    assert "simulated_seconds" not in history.rows()[0]
    assert list(history.simulated_seconds()) == []


def test_whoever_sits_out_takes_no_time():
    history = federation(clock=VirtualClock(devices="laptop"), participation=1).run(1)
    idle = next(row for row in history.rows() if not row["took_part"])
    nobody_joins_twice = federation(clock=VirtualClock(devices="laptop"), participation=1).run(2).rows()[2:]
    assert idle["simulated_seconds"] > 0, "joining"
    assert sorted(row["simulated_seconds"] > 0 for row in nobody_joins_twice) == [False, True]


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        ({"devices": "phon"}, r"there is no device 'phon'\. Did you mean 'phone'\?"),
        ({"devices": {"p0": "phone", "p1": {"upload": 1.0}}}, r"p1.steps_per_second|steps_per_second"),
        ({"devices": "phone", "answer_timeout": 0}, "answer_timeout"),
    ],
)
def test_mistakes_are_told(clock, message):
    with pytest.raises(SettingsError, match=message):
        VirtualClock(**clock)


def test_every_participant_needs_a_device_and_nobody_else_has_one():
    with pytest.raises(SettingsError, match=r"clock.devices has none for 'p1'"):
        federation(clock=VirtualClock(devices={"p0": "phone"}))
    with pytest.raises(SettingsError, match=r"clock.devices names 'p7'"):
        federation(clock=VirtualClock(devices={"p0": "phone", "p1": "phone", "p7": "phone"}))
    with pytest.raises(SettingsError, match="clock is 'phone'"):
        federation(clock="phone")


def test_the_profiles_are_in_order():
    speeds = [DEVICES[name].steps_per_second for name in ("phone", "laptop", "server")]
    assert speeds == sorted(speeds)


def test_the_second_exchange_is_measured_from_the_servers_last_reply():
    clock = PhaseClock(VirtualClock(devices=QUICK, answer_timeout=3), ["a"])
    clock.worked("a", 20)  # 2 s
    clock.sent("a", 0)
    clock.reply(["a"], lost=False)
    clock.worked("a", 40)  # 2 s more: 4 s into the phase, and 2 s after the reply
    assert clock.sent("a", 0) is None
    clock.reply(["a"], lost=False)
    clock.worked("a", 80)
    assert clock.sent("a", 0) == "too slow: 4 simulated s where the server waits 3"


def test_a_device_may_be_slower_than_a_step_a_second():
    slow = Device(steps_per_second=0.5, upload=0.5, download=0.5)
    assert VirtualClock(devices=slow).device("anybody") == slow


def test_what_the_profiles_say():
    phone = DEVICES["phone"]
    assert (phone.steps_per_second, phone.upload, phone.download, phone.latency) == (5, 1.25e6, 5e6, 0.05)


def test_the_named_devices():
    """Mobile: 10 and 40 Mbit/s; at home: 20 and 100; a data centre: 1 Gbit/s."""
    assert {name: (8 * device.upload, 8 * device.download) for name, device in DEVICES.items()} == {
        "phone": (10e6, 40e6),
        "laptop": (20e6, 100e6),
        "server": (1e9, 1e9),
    }
    assert [device.steps_per_second for device in DEVICES.values()] == [5, 20, 200]
    assert [device.latency for device in DEVICES.values()] == [0.05, 0.02, 0.001]
