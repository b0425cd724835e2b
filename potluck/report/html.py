"""A small self-contained page: no scripts, no other files, nothing from the network."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape as without_tags
from pathlib import Path

from potluck.core.harmless import harmless
from potluck.report.tables import Cells, Table

STYLE = """
body { margin: 0 auto; max-width: 58rem; padding: 2.5rem 1.25rem 4rem; background: #fbfaf7; color: #22303a;
       font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
img { display: block; width: 100%; margin: 1.5rem 0; border-radius: .75rem; box-shadow: 0 1px 4px #22303a22; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4dfd5; }
th { color: #6c7780; font-weight: 600; }
.text { text-align: left; white-space: normal; }
td.even { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .8rem; white-space: nowrap; }
.strong { color: #b8452a; font-weight: 700; }
tfoot td { font-weight: 700; border-bottom: 0; border-top: 2px solid #22303a; }
pre { background: #f1ede4; border-radius: .5rem; padding: .9rem 1.1rem; overflow-x: auto; font-size: .8rem; }
""".strip()


def escape(text: str) -> str:
    """A text that a page shows as it is, whatever it holds."""
    return without_tags(harmless(text))


def page(title: str, blocks: Iterable[str]) -> str:
    """A whole HTML page from blocks that the functions below make."""
    body = "\n".join(blocks)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLE}
</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def section(title: str) -> str:
    return f"<h2>{escape(title)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    return f"<pre><code>{escape(text.strip())}</code></pre>"


def image(png: Path, alt: str) -> str:
    """A PNG file, put inside the page."""
    data = base64.b64encode(png.read_bytes()).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}">'


def table(content: Table) -> str:
    def cell(tag: str, number: int, text: str) -> str:
        looks = {"text": number < content.texts, "even": number == content.even, "strong": number == content.strong}
        names = " ".join(name for name, applies in looks.items() if applies)
        return f'<{tag} class="{names}">{escape(text)}</{tag}>' if names else f"<{tag}>{escape(text)}</{tag}>"

    def row(tag: str, cells: Cells) -> str:
        return f"<tr>{''.join(cell(tag, number, text) for number, text in enumerate(cells))}</tr>"

    rows = "\n".join(row("td", cells) for cells in content.rows)
    foot = "" if content.total is None else f"\n<tfoot>{row('td', content.total)}</tfoot>"
    return (
        f'<div class="wide"><table>\n<thead>{row("th", content.headings)}</thead>\n'
        f"<tbody>\n{rows}\n</tbody>{foot}\n</table></div>"
    )
