"""Flower's programs: who ends with whom."""

from __future__ import annotations

import subprocess
import sys

FOLLOWER = """
import sys, time
from potluck.engines.flower.processes import end_with
end_with(int(sys.argv[1]))
print("watches", flush=True)
time.sleep(60)
"""


def test_a_process_ends_with_the_one_it_needs():
    leader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    follower = subprocess.Popen([sys.executable, "-c", FOLLOWER, str(leader.pid)], stdout=subprocess.PIPE, text=True)
    try:
        assert follower.stdout.readline() == "watches\n"
        assert follower.poll() is None
        leader.kill()
        leader.wait(10)
        assert follower.wait(10) == 1
    finally:
        for process in (leader, follower):
            process.kill()
            process.wait(10)
