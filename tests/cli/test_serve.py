"""`potluck serve`: what it refuses. Federations are in tests/integration/flower."""

from __future__ import annotations

import pytest

from tests.cli.commands import potluck

pytestmark = pytest.mark.usefixtures("here")


def test_serve_does_not_overwrite_a_run(tmp_path):
    (tmp_path / "server.toml").write_text('rounds = 1\nmethod = "Local"\n[[participants]]\nname = "a"\n')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text("{}")
    said = potluck("serve", "server.toml", "--out", "run", fails=2).output
    assert "already holds a run. Go on with --resume" in said


def test_a_file_that_is_not_there_is_an_error():
    assert "There is no file" in potluck("serve", "nowhere.toml", fails=2).output
    assert "There is no file" in potluck("join", "nowhere.toml", "--server", "x:1", fails=2).output
