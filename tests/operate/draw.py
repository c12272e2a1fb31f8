"""A dashboard as one SVG: the panels in their places, each with what a Prometheus answered to its queries.

It is drawn from the files that are shipped, not by Grafana: the same queries, names, units, places and thresholds, other strokes.
Light and dark follow the reader.
"""

import math
from xml.sax.saxutils import escape

WIDTH, GUTTER = 1200, 8
ROW = 26
PLOT_LEFT, PLOT_TOP, LEGEND_LINE = 66, 34, 15
COLOURS = ["#3d7ddb", "#d9741f", "#2f9e57", "#b84bb0", "#b3902a", "#3aa7b0", "#cf4646", "#7562d1", "#6d8a2c", "#8a6d5a"]
STYLE = """
text{font:12px Inter,system-ui,sans-serif;fill:#24292f}.dim{fill:#656d76;font-size:10.5px}.title{font-weight:600;font-size:11.5px}.tight{font-size:9.8px}
.page{fill:#f4f5f7}.panel{fill:#fff;stroke:#d8dce1}.grid{stroke:#e6e8eb}.board{font-size:17px;font-weight:600}
.row{font-size:13px;font-weight:600}.big{font-size:26px;font-weight:600}.line{fill:none;stroke-width:1.4;stroke-linejoin:round}
.on{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6e8eb}.dim{fill:#9aa3ad}.page{fill:#111418}.panel{fill:#1b1f25;stroke:#2c323a}
.grid{stroke:#2a3038}.on{fill:#fff}}
"""
BINARY = ["B", "KiB", "MiB", "GiB", "TiB"]


def scaled(value, base, names):
    step = 0
    while abs(value) >= base and step < len(names) - 1:
        value, step = value / base, step + 1
    return f"{value:.3g} {names[step]}".strip()


def figure(value, unit):
    """A value with its unit, as Grafana writes it."""
    match unit:
        case "bytes":
            return scaled(value, 1024, BINARY)
        case "Bps":
            return scaled(value, 1024, [f"{name}/s" for name in BINARY])
        case "percentunit":
            return f"{100 * value:.3g} %"
        case "s":
            return duration(value)
        case "ms":
            return duration(value / 1000)
        case "ops" | "reqps" | "cps":
            return scaled(value, 1000, ["/s", "k/s", "M/s"])
        case _:
            return scaled(value, 1000, ["", "k", "M", "G"])


def duration(seconds):
    for limit, each, name in ((1e-3, 1e-6, "µs"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if abs(seconds) < limit:
            return f"{seconds / each:.3g} {name}" if seconds else "0 s"
    return f"{seconds / 86400:.3g} d"


def nice(top, unit):
    """The end of an axis, and its steps."""
    if top <= 0:
        return 1, [0, 1]
    if unit in ("bytes", "Bps") and top >= 1024:
        each = 1024 ** int(math.log(top, 1024))
        highest, steps = nice(top / each, "short")
        return highest * each, [step * each for step in steps]
    step = 10 ** math.floor(math.log10(top / 3))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if top / (step * factor) <= 4)
    count = math.ceil(top / step - 1e-9)
    return count * step, [step * number for number in range(count + 1)]


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def fitting(words, width, each=6.4):
    """The words, cut to a width."""
    most = max(4, int(width / each))
    return words if len(words) <= most else words[:most - 1] + "…"


def board(definition, answers, begin, end):
    """The whole dashboard; `answers` has the series of each panel by its place in the list of panels."""
    height = 46 + ROW * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in definition["panels"])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
             f"<style>{STYLE}</style>", f'<rect class="page" width="{WIDTH}" height="{height}"/>',
             text(16, 28, definition["title"], "board"),
             text(WIDTH - 16, 28, f"the last {end - begin:.0f} seconds", "dim", "end")]
    for at, panel in enumerate(definition["panels"]):
        place = panel["gridPos"]
        x, y = place["x"] * WIDTH / 24 + GUTTER / 2, 42 + place["y"] * ROW
        width, tall = place["w"] * WIDTH / 24 - GUTTER, place["h"] * ROW - GUTTER
        if panel["type"] == "row":
            parts.append(text(x + 8, y + 18, panel["title"], "row"))
            continue
        parts.append(f'<g transform="translate({x:.0f},{y:.0f})"><rect class="panel" width="{width:.0f}" height="{tall:.0f}" rx="3"/>')
        draw = stat if panel["type"] == "stat" else lines
        parts += draw(panel, answers[at], width, tall, begin, end)
        parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def last(points):
    return next((value for _, value in reversed(points) if value is not None), None)


def stat(panel, series, width, tall, *_):
    """The last values as large figures, coloured by their thresholds."""
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    shown = [(name, last(points)) for name, points in series if last(points) is not None][:4]
    # In fonts that are wider than Inter, too.
    is_tight = 7.4 * len(panel["title"]) > width - 12
    title = text(10, 20, fitting(panel["title"], width - 12, 6.4), "title tight" if is_tight else "title")
    if not shown:
        return [title, text(width / 2, tall / 2 + 14, "no data", "dim", "middle")]
    parts, whole = [], panel["options"].get("colorMode") == "background"
    each = (width - 16) / len(shown)
    for at, (name, value) in enumerate(shown):
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
        fill = {"green": "#2f9e57", "red": "#cf4646"}.get(colour, "#b3902a")
        x = 8 + at * each
        if whole:
            parts.append(f'<rect x="{x:.0f}" y="28" width="{each:.0f}" height="{tall - 36:.0f}" rx="3" fill="{fill}"/>')
        style = "big on" if whole else "big"
        colour = "" if whole else f' style="fill:{fill}"'
        if panel["options"].get("textMode") == "name":
            words, style = name, "row"
        else:
            words = mapped(panel, value) or figure(value, unit)
        words = text(x + each / 2, tall / 2 + 22, words, style, "middle")
        parts.append(words.replace("<text", f"<text{colour}", 1))
        if len(shown) > 1:
            parts.append(text(x + each / 2, tall - 8, fitting(name, each, 5.6), "dim", "middle"))
    return [title, *parts]


def mapped(panel, value):
    """The words of a value, where the panel has some for it."""
    mappings = panel["fieldConfig"]["defaults"].get("mappings", [])
    return next((one["options"][f"{value:g}"]["text"] for one in mappings if f"{value:g}" in one["options"]), None)


def lines(panel, series, width, tall, begin, end):
    """Lines over the time, with axes and a legend."""
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    title = text(10, 20, fitting(panel["title"], width - 12, 6.6), "title")
    series = [(name, points) for name, points in series if any(value is not None for _, value in points)]
    if not series:
        return [title, text(width / 2, tall / 2 + 10, "no data", "dim", "middle")]
    series = sorted(series, key=lambda one: -(last(one[1]) or 0))[:len(COLOURS)]
    legend, rows = entries([name for name, _ in series], width)
    bottom = tall - 22 - rows * LEGEND_LINE
    highest, ticks = nice(max(value for _, points in series for _, value in points if value is not None), unit)

    if bottom - PLOT_TOP < 50:
        ticks = ticks[-1:]

    def at(moment, value):
        x = PLOT_LEFT + (moment - begin) / (end - begin) * (width - PLOT_LEFT - 12)
        return f"{x:.1f},{bottom - value / highest * (bottom - PLOT_TOP):.1f}"

    parts = [title]
    for tick in ticks:
        y = bottom - tick / highest * (bottom - PLOT_TOP)
        parts.append(f'<line class="grid" x1="{PLOT_LEFT}" x2="{width - 12:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(PLOT_LEFT - 6, y + 4, figure(tick, unit), "dim", "end"))
    for part in range(3):
        back = (end - begin) * (2 - part) / 2
        anchor = ["start", "middle", "end"][part]
        x = PLOT_LEFT + part / 2 * (width - PLOT_LEFT - 12)
        parts.append(text(x, bottom + 14, f"-{back:.0f} s" if back else "now", "dim", anchor))
    for number, (_, points) in enumerate(series):
        for run in runs(points, (end - begin) / 20):
            path = " ".join(at(*point) for point in run)
            parts.append(f'<polyline class="line" stroke="{COLOURS[number]}" points="{path}"/>')
    for number, (x, row, name) in enumerate(legend):
        y = bottom + 18 + (row + 0.75) * LEGEND_LINE
        parts.append(f'<rect x="{x:.0f}" y="{y - 6:.0f}" width="10" height="3" fill="{COLOURS[number]}"/>')
        parts.append(text(x + 14, y, name, "dim"))
    return parts


def runs(points, longest):
    """The pieces of a line between missing values, and between scrapes that are too far apart."""
    run = []
    for moment, value in points:
        if run and (value is None or moment - run[-1][0] > longest):
            yield run
            run = []
        if value is not None:
            run.append((moment, value))
    if run:
        yield run


def entries(names, width):
    """Where the names of a legend are: x, row, and the name as it fits."""
    placed, x, row = [], 10, 0
    for name in names:
        name = fitting(name or "value", width - 40, 5.6)
        wide = 14 + 5.8 * len(name) + 12
        if x + wide > width and x > 10:
            x, row = 10, row + 1
        placed.append((x, row, name))
        x += wide
    return placed, row + 1
