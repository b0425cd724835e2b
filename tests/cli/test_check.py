"""``potluck check``: which methods fit, why the others do not, and how much would travel."""

from __future__ import annotations

from potluck.methods import METHODS
from potluck.recipes import read
from tests.cli.commands import potluck
from tests.recipes.files import MODULE, NETS, SMALL, write


def traffic(said):
    """The table of a check: a method's numbers by its name."""
    lines = [line.split("  ") for line in said.split("What does not fit")[0].splitlines()[4:] if line.startswith("  ")]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {cell[0]: cell[1:] for cell in cells if cell}


def test_every_method_fits_or_is_told_why_not(here):
    said = potluck("check", write(here)).stdout
    assert set(traffic(said)) == {"CoFED*", "Local"}
    assert traffic(said)["Local"] == ["0 B", "0 B", "0 B", "0 B"]
    why = said.split("What does not fit")[1]
    for name in METHODS:
        assert (name in why) == (name not in ("CoFED", "Local"))
    assert " - it looks into models, and these are no torch modules: tree\n" in why
    assert "* the method of the run file" in said
    assert max(len(line) for line in said.splitlines()) <= 80


def test_what_would_travel_is_what_travels(here):
    said = potluck("check", write(here, NETS)).stdout
    history = read(here / "small.toml").federation().run(2)
    up, down = (sum(row[key] for row in history.at(2).rows) for key in ("bytes_up", "bytes_down"))
    assert traffic(said)["FedAvg*"][:2] == [f"{up / 1000:.1f} kB", f"{down / 1000:.1f} kB"]
    first = sum(row["bytes_up"] for row in history.at(1).rows) - up
    assert traffic(said)["FedAvg*"][2] == (f"{first} B" if first < 1000 else f"{first / 1000:.1f} kB")


def test_nothing_is_kept_and_nothing_said_while_it_works(here):
    result = potluck("check", write(here))
    assert result.stderr == ""
    assert [path.name for path in here.iterdir()] == ["small.toml"]


def test_the_files_own_method_does_not_fit(here):
    said = potluck("check", write(here), "--set", "method=FedAvg", fails=1).stdout
    assert "FedAvg*" in said.split("What does not fit")[1]
    assert set(traffic(said)) == {"CoFED", "Local"}


def test_reasons_are_in_the_words_of_a_run_file(here):
    said = potluck("check", write(here, NETS)).stdout
    assert "it needs public data, and there is none; add `public`" in said
    assert "public=" not in said


def test_a_method_of_ones_own(here):
    (here / "mine_check.py").write_text(MODULE)
    said = potluck("check", write(here), "--set", "method=mine_check:Alone", "--set", "method.often=2").stdout
    assert "mine_check:Alone*" in traffic(said)
    assert "CoFED" in traffic(said)


def test_who_would_be_refused_is_told(here):
    (here / "mine_refused.py").write_text(
        "import potluck\n"
        "class Strict(potluck.Method):\n"
        "    def round(self, me):\n"
        "        yield potluck.Exchange('tell', potluck.Payload(facts={'name': me.name}))\n"
        "    @potluck.exchange(lambda self, server, sender: potluck.Schema(facts={'age': int}))\n"
        "    def tell(self, server, answers):\n"
        "        return {name: potluck.Payload() for name, _ in answers}\n"
    )
    result = potluck("check", write(here, SMALL), "--set", "method=mine_refused:Strict", fails=1)
    assert "tree would be refused: tell: " in " ".join(result.stdout.split())
