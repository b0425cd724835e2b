"""What those who run a federation wish reaches it."""

from __future__ import annotations

import pytest

from potluck.flower.control import WISHES, Control


@pytest.mark.parametrize("wish", WISHES)
def test_the_run_hears_the_last_wish(wish, tmp_path):
    run, command = Control(tmp_path / "control"), Control(tmp_path / "control")
    command.ask("pause")
    command.ask(wish)
    assert run.wish() == wish
    run.clear()
    assert run.wish() == "go"
    assert list(tmp_path.iterdir()) == []


def test_without_a_wish_it_goes_on(tmp_path):
    (tmp_path / "control").write_text("dance")
    assert Control(tmp_path / "control").wish() == "go"
