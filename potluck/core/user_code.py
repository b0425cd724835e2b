"""Where in a user's own code something went wrong: the file and the line, for an error that is told in a sentence."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""Potluck itself."""


def error_in_user_code(error: BaseException) -> str | None:
    """An error with the place in the user's code that it comes from: the innermost one. None if it has none."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename):
        return f"{shown(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            inside = "" if frame.name == "<module>" else f", in {frame.name}"
            return f"{shown(frame.filename)}, line {frame.lineno}{inside}: {said}"
    return None


def shown(file: str) -> str:
    """A file's path as a reader in the working directory would write it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _is_users(file: str) -> bool:
    """Whether a file is neither Potluck's, nor Python's, nor of an installed package."""
    path = Path(file)
    if not path.is_file():
        return False  # as "<string>" and "<frozen runpy>"
    python = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = {PACKAGE, *python, *(Path(entry) for entry in sys.path if entry.endswith("-packages"))}
    scripts = Path(sysconfig.get_path("scripts"))
    return not any(path.is_relative_to(other) for other in others) and path.parent != scripts
