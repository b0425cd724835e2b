"""Feeds what is read from others with bytes that reach new code, as atheris finds them: ``make fuzz-guided``.

    python -m tools.fuzz_guided --seconds 120 payload head run-file

Each target has a process of its own, and begins with whole inputs. A crash, or something accepted that its schema does
not allow, ends it with the input that caused it. atheris is no dependency of Potluck's: the Makefile installs it.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

INSTRUMENTED = ["potluck.core", "potluck.flower.protocol", "potluck.recipes", "pydantic"]
"""Whose branches are followed."""
Target = Callable[[bytes], None]


def targets(folder: Path) -> dict[str, tuple[Target, bytes]]:
    """What is fed, by name, each with a whole input.

    Args:
        folder: where run files are written.
    """
    from potluck.core.errors import PayloadError, SettingsError
    from tools import fuzz

    def checked(reader: Callable[[bytes], bool]) -> Target:
        def feed(data: bytes) -> None:
            try:
                lawful = reader(data)
            except (PayloadError, SettingsError):
                return
            if not lawful:
                raise AssertionError("something was accepted that its schema does not allow")

        return feed

    readers: dict[str, Callable[[bytes], bool]] = {
        "payload": fuzz.payload,
        "head": fuzz.head,
        "run-file": lambda data: fuzz.run_file(data, folder / "run.toml"),
    }
    return {name: (checked(reader), whole) for (name, reader), whole in zip(readers.items(), fuzz.whole(), strict=True)}


def fuzz_one(name: str, seconds: int) -> None:
    """Feeds one target until the time is over; does not return."""
    atheris: Any = importlib.import_module("atheris")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (corpus := folder / "corpus").mkdir()
        with atheris.instrument_imports(include=INSTRUMENTED):
            feed, whole = targets(folder)[name]
        (corpus / "whole").write_bytes(whole)
        options = [f"-max_total_time={seconds}", "-max_len=4096", "-rss_limit_mb=4096", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, str(corpus)], feed)
        atheris.Fuzz()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["payload", "head", "run-file"])
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--here", action="store_true", help="feed the one that is named in this process")
    given = parser.parse_args()
    if given.here:
        fuzz_one(given.names[0], given.seconds)
    failed = [name for name in given.names if _apart(name, given.seconds)]
    sys.exit(f"crashed: {', '.join(failed)}" if failed else 0)


def _apart(name: str, seconds: int) -> bool:
    """Feeds one target in a process of its own; whether it crashed."""
    print(f"{name}: {seconds} s", flush=True)
    command = [sys.executable, "-m", "tools.fuzz_guided", "--here", name, "--seconds", str(seconds)]
    return subprocess.run(command, check=False).returncode != 0


if __name__ == "__main__":
    main()
