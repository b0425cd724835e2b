"""``potluck check``: which methods fit, why the others do not, and how much would travel."""

from __future__ import annotations

import re

from potluck.methods import METHODS
from potluck.recipes import read
from tests.cli.commands import potluck
from tests.recipes.files import MODULE, NETS, SMALL, write


def traffic(said):
    """The table of a check: a method's numbers by its name."""
    shown = said.split("What does not fit")[0].split("The exchanges of")[0]
    lines = [line.split("  ") for line in shown.splitlines()[4:] if line.startswith("  ")]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {cell[0]: cell[1:] for cell in cells if cell}


def test_every_method_fits_or_is_told_why_not(here):
    said = potluck("check", write(here)).stdout
    assert {"CoFED*", "Local"} <= set(traffic(said))
    assert traffic(said)["Local"] == ["0 B", "0 B", "0 B", "0 B"]
    why = said.split("What does not fit")[1]
    for name in METHODS:
        assert (re.search(rf"\b{name}\b", why) is None) == bool({name, f"{name}*"} & set(traffic(said)))
    assert " - it looks into models, and these are no torch modules: tree\n" in why
    assert "* the method of the run file" in said
    assert max(len(line) for line in said.splitlines()) <= 80


def test_least_comes_first(here):
    names = list(traffic(potluck("check", write(here)).stdout))
    assert set(names[:2]) == {"Describe", "Local"}
    assert names.index("FedDistill") < names.index("FD")


def test_a_reason_is_told_once_for_all_whom_it_concerns(here):
    said = " ".join(potluck("check", write(here, NETS)).stdout.split())
    assert said.count("has no convolution") == 1
    assert "net1, net2, net3: Sequential has no convolution" in said
    assert said.count("it needs public data") == 1


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
    assert {"CoFED", "Local"} <= set(traffic(said))


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


def exchanges(said):
    """The rows of the table of exchanges."""
    shown = said.split("The exchanges of")[1].split("Counted in")[0]
    lines = [line.split() for line in shown.splitlines()]
    return [cells for cells in lines if len(cells) > 1 and cells[0] != "exchange"]


def test_each_exchange_of_the_files_own_method_is_shown(here):
    said = potluck("check", write(here, NETS)).stdout
    greet, start, weights = exchanges(said)
    assert [greet[:2], start[:2]] == [["greet", "joining"], ["start", "joining"]]
    assert weights[:3] == ["weights", "a", "round"]
    assert " ".join(weights[3:5]) == traffic(said)["FedAvg*"][0]


CODED = """
[channel]
up = [{ name = "cast", dtype = "float16" }]
[channel.exchanges.weights]
down = [{ name = "topk", share = 0.1 }]
"""


def test_what_codecs_save_is_shown(here):
    wide = NETS.replace("[8]", "[64]")
    plain = traffic(potluck("check", write(here, wide)).stdout)["FedAvg*"]
    said = potluck("check", write(here, wide + CODED)).stdout
    weights = exchanges(said)[-1]
    before_up, up, before_down, down = (" ".join(weights[i : i + 2]) for i in (3, 5, 7, 9))
    assert [before_up, before_down] == plain[:2]
    assert [up, down] == traffic(said)["FedAvg*"][:2]
    assert len({up, down, before_up}) == 3
    assert "Local" in traffic(said), "the codecs of an exchange that it does not have are left out"


def test_a_wrong_codec_is_told_with_its_line(here):
    wrong = NETS + '[channel]\nup = [{ name = "topc", share = 0.1 }]\n[channel.exchanges.weight]\nup = []\n'
    said = potluck("check", write(here, wrong), fails=2).stderr
    assert "channel.up.0" in said
    assert "There is no codec 'topc'. Did you mean 'TopK'?" in " ".join(said.split())
    right = wrong.replace("topc", "topk")
    said = " ".join(potluck("check", write(here, right), fails=2).stderr.split())
    assert "channel.exchanges.weight: FedAvg has no exchange 'weight'. Did you mean 'weights'?" in said
