"""The page of methods is what the code says, and says something of every method."""

from __future__ import annotations

import re

from potluck.federation.method_facts import facts_of
from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, GUIDE
from tools import methods_page


def rows(heading: str) -> dict[str, list[str]]:
    """A table's cells by method."""
    section = methods_page.text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| \[(.*?)\]\(.*?\) \| (.*) \|$", section, re.M)
    return {name: cells.split(" | ") for name, cells in found}


def test_the_page_is_up_to_date():
    assert methods_page.PAGE.read_text(encoding="utf-8") == methods_page.text(), "run: make methods"


def test_it_has_a_section_and_two_rows_for_every_method():
    text, names = methods_page.text(), {methods_page._name(facts_of(METHODS[name])) for name in ADVICE}
    assert set(re.findall(r"^### (.*)$", text, re.M)) == names
    assert set(rows("What they need")) == set(rows("What they cost")) == names
    assert "47 methods" in text
    assert all(len(line) <= methods_page.WIDTH for line in text.splitlines() if not line.startswith("|"))


def test_needs_are_told_with_the_settings_that_spare_them():
    fedavg, fd, fedmd = (rows("What they need")[name] for name in ("FedAvg", "FD", "FedMD"))
    columns = list(methods_page.NEEDED)
    assert fedavg[columns.index("torch modules")] == "✓"
    note = re.search(r"<sup>(\d+)</sup>", fedavg[columns.index("one architecture")])
    assert note is not None
    assert f'{note[1]}. Not with `aggregation = "layerwise"`' in methods_page.text()
    assert fd[columns.index("torch modules")] == ""
    assert fd[columns.index("public data")] == "✓"
    assert "`pretrain = false`" in methods_page.text()
    assert fedmd[columns.index("labels")].startswith("✓<sup>")


def test_kinds_are_links_that_lead_somewhere():
    text = methods_page.text()
    anchors = {methods_page._anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#(.*?)\)", text)) <= anchors
    assert all(f"- [{kind}]" in text for kind in GUIDE)


def test_what_is_measured_is_kept_with_what_is_known(tmp_path, monkeypatch):
    kept = tmp_path / "costs.json"
    kept.write_text(methods_page.COSTS.read_text())
    monkeypatch.setattr(methods_page, "measure", lambda name: methods_page.costs()["FedAvg"])
    methods_page.keep(["Local"], kept)
    assert kept.read_text().count('"family"') == 47
    assert '"Local": {"family": "alike"' in kept.read_text()
