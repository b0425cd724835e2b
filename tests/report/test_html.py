"""The page holds what it was given, escaped, and says what can be scrolled, read aloud and folded away."""

from __future__ import annotations

from potluck.report import html as page
from potluck.report.tables import Table


def test_everything_is_escaped():
    bad = '<script>"&'
    safe = "&lt;script&gt;&quot;&amp;"
    table = Table([bad, bad], [[bad, bad]])
    for made in (
        page.section(bad),
        page.paragraph(bad),
        page.paragraph(bad, lead=True),
        page.code(bad),
        page.details(bad, ""),
        page.table(table, bad),
        page.figure("<svg></svg>", bad, bad, table),
    ):
        assert safe in made
        assert bad not in made
    assert f"<title>{safe}</title>" in page.page(bad, [])


def test_blocks_keep_their_order_and_have_one_place():
    text = page.page("title", [page.paragraph("first"), page.paragraph("second")])
    assert text.startswith("<!doctype html>")
    assert text.index("<main>") < text.index("first") < text.index("second") < text.index("</main>")


def test_a_table_can_be_scrolled_by_keyboard_and_names_its_rows():
    made = page.table(Table(["who", "", "gain"], [["ann", "yes", "1"]], total=["mean", "", "1"], strong=2), "Gains")
    assert '<div class="wide" tabindex="0" role="region" aria-label="Gains">' in made
    assert '<th scope="col" class="text">who</th>' in made
    assert "<td></td>" in made  # a heading that says nothing is none
    assert '<th scope="row" class="text">ann</th><td>yes</td><td class="strong">1</td>' in made
    assert '<tfoot><tr><th scope="row" class="text">mean</th>' in made


def test_a_figure_is_read_aloud_as_its_title_and_caption_and_has_its_numbers():
    made = page.figure("<svg></svg>", "Gain", "By how much.", Table(["a"], [["1"]]))
    assert 'role="img" aria-label="Gain. By how much."' in made
    assert "<details><summary>The numbers</summary>" in made
    assert "<details>" not in page.figure("<svg></svg>", "Gain", "By how much.")


def test_the_page_asks_nothing_of_the_network_and_changes_in_the_dark():
    text = page.page("title", [])
    assert "http" not in text
    assert "<script" not in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_what_would_turn_a_line_round_or_hide_in_it_is_shown_by_its_number():
    made = page.paragraph("abc\u202edef\u200b\x1b[2J")
    assert made == "<p>abc\\u202edef\\u200b\\x1b[2J</p>"


def test_code_keeps_its_lines():
    assert page.code("a = 1\n  b\n") == "<pre><code>a = 1\n  b</code></pre>"
