"""How many files a round over Flower passes at the server and at a participant; they stand in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from potluck.methods import FedAvg, FedIN
from tests.flower.fakes import over_flower
from tests.passed_files import PassedFiles

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


def passed_in_a_round(method, folder):
    """The files of the second round, by side: in the first one everybody joins."""
    passed = PassedFiles("server")

    class Watched:
        """A client that is on the participant's side while it answers."""

        def __init__(self, client):
            self.client = client

        def answer(self, message):
            passed.side = "participant"
            try:
                return self.client.answer(message)
            finally:
                passed.side = "server"

    def after(federation, rows):
        passed.start() if federation.history.rounds == 1 else passed.stop()

    federation, grid = over_flower(method, folder)
    grid.clients = {node: Watched(client) for node, client in grid.clients.items()}
    try:
        federation.run(2, callbacks=[after])
    finally:
        passed.stop()
    return passed.files


@pytest.mark.parametrize(
    ("method", "server", "participant"), [(FedIN(pairs=6), 13, 15), (FedAvg(), 13, 16)], ids=["FedIN", "FedAvg"]
)
def test_a_round_passes_few_files(method, server, participant, tmp_path):
    files = passed_in_a_round(method, tmp_path)
    assert len(files["server"]) <= server, files["server"]
    assert len(files["participant"]) <= participant, files["participant"]


@pytest.mark.parametrize("side", ["server", "participant"])
def test_the_documentation_lists_the_files_in_their_order(side, tmp_path):
    section = PAGE.read_text().partition("## A round over Flower")[2].partition("\n## ")[0]
    part = section.partition(f"### At the {side}")[2].partition("\n### ")[0]
    listed = re.findall(r"^\d+\. `([\w/]+\.py)`", part, re.MULTILINE)
    assert listed == passed_in_a_round(FedIN(pairs=6), tmp_path)[side]
