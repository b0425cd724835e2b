"""An error in somebody's own code is told with its file and line; one elsewhere is not taken for theirs."""

from __future__ import annotations

import json
import runpy

import pytest

from potluck.core.payload import Payload
from potluck.core.user_code import error_in_user_code


def error_of(tmp_path, text):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        runpy.run_path(str(tmp_path / "mine.py"))["load"]()
    return raised.value


@pytest.fixture(autouse=True)
def _there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_innermost_line_of_ones_own_is_told(tmp_path):
    error = error_of(tmp_path, "import json\ndef load():\n    return inner()\ndef inner():\n    json.loads('{')\n")
    assert error_in_user_code(error).startswith("mine.py, line 5, in inner: JSONDecodeError: Expecting")


def test_a_syntax_error_has_its_line(tmp_path):
    assert error_in_user_code(error_of(tmp_path, "x = 1\ndef f(:\n")) == "mine.py, line 2: SyntaxError: invalid syntax"


def test_an_error_without_words_has_its_kind(tmp_path):
    assert error_in_user_code(error_of(tmp_path, "def load():\n    assert False\n")) == (
        "mine.py, line 2, in load: AssertionError"
    )


def test_a_file_elsewhere_is_told_in_full(tmp_path, monkeypatch):
    error = error_of(tmp_path, "raise OSError('gone')\n")
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert error_in_user_code(error) == f"{tmp_path}/mine.py, line 1: OSError: gone"


def raised_by(action):
    try:
        action()
    except Exception as error:
        trace = error.__traceback__
        while trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return error.with_traceback(trace)


@pytest.mark.parametrize("action", [lambda: json.loads("{"), lambda: Payload.from_bytes(b"x")])
def test_what_fails_in_python_or_in_potluck_is_nobody_elses(action):
    assert error_in_user_code(raised_by(action)) is None
