"""The pages of the evidence: docs/evidence.md and one for each paper, with their tables and the numbers of their prose.

Tables stand between marks, ``<!-- table NAME -->`` and ``<!-- end -->``. Numbers in prose are claims: the sentence is
in evidence/claims/ with what computes its numbers, so that the page itself is plain text.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from evidence.checks import VERDICTS
from evidence.claims import CLAIMS
from evidence.outcomes import Results
from evidence.result_files import RESULTS
from evidence.rows import told_anew
from evidence.tables import TABLES
from potluck.reproduction.rows import FILE

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {"evidence": DOCS / "evidence.md", **{path.stem: path for path in sorted((DOCS / "evidence").glob("*.md"))}}
MOST_WORDS = 1500
"""Of prose on a page."""

MARKED = re.compile(r"(<!-- table (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.S)
NOT_PROSE = re.compile(r"<!-- table .*?<!-- end -->|^```.*?^```$|^    .*?$|`[^`\n]*`|\]\([^)]*\)", re.S | re.M)
NUMBER = re.compile(r"(?<![\w.,/-])[−+]?\d(?:[\d,.]*\d)?(?:e-\d+)?")
REFERENCE = re.compile(
    r"(?:Tables?|Figures?|eqs?\.|[Ss]ections?|[Ss]eeds?|Appendix) [\dIVX]\w*(?:[.-]\w+)*"
    r"(?:(?:, | and | to )\d\w*(?:[.-]\w+)*)*"
)


def prose(page: str) -> str:
    """A page's own words and the tables written by hand: no generated table, no code, no addresses."""
    return " ".join(NOT_PROSE.sub(" ", page).split())


def words(page: str) -> int:
    """How many words a reader reads: what stands in tables is looked up."""
    without = re.sub(r"^\|.*$", "", NOT_PROSE.sub(" ", page), flags=re.M)
    return len(re.findall(r"\w[\w.,'’%-]*", without))


def pattern(says: str) -> re.Pattern[str]:
    """Where a sentence stands, however its lines are broken; a group for each of its numbers or verdicts."""
    parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in says.split("{}")]
    return re.compile(rf"([\d.,+−…±()\s]+?|{'|'.join(VERDICTS)})".join(parts))


def place(says: str, page: str, name: str) -> re.Match[str]:
    """Where a sentence stands; it has to stand there, and once."""
    found = list(pattern(says).finditer(page))
    if len(found) != 1:
        raise LookupError(f"{name} says {len(found)} times, not once, {says!r}: mend the page or evidence/claims/")
    return found[0]


def filled(page: str, name: str, results: Results) -> str:
    """The page with every marked table, and every number that a claim computes, as the results make it."""
    page = MARKED.sub(lambda found: f"{found[1]}{TABLES[found['name']](results)}\n{found[3]}", page)
    for claim in CLAIMS[name].numbers:
        found = place(claim.says, page, name)
        for group, value in reversed(list(enumerate(claim.values, start=1))):
            text, (start, end) = value(results), found.span(group)
            if " ".join(found[group].split()) != text:  # else a line may break in it
                page = page[:start] + text + page[end:]
    return page


def unaccounted(page: str, name: str) -> Iterator[str]:
    """Numbers in prose that no claim computes and that are not listed as given: a setting, or published."""
    text = prose(page)
    for claim in CLAIMS[name].numbers:
        text = pattern(claim.says).sub(" ", text, count=1)
    given = set(CLAIMS[name].given.split())
    for number in NUMBER.findall(REFERENCE.sub(" ", text)):
        if number not in given:
            yield number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.pages", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    results = Results(chosen.results)
    for name, path in PAGES.items():
        path.write_text(filled(path.read_text(), name, results))
    FILE.write_text(told_anew(FILE.read_text(), results))


if __name__ == "__main__":
    main()
