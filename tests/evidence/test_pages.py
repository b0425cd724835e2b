"""The pages hold what the results make: tables, numbers in prose, sentences in words. Every run is shown."""

import re
from collections import defaultdict

import pytest

from evidence import pages
from evidence.claims import CLAIMS
from evidence.claims.kinds import Claims, claim
from evidence.figures import FIGURES
from evidence.outcomes import Results
from evidence.pages import MARKED, MOST_WORDS, PAGES, filled, place, unaccounted, words
from evidence.result_files import RESULTS
from evidence.run_all import PLANNED
from evidence.tables import TABLES


@pytest.fixture(scope="module")
def results():
    return Results(RESULTS)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_what_the_results_make(name, results):
    page = PAGES[name].read_text()
    assert filled(page, name, results) == page, "run: python -m evidence.pages"


@pytest.mark.parametrize("name", PAGES)
def test_every_number_is_computed_or_given(name):
    assert not list(unaccounted(PAGES[name].read_text(), name)), "add a claim, or list it as given in evidence/claims/"


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_given_that_the_page_does_not_say(name, monkeypatch):
    given = CLAIMS[name].given.split()
    monkeypatch.setitem(CLAIMS, name, Claims(CLAIMS[name].numbers, [], ""))
    assert set(given) == set(unaccounted(PAGES[name].read_text(), name))


@pytest.mark.parametrize(("name", "says", "holds"), [(name, *one) for name in CLAIMS for one in CLAIMS[name].words])
def test_a_sentence_in_words_is_so(name, says, holds, results):
    place(says, PAGES[name].read_text(), name)
    assert holds(results)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_read_in_minutes(name):
    assert words(PAGES[name].read_text()) <= (MOST_WORDS if name != "evidence" else MOST_WORDS / 3)


def test_the_pages_show_every_table_and_every_figure_once():
    text = "\n".join(path.read_text() for path in PAGES.values())
    assert sorted(found["name"] for found in MARKED.finditer(text)) == sorted(TABLES)
    images = re.findall(r"\]\(\.\./images/evidence-([\w-]+)\.png\)", text)
    assert sorted(images) == sorted(FIGURES)
    assert all((pages.DOCS / "images" / f"evidence-{name}.png").exists() for name in images)


def test_the_overview_leads_to_every_page():
    linked = re.findall(r"^\| \[\w+\]\(evidence/(\w+)\.md\)", PAGES["evidence"].read_text(), re.M)
    assert sorted(linked) == sorted(set(PAGES) - {"evidence"})


def test_every_run_is_shown(results):
    """Without its file some table or claim would be another, or could not be made."""
    made = {f"table {name}": make for name, make in TABLES.items()}
    made |= {
        f"{page}: {one.says} {i}": value
        for page, claims in CLAIMS.items()
        for one in claims.numbers
        for i, value in enumerate(one.values)
    }
    texts, readers = {}, defaultdict(list)
    for name, make in made.items():
        results.read_so_far.clear()
        texts[name] = make(results)
        for file in results.read_so_far:
            readers[file].append(name)

    def tells(name, file):
        try:
            return made[name](results.without(file)) != texts[name]
        except (KeyError, ValueError, IndexError):
            return True

    assert not [file for file in results.files if not any(tells(name, file) for name in readers[file])]


def begun(command):
    """The prefixes that a command plays: the shell's braces are written out."""
    for word in re.search(r"--only ([^`\n]*?)(?: --|`|$)", command, re.M)[1].split():
        if found := re.fullmatch(r"(.*)\{(.*)\}(.*)", word):
            yield from (f"{found[1]}{middle}{found[3]}" for middle in found[2].split(","))
        else:
            yield word


def test_every_command_plays_something():
    text = "\n".join(MARKED.sub("", path.read_text()) for path in PAGES.values())
    commands = re.findall(r"^.*run_all --data DATA.*--only.*$", text, re.M)
    commands += re.findall(r"`--only [^`]*`", text)
    prefixes = [prefix for command in commands for prefix in begun(command)]
    assert len(prefixes) > 20
    assert not [prefix for prefix in prefixes if not any(job.name.startswith(prefix) for job in PLANNED)]


class TestFilling:
    @pytest.fixture(autouse=True)
    def _claims(self, monkeypatch):
        claims = Claims([claim("gains {} points of {} in", lambda results: "+1.0", lambda results: "7")], [], "20 1e-4")
        monkeypatch.setitem(CLAIMS, "toy", claims)

    def test_numbers_change_and_words_stay(self):
        page = "It gains 3 points\nof −2.5 in 20 rounds."
        assert filled(page, "toy", None) == "It gains +1.0 points\nof 7 in 20 rounds."

    def test_a_number_that_is_right_may_be_broken_over_lines(self):
        page = "It gains\n+1.0\npoints of 7 in rounds."
        assert filled(page, "toy", None) == page

    @pytest.mark.parametrize("page", ["It loses 3 points.", 2 * "It gains 3 points of 2 in rounds. "])
    def test_a_claim_stands_once(self, page):
        with pytest.raises(LookupError, match="toy says"):
            filled(page, "toy", None)

    def test_numbers_that_nobody_computes_are_found(self):
        page = "gains 3 points of 2 in 20 rounds at 1e-4: 55.5% of Table 2b, eq. 12, ResNet18, `7`\n\n    8 lines\n\n9."
        assert list(unaccounted(page, "toy")) == ["55.5", "9"]

    @pytest.mark.parametrize("says", ["{} points", "gains {}", "gains points"])
    def test_a_claim_needs_words_around_its_numbers(self, says):
        with pytest.raises(ValueError, match="with words before"):
            claim(says, lambda results: "1")


def test_what_is_looked_up_is_not_prose():
    page = (
        "# Two words\n\n| a | table |\n\n    code here\n\n<!-- table x -->\n| b |\n<!-- end -->\n\n[Three](far.md) `a`."
    )
    assert words(page) == 3
