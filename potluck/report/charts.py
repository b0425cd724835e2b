"""The figures of a report, drawn by altair from the rows of ``figure_data``; altair is imported when one is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from potluck.core.history import readable_bytes
from potluck.report.colours import DASHES, LIGHT, SERIES
from potluck.report.figure_data import Rows

WIDTH, HEIGHT = 440, 280
"""In pixels: as wide as a phone shows without shrinking the letters much."""
ROW = 20
"""How high a bar with a name beside it is."""
FEW = 40
"""Up to so many participants have their names in a figure."""

INK, SOFT, LINE, PAPER = (LIGHT[name] for name in ("ink", "soft", "line", "paper"))
GAIN, LOSS = SERIES[0], SERIES[1]
FONT = "Arial, Helvetica, Liberation Sans, Roboto, DejaVu Sans Condensed, sans-serif"
"""Letters of one width nearly everywhere: a picture is laid out here, and its words are drawn where it is shown."""

AXIS = {
    "labelColor": SOFT,
    "titleColor": SOFT,
    "gridColor": LINE,
    "domain": False,
    "ticks": False,
    "labelFontSize": 13,
    "titleFontSize": 13,
    "titleFontWeight": "normal",
    "titlePadding": 8,
    "labelLimit": 170,
}
BYTES = "datum.value >= 1e9 ? format(datum.value/1e9, '.3~r') + ' GB' : datum.value >= 1e6 ? " + (
    "format(datum.value/1e6, '.3~r') + ' MB' : datum.value >= 1e3 ? format(datum.value/1e3, '.3~r') + ' kB' : "
    "datum.value + ' B'"
)
"""How an axis writes bytes."""
FAR_APART = 30
"""From so many times the least number of bytes on, the most stands on a scale that bends near 0."""
TICKS = 4
"""An axis of bytes on such a scale has at most so many marks beside 0."""


def _styled(chart: Any, height: int | None = HEIGHT) -> Any:
    """A chart as all look here: no frame, the colours of the page, letters that a phone shows."""
    size = {"width": WIDTH, "height": height} if height is not None else {"width": WIDTH}
    return (
        chart.properties(background="transparent", autosize={"type": "fit", "contains": "padding"}, padding=4, **size)
        .configure(aria=False, font=FONT)
        .configure_view(stroke=None)
        .configure_axis(**AXIS)
        .configure_legend(
            orient="bottom",
            columns=3,
            titleColor=INK,
            labelColor=INK,
            labelFontSize=13,
            labelLimit=200,
            symbolStrokeWidth=2.5,
        )
        .configure_text(color=INK, fontSize=13)
    )


def _bytes(values: Iterable[float], title: str) -> Any:
    """An axis of bytes. Where they are far apart it bends, and what sends nothing stands at its left end."""
    import altair as alt

    x = alt.X("bytes:Q", title=title)
    found = sorted(filter(None, values))
    if not found or found[-1] < FAR_APART * found[0]:
        return x.axis(labelExpr=BYTES, tickCount=5).scale(nice=False)
    decades = range(math.floor(math.log10(found[0])), math.floor(math.log10(found[-1])) + 1)
    marks = [10.0**power for power in decades[:: -(-len(decades) // TICKS)]]
    return x.axis(labelExpr=BYTES, values=[0, *marks]).scale(type="symlog", constant=found[0] / 2, nice=False)


def _data(rows: Rows) -> Any:
    """Rows as altair takes them without a data frame."""
    import altair as alt

    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def _looks(methods: Sequence[str]) -> dict[str, Any]:
    """How each method is drawn, the same in all figures: by colour, and by dashes where colours come again."""
    import altair as alt

    names = list(methods)
    colours = [SERIES[place % len(SERIES)] for place in range(len(names))]
    dashes = [DASHES[place // len(SERIES) % len(DASHES)] for place in range(len(names))]
    return {
        "color": alt.Color("method:N", title=None, scale=alt.Scale(domain=names, range=colours), sort=names),
        "strokeDash": alt.StrokeDash("method:N", scale=alt.Scale(domain=names, range=dashes), sort=names, legend=None),
    }


def curves(rows: Rows, by: str, metric: str, title: str) -> Any:
    """A metric by rounds, bytes or seconds: a line for each method in a band of one deviation over seeds."""
    import altair as alt

    methods = list(dict.fromkeys(row["method"] for row in rows))
    looks = _looks(methods)
    if by == "bytes":
        x = _bytes((row["bytes"] for row in rows), title)
    else:
        axis = alt.Axis(tickCount=6, format="~d", tickMinStep=1) if by == "round" else alt.Axis(tickCount=6)
        x = alt.X(f"{by}:Q", title=title, axis=axis, scale=alt.Scale(zero=by != "round", nice=False))
    base = alt.Chart(_data(rows))
    band = base.mark_area(opacity=0.15).encode(
        x=x, y=alt.Y("low:Q", title=metric, scale=alt.Scale(zero=False)), y2="high:Q",
        color=looks["color"].legend(None),
    )  # fmt: skip
    line = base.mark_line(strokeWidth=2.2, point={"size": 18}).encode(x=x, y="mean:Q", **looks)
    return _styled(alt.layer(band, line).resolve_legend(color="independent"))


def costs(rows: Rows, metric: str) -> Any:
    """What each method reached against what it sent; a line along those that nothing beats in both."""
    import altair as alt

    looks = _looks([row["method"] for row in rows])
    shown = [{**row, "low": row["mean"] - row["deviation"], "high": row["mean"] + row["deviation"]} for row in rows]
    x = _bytes((row["bytes"] for row in rows), "sent and received by all, in all rounds")
    y = alt.Y("mean:Q", title=metric, scale=alt.Scale(zero=False, padding=12))
    base = alt.Chart(_data(shown))
    line = base.transform_filter("datum.efficient").mark_line(color=SOFT, strokeDash=[3, 3]).encode(x=x, y=y)
    bars = base.mark_rule().encode(x=x, y="low:Q", y2="high:Q", color=looks["color"].legend(None))
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=looks["color"])
    return _styled(alt.layer(line, bars, dots).resolve_legend(color="independent"))


def gains(rows: Rows, unit: str) -> Any:
    """A bar for each participant, the largest gain on top: how much better or worse than alone."""
    import altair as alt

    def named(row: dict[str, Any]) -> str:
        more = [row["model"], "" if row["samples"] is None else f"{row['samples']:,}"]
        return " · ".join([row["participant"], *filter(None, more)])

    shown = [{**row, "who": named(row), "place": place} for place, row in enumerate(rows)]
    few = len(shown) <= FEW
    y = (
        alt.Y("who:N", sort=None, title=None)
        if few
        else alt.Y("place:O", title=f"{len(shown)} participants, sorted", axis=alt.Axis(labels=False))
    )
    colour = alt.Color("side:N", scale=alt.Scale(domain=["gains", "loses"], range=[GAIN, LOSS]), legend=None)
    bars = alt.Chart(_data(shown)).mark_bar().encode(x=alt.X("gain:Q", title=unit).axis(tickCount=5), y=y, color=colour)
    return _styled(bars, max(120, ROW * len(shown) + 50) if few else HEIGHT)


def heat(rows: Rows, x: str, y: str, value: str, unit: str) -> Any:
    """A matrix of numbers, darker for more."""
    import altair as alt

    across, down = (list(dict.fromkeys(str(row[key]) for row in rows)) for key in (x, y))
    # strength is opacity, so that the dark page and paper both show it
    strength = alt.Opacity(f"{value}:Q", scale=alt.Scale(range=[0.04, 1]), legend=alt.Legend(title=unit, tickCount=4))
    label = alt.Axis(labels=len(down) <= FEW)
    angle = 0 if len(across) * max(map(len, across)) < FEW else -45
    chart = (
        alt.Chart(_data([{**row, x: str(row[x]), y: str(row[y])} for row in rows]))
        .mark_rect(color=GAIN)
        .encode(
            x=alt.X(f"{x}:N", sort=across, axis=alt.Axis(labels=len(across) <= FEW, labelAngle=angle, title=x)),
            y=alt.Y(f"{y}:N", sort=down, axis=label, title=y),
            opacity=strength,
        )
    )
    return _styled(chart, max(160, min(len(down), FEW) * ROW + 90))


def traffic(rows: Rows) -> Any:
    """Bars of what one participant sent and received in a round, method by method, exchange by exchange."""
    import altair as alt

    shown = [{**row, "what": f"{row['method']} · {row['exchange']}"} for row in rows if row["bytes"]]
    sums = dict.fromkeys((row["what"] for row in shown), 0.0)
    for row in shown:
        sums[row["what"]] += row["bytes"]
    sides = alt.Scale(domain=["sent", "received"], range=[GAIN, LOSS])
    y = alt.Y("what:N", sort=list(sums), title=None)
    room = alt.Scale(domain=[0, 1.18 * max(sums.values())], nice=False)  # for the words beside the longest bar
    x = alt.X("bytes:Q", title="of one participant in one round", scale=room)
    bars = alt.Chart(_data(shown)).mark_bar()
    bars = bars.encode(
        x=x.axis(labelExpr=BYTES, tickCount=4),
        y=y,
        color=alt.Color("direction:N", title=None, scale=sides),
        order=alt.Order("direction:N", sort="descending"),
    )
    totals = [{"what": what, "bytes": total, "told": readable_bytes(total)} for what, total in sums.items()]
    words = alt.Chart(_data(totals)).mark_text(align="left", dx=5).encode(x=x, y=y, text="told:N")
    return _styled(alt.layer(bars, words), ROW * len(sums) + 80)


def ranks(rows: Rows, alike: Sequence[Sequence[str]], critical: float) -> Any:
    """The critical-difference picture: mean ranks, and below them a bar over each group that does not differ."""
    import altair as alt

    places = {row["method"]: row["rank"] for row in rows}
    bars = [
        {"line": "no difference" + " " * place, "from": places[group[0]], "to": places[group[-1]]}
        for place, group in enumerate(alike)
    ]
    order = [*places, *(bar["line"] for bar in bars)]
    x = alt.X("rank:Q", title=f"mean rank, 1 is best; critical difference {critical:.2f}")
    x = x.scale(domain=[1, max(2, len(rows))], nice=False, padding=10)
    y = alt.Y("line:N", sort=order, scale=alt.Scale(domain=order), title=None)
    shown = alt.Chart(_data([{**row, "line": row["method"], "told": f"{row['rank']:.2f}"} for row in rows]))
    dots = shown.mark_point(filled=True, size=80, color=GAIN, opacity=1).encode(x=x, y=y)
    texts = shown.mark_text(align="left", dx=8).encode(x=x, y=y, text="told:N")
    groups = alt.Chart(_data(bars)).mark_rule(strokeWidth=5, color=LOSS, strokeCap="round")
    lines = groups.encode(x=alt.X("from:Q"), x2="to:Q", y=y)
    return _styled(alt.layer(dots, texts, *([lines] if bars else [])), ROW * len(order) + 60)


def pairs(rows: Rows, before: str, after: str, metric: str, title: str, subtitle: str) -> Any:
    """Two values for each name, joined by a line, with their deviations: how much the one is above the other."""
    import altair as alt

    order = [row["who"] for row in rows]
    ends = [
        {"who": row["who"], "side": side, "value": row[side], "low": row[side] - row[f"{side} deviation"],
         "high": row[side] + row[f"{side} deviation"]}
        for row in rows
        for side in (before, after)
    ]  # fmt: skip
    y = alt.Y("who:N", sort=order, title=None)
    x = alt.X("value:Q", title=metric, scale=alt.Scale(zero=False, nice=True))
    sides = alt.Color("side:N", title=None, sort=[before, after])
    colour = sides.scale(domain=[before, after], range=[SERIES[1], SERIES[0]])
    shape = alt.Shape("side:N", sort=[before, after], scale=alt.Scale(range=["circle", "square"]), legend=None)
    joined = alt.Chart(_data(rows)).mark_rule(color=SOFT, opacity=0.35, strokeWidth=4)
    base = alt.Chart(_data(ends))
    layers = (
        joined.encode(x=alt.X(f"{before}:Q"), x2=f"{after}:Q", y=y),
        base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour, shape=shape),
    )
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", color=INK, subtitleColor=SOFT, fontSize=14)
    chart = alt.layer(*layers).properties(**({"title": heading} if title else {}))
    return _styled(chart, 26 * len(rows) + 90 + 40 * bool(title))
