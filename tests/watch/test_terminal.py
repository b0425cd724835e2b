"""What is shown in a terminal; nothing that a name holds is obeyed by it."""

from __future__ import annotations

from rich.console import Console

from potluck.watch.comparison_view import Candidate, ComparisonView
from potluck.watch.history_tail import Drop
from potluck.watch.run_view import Person, RunView
from potluck.watch.terminal import LISTED, follow, rendered

PLAYING = RunView(
    "runs/x", title="FD, seed 3", state="playing", round=2, rounds=10, metric="accuracy", share=True,
    points=[(1, 0.5), (2, 0.75)], score=0.75, worst=0.5, sent=3000, received=100, seconds=61.0, left=125.0,
    phase="round", since=4.0, doing={"working": 20, "waiting": 1, "done": 2}, working=[f"p{n}" for n in range(20)],
    out={"evil\x1b[2J": "late"}, dropped=3, drops=[Drop(1, "q", "it was [red]away")],
    people=[Person(f"p{n}", 0.5, 1, 1, "working") for n in range(LISTED + 2)], news=["a line"],
)  # fmt: skip


def shown(view, width=120):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(rendered(view))
    return capture.get()


def test_a_run_that_is_played():
    text = shown(PLAYING)
    for told in (
        "FD, seed 3  runs/x  playing", "round 2 of 10, 2 min 05 s left", "▁█  75.00%  worst 50.00%",
        "sent 3.0 kB, received 100 B; worked 1 min 01 s", "round 3 for 4 s; at work: p0, p1,", "and 8 more",
        "waiting: 1; done: 2", "dropped out so far: 3 times", "round 1: q, it was [red]away", "and 2 more",
    ):  # fmt: skip
        assert told in text
    assert "\x1b" not in text
    assert len(max(shown(PLAYING, width=60).splitlines(), key=len)) <= 60


def test_a_run_that_joins_and_one_of_which_nothing_is_known():
    joining = RunView("runs/x", state="playing", phase="join", doing={"working": 1}, working=["a"], rounds=3)
    assert "joining for 0 s; at work: a" in shown(joining)
    assert "A run  runs/x  waiting" in shown(RunView("runs/x", news=["waiting for hospital"]))
    assert "waiting for hospital" in shown(RunView("runs/x", news=["waiting for hospital"]))


def test_why_a_run_is_over():
    failed = RunView("runs/x", state="failed", why="OSError: disk full")
    assert "failed: OSError: disk full" in shown(failed)
    assert "left" not in shown(failed)


def test_a_comparison():
    candidates = [
        Candidate("FD", 3, 2, [(2, 1, 10)], [], 0.8, 0.1), Candidate("MHAT", 3, 0, [], [(0, "it broke"), (1, "too")]),
    ]  # fmt: skip
    view = ComparisonView(
        "runs/c", "FD, MHAT", "playing", "", "accuracy", True, False, candidates, 21, 60, 30.0, [PLAYING]
    )
    text = shown(view)
    for told in (
        "Comparison of FD, MHAT  runs/c  playing", "rounds of all runs 21 of 60, 30 s left", "80.00% ± 10.00%",
        "2 of 3", "seed 2: 1 of 10", "MHAT, seed 0: it broke (and 1 more)", "FD, seed 3  ▁█  75.00%",
    ):  # fmt: skip
        assert told in text


def test_a_comparison_whose_settings_are_searched():
    view = ComparisonView("runs/c", "FD", "playing", candidates=[Candidate("FD", tried=(3, 20))])
    assert "3 of 20 settings tried" in shown(view)


def test_it_is_followed_until_it_is_over():
    views = [PLAYING, PLAYING, RunView("runs/x", state="ended", round=10, rounds=10)]
    seen = iter(views)
    console = Console(width=100, force_terminal=True)
    with console.capture() as capture:
        assert follow(lambda: next(seen), console, 0.001) is views[-1]
    assert "round 10 of 10" in capture.get()
    assert next(seen, None) is None
