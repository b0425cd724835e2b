"""Which version of Potluck, and which commit of its source, a result was made with."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__)


@cache
def version_of_potluck() -> str:
    """The version that is installed; "0" where it is not."""
    try:
        return version("potluck-fl")
    except PackageNotFoundError:
        return "0"


@cache
def commit() -> str | None:
    """The commit of Potluck's source, with a + where it was changed since; None where it is installed without git."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(HERE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", HERE.name)  # an environment may lie inside of somebody else's repository
        return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "--untracked-files=no", "--", ".."))
    except (OSError, subprocess.SubprocessError):
        return None
