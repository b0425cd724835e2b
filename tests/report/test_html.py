"""The page holds what it was given, escaped."""

from __future__ import annotations

from potluck.report import html as page


def test_everything_is_escaped():
    bad = '<script>"&'
    safe = "&lt;script&gt;&quot;&amp;"
    for made in (page.section(bad), page.paragraph(bad), page.code(bad)):
        assert safe in made
        assert bad not in made
    assert f"<title>{safe}</title>" in page.page(bad, [])


def test_what_would_turn_a_line_round_or_hide_in_it_is_shown_by_its_number():
    made = page.paragraph("abc\u202edef\u200b\x1b[2J")
    assert made == "<p>abc\\u202edef\\u200b\\x1b[2J</p>"


def test_a_picture_is_put_inside(tmp_path):
    (tmp_path / "a.png").write_bytes(b"png")
    assert page.image(tmp_path / "a.png", 'say "a"') == (
        '<img src="data:image/png;base64,cG5n" alt="say &quot;a&quot;">'
    )


def test_blocks_keep_their_order():
    text = page.page("title", [page.paragraph("first"), page.paragraph("second")])
    assert text.startswith("<!doctype html>")
    assert text.index("first") < text.index("second")
