from __future__ import annotations

from potluck.channel.route import Route, Routes


def test_each_payload_of_a_phase_has_a_route_of_its_own():
    routes = Routes(seed=7)
    assert routes.next("a", 2, "weights", "up") == Route(7, "a", 2, "weights", "up", 0)
    assert routes.next("a", 2, "weights", "up").count == 1
    assert routes.next("a", 2, "weights", "down").count == 0
    assert routes.next("b", 2, "weights", "up").count == 0
    routes.begin()
    assert routes.next("a", 3, "weights", "up").count == 0


def test_a_stamp_names_a_payload_for_both_sides():
    assert Route(7, "a", 2, "weights", "down", 1).stamp == "2 weights 1"
