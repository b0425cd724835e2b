"""Every table and figure with results in the five papers: what it shows, and how it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).parent / "rows.toml"

Verdict = Literal["came back", "in part", "did not", "not tried"]
"""Of what the item says, put to the results: all holds, some, nothing, or there are no results."""

ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6}


class PaperVerdict(BaseModel):
    """One table or figure, and how it stands.

    Args:
        paper: the paper's method.
        item: which table or figure.
        shows: what it shows.
        verdict: whether it came back.
        scale: how it was played, or what that takes.
        seeds: under how many seeds, as it is printed.
        missing: why it cannot be played; by default it can.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    item: str
    shows: str
    verdict: Verdict
    scale: str
    seeds: str
    missing: str = ""

    @property
    def title(self) -> str:
        """As one would say it."""
        return f"{self.paper}, {self.item}"

    @property
    def name(self) -> str:
        """As a command says it, with figures for Roman numerals: "draftfed-table-2"."""
        return name_of(f"{self.paper} {self.item}")


def name_of(title: str) -> str:
    """A table's or figure's name, however it is spelt: "DraftFed, Table II" is "draftfed-table-2"."""
    words = re.split(r"[\s,_-]+", title.lower())
    return "-".join(str(ROMAN.get(word, word)) for word in words)


@cache
def read_rows(file: Path = FILE) -> Mapping[str, PaperVerdict]:
    """Name → table or figure, paper by paper."""
    listed = (PaperVerdict(**row) for row in tomllib.loads(file.read_text(encoding="utf-8"))["row"])
    return {row.name: row for row in listed}
