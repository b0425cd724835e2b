"""A machine is described by what its operating system says."""

from __future__ import annotations

import os

from potluck.bench.measure import machine_in_words
from potluck.runs.machine import describe_machine


def test_the_machine_is_described():
    machine = describe_machine()
    assert 1 <= machine["cores"] <= os.cpu_count()
    assert f"{machine['cores']} cores" in machine_in_words(machine)
    assert machine["cpu"]
    assert machine["memory_gib"] is None or machine["memory_gib"] > 0.1
