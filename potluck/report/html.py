"""A self-contained page: no scripts, no other files, nothing from the network.

It reads well on a phone, in the dark, on paper, with a keyboard alone, and aloud.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape as without_tags

from potluck.core.harmless import harmless
from potluck.report.colours import DARK, LIGHT
from potluck.report.tables import Cells, Table


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def _recoloured() -> str:
    """What figures are drawn in, by the colours of the page: dark ones where the page is dark."""
    return " ".join(
        f'svg [{kind}="{LIGHT[name]}" i] {{ {kind}: var(--{name}); }}' for name in LIGHT for kind in ("fill", "stroke")
    )


STYLE = f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} {_recoloured()} }}
@media print {{ :root {{ {_variables(LIGHT)} }} {_recoloured()} details, .wide {{ overflow: visible; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink);
       font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: break-word; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }}
h2 {{ font-size: 1.15rem; margin: 2.5rem 0 .5rem; }}
p {{ margin: .5rem 0; max-width: 46rem; }}
.lead {{ font-size: 1.1rem; font-weight: 600; }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem 2rem; }}
figure {{ margin: 1rem 0; break-inside: avoid; min-width: 0; }}
figure svg {{ display: block; width: 100%; height: auto; max-width: 34rem; overflow: visible; }}
figcaption {{ color: var(--soft); font-size: .9rem; margin-top: .25rem; }}
figcaption b {{ color: var(--ink); }}
.wide {{ overflow-x: auto; }}
.wide:focus-visible, summary:focus-visible {{ outline: 3px solid var(--series-0); outline-offset: 2px; }}
table {{ border-collapse: collapse; width: 100%; font-size: .85rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .4rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }}
th {{ color: var(--soft); font-weight: 600; }}
tbody th {{ color: var(--ink); }}
.text {{ text-align: left; white-space: normal; }}
td.even {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .8rem; white-space: nowrap; }}
.strong {{ color: var(--good); font-weight: 700; }}
tfoot td, tfoot th {{ font-weight: 700; border-bottom: 0; border-top: 2px solid var(--ink); }}
pre {{ background: var(--shade); border-radius: .5rem; padding: .9rem 1.1rem; overflow-x: auto; font-size: .8rem;
      white-space: pre-wrap; overflow-wrap: anywhere; }}
details {{ margin: .25rem 0; font-size: .9rem; }}
summary {{ cursor: pointer; color: var(--soft); padding: .35rem 0; }}
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
<main>
<h1>{escape(title)}</h1>
{body}
</main>
</body>
</html>
"""


def section(title: str) -> str:
    """A heading."""
    return f"<h2>{escape(title)}</h2>"


def paragraph(text: str, *, lead: bool = False) -> str:
    """A paragraph; the ``lead`` is the page's answer."""
    return f'<p class="lead">{escape(text)}</p>' if lead else f"<p>{escape(text)}</p>"


def code(text: str) -> str:
    """Text as it is, in a font of fixed width."""
    return f"<pre><code>{escape(text.strip())}</code></pre>"


def details(summary: str, block: str) -> str:
    """A block that is folded away under a line."""
    return f"<details><summary>{escape(summary)}</summary>{block}</details>"


def figures(blocks: Iterable[str]) -> str:
    """Figures side by side, where there is room."""
    return '<div class="figures">' + "\n".join(blocks) + "</div>"


def figure(svg: str, title: str, caption: str, numbers: Table | None = None) -> str:
    """A picture with what it shows; its numbers, folded away, say the same to who cannot see it."""
    folded = "" if numbers is None else details("The numbers", table(numbers, title))
    return (
        f'<figure><div role="img" aria-label="{escape(f"{title}. {caption}")}">{svg}</div>'
        f"<figcaption><b>{escape(title)}.</b> {escape(caption)}</figcaption>{folded}</figure>"
    )


def table(content: Table, title: str) -> str:
    """A table. It can be scrolled, by keyboard too, where it is wider than the page."""

    def cell(number: int, text: str, tag: str) -> str:
        looks = {"text": number < content.texts, "even": number == content.even, "strong": number == content.strong}
        names = " ".join(name for name, applies in looks.items() if applies)
        scope = {"thead": ' scope="col"', "th": ' scope="row"'}.get(tag, "")
        tag = "th" if tag == "thead" else tag
        return f"<{tag}{scope}" + (f' class="{names}"' if names else "") + f">{escape(text)}</{tag}>"

    def row(cells: Cells) -> str:
        return f"<tr>{''.join(cell(n, text, 'th' if n == 0 else 'td') for n, text in enumerate(cells))}</tr>"

    # An empty heading is read out as nothing; a cell that is none is not.
    head = "".join(cell(n, text, "thead" if text else "td") for n, text in enumerate(content.headings))
    rows = "\n".join(map(row, content.rows))
    foot = "" if content.total is None else f"\n<tfoot>{row(content.total)}</tfoot>"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>{foot}\n</table></div>"
    )
