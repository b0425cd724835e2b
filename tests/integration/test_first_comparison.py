"""``docs/first-comparison.md`` works as it stands: its table, its run file, its commands, the files that it names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from potluck.report.significance import seeds_needed
from tests.cli.commands import potluck
from tests.recipes.files import here

__all__ = ["here"]

PAGE = (Path(__file__).parents[2] / "docs" / "first-comparison.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^    potluck (.*)$", PAGE, re.M)]


def block(language):
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    return text


def test_its_commands_are_the_three():
    assert [command[0] for command in COMMANDS] == ["check", "compare", "report"]


@pytest.mark.slow
def test_from_the_table_to_the_figures(here):
    """With two seeds of two rounds; with eight of ten it takes about a minute."""
    exec(block("python"), {})
    (here / "federation.toml").write_text(block("toml"))
    check, compare, report = COMMANDS
    methods = compare[1 : compare.index("--federation")]
    shown = potluck(*check).stdout
    assert all(re.search(rf"^  {method}\*? ", shown, re.M) for method in methods)
    changed = [{"8": "2"}.get(word, word) for word in compare] + ["--rounds", "2"]
    assert "With 2 seeds nothing can be said" in potluck(*changed).stdout
    potluck(*report)
    files = {path.name for path in (here / "figures").iterdir()}
    named = set(re.findall(r"`([\w-]+\.(?:pdf|tex))`", PAGE))
    assert len(named) > 6
    assert named <= files
    assert (here / "figures/ranks.pdf").read_bytes().startswith(b"%PDF")


def test_the_seeds_are_as_many_as_its_methods_need():
    compare = COMMANDS[1]
    entries = len(compare[1 : compare.index("--federation")]) + 1
    assert int(compare[compare.index("--seeds") + 1]) == seeds_needed(entries * (entries - 1) // 2)
