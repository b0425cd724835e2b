"""Ctrl-C once ends in order, twice at once; and nothing is cut off where it must not be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from potluck.core.interruptions import INTERRUPTED, Interruptions
from tests.cli.commands import heed_interrupts

PROGRAM = """
import os, signal, sys, threading, time
from potluck.core.interruptions import Interruptions

def hang():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

try:
    with Interruptions(at_once=lambda: os.write(1, b"at once;"), patience=PATIENCE) as interruptions:
        os.write(1, b"ready;")
        WORK
except KeyboardInterrupt:
    os.write(1, b"in order;")
    sys.exit(7)
"""


@pytest.fixture
def program():
    """A program that does some work until signals come: what it says, and how it ends."""
    started = []

    def run(work, *signals, patience=60.0, gap=0.3):
        text = PROGRAM.replace("WORK", work.replace("\n", "\n        ")).replace("PATIENCE", str(patience))
        process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, preexec_fn=heed_interrupts)
        started.append(process)
        said = os.read(process.stdout.fileno(), 6).decode()
        for number in signals:
            time.sleep(gap)
            process.send_signal(number)
        rest, _ = process.communicate(timeout=30)
        return said + rest.decode(), process.returncode

    yield run
    for process in started:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_raised_at_a_safe_place_alone(program, number):
    work = "while not interruptions.requested: pass\nos.write(1, b'whole;')\ninterruptions.check()\nos.write(1, b'no')"
    assert program(work, number) == ("ready;whole;in order;", 7)


def test_work_that_may_be_cut_off_is(program):
    work = "with interruptions.interruptible():\n    time.sleep(60)\nos.write(1, b'no')"
    assert program(work, signal.SIGINT) == ("ready;in order;", 7)


def test_the_second_ends_at_once_whatever_hangs(program):
    assert program("hang()", signal.SIGINT, signal.SIGINT) == ("ready;at once;", INTERRUPTED)
    assert program("signal.pthread_sigmask", signal.SIGINT)[0] == "ready;"  # which ended by itself


def test_an_end_in_order_that_does_not_come_is_one_at_once(program):
    assert program("hang()", signal.SIGTERM, patience=0.3) == ("ready;at once;", INTERRUPTED)


def test_what_was_forked_off_does_not_count(program):
    work = (
        "child = os.fork()\nif child == 0:\n    time.sleep(60)\n"
        "time.sleep(0.3)\nos.kill(child, signal.SIGINT)\nos.waitpid(child, 0)\ntime.sleep(0.3)\n"
        "os.write(1, b'quiet;' if not interruptions.requested else b'heard;')\n"
        "while True:\n    time.sleep(0.01)\n    interruptions.check()"
    )
    assert program(work, signal.SIGINT, gap=1.5) == ("ready;quiet;in order;", 7)


def test_handlers_are_given_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruptions() as interruptions:
        assert signal.getsignal(signal.SIGINT) != before[0]
        interruptions.check()
        with interruptions.interruptible():
            pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
