"""Ctrl-C at any moment, again and again: whoever follows a program ends with it, and never hangs.

SIGINT inside ``Popen.poll`` once left its lock held, so that the wait for the program never came back.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import heed_interrupts
from tests.flower.programs import THINGS, Site

FOLLOWER = """
import sys
from pathlib import Path
from potluck.core.interruptions import Interruptions
from potluck.flower.processes import Program

program = Program([sys.executable, "-c", "import time; time.sleep(600)"], {}, Path(sys.argv[1]))
with Interruptions(at_once=program.stop_at_once) as interruptions:
    print(program._process.pid, flush=True)
    try:
        while program.ended is None:
            interruptions.check()
    except KeyboardInterrupt:
        program.stop()
        print("in order", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_a_program_that_is_followed_ends_with_its_follower(presses, tmp_path):
    chance = random.Random(presses)
    for _ in range(200 // presses):
        command = [sys.executable, "-c", FOLLOWER, str(tmp_path / "log")]
        follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts)
        try:
            followed = int(follower.stdout.readline())
            for _ in range(presses):
                time.sleep(chance.uniform(0, 0.02))
                follower.send_signal(signal.SIGINT)
            said, _ = follower.communicate(timeout=30)
        finally:
            follower.kill()
        if presses == 1:
            assert (follower.returncode, said) == (0, "in order\n")
        else:  # the second one may also come when all is done, or while Python itself ends
            assert follower.returncode == 130 or (said == "in order\n" and follower.returncode in (0, -signal.SIGINT))
        until = time.monotonic() + 10
        while runs(followed) and time.monotonic() < until:
            time.sleep(0.01)
        assert not runs(followed)


def runs(process):
    """Whether a process is there, and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("presses", [1, 2])
def test_a_server_and_a_site_that_are_interrupted_leave_nobody_behind(presses, wait, tmp_path):
    """At their start, while Flower's programs start, and while they wait for each other."""
    with Site(tmp_path, '"FedAvg"', dict.fromkeys(("p0", "p1"), f'"{THINGS}:mlp"')) as site:
        site.serve()
        site.join("p0")
        site.until(lambda: "Serving at" in site.said("serve") and "waits for" in site.said("p0"), "both to begin")
        time.sleep(wait)
        for _ in range(presses):
            for process in site.running.values():
                process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        site.wait("serve", "p0", code=130)
        assert site.left() == []
