#!/usr/bin/env python3
"""Makes one HTML page of charts from what ferry-bench --json has written:

    ferry-report bench.json page.html

The page needs no network: plotly's JavaScript is inside. ferry-bench --report calls this program."""
import argparse
import json
import math
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path

HOW_TO_INSTALL = ("Install plotly with `python3 -m pip install plotly`, in a virtual environment where the system's "
                  "Python allows no packages.")

# ---- Reading


def parse(text):
    """A run that was interrupted may leave a file without its end. Then its last line is left out."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        whole = text[:max(text.rfind("\n"), 0)].removesuffix(",")
        for closing in ["]}]}", "]}", "}"]:
            try:
                return json.loads(whole + closing)
            except json.JSONDecodeError:
                pass
    return None


def read(path):
    try:
        found = parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as why:
        sys.exit(f"cannot read {path}: {why}")
    if not isinstance(found, dict) or "machine" not in found or "cases" not in found:
        sys.exit(f"{path} is not a report of ferry-bench: it must be a file that ferry-bench --json has written")
    return found


# ---- Words and numbers

DIRECTIONS = {"H2D": "to the device", "D2H": "to the host", "D2D": "within the device", "H2A": "into an array",
              "A2H": "out of an array", "D2A": "device to array", "A2D": "array to device", "A2A": "array to array"}


def size_text(size):
    for unit, name in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]:
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def count_text(count):
    for unit, name in [(1 << 20, " Mi"), (1 << 10, " Ki")]:
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def three_digits(value):
    if 0 < value < 0.0995:
        return f"{value:.2g}"
    return f"{value:.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def time_text(ns):
    for unit, name in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]:
        if ns >= 0.9995 * unit:
            return f"{three_digits(ns / unit)} {name}"
    return f"{three_digits(ns)} ns"


def round_time_text(ns):
    for unit, name in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]:
        if ns >= 0.999 * unit:
            return f"{ns / unit:g} {name}"
    return f"{ns:g} ns"


def speed(row, side="ferry_ns", quantile="median"):
    return row["bytes"] / row[side][quantile]  # bytes per nanosecond are GB/s


# ---- Charts. Colours are legible on light and dark; the page's style sheet colours texts and lines.

FERRY, DRIVER, LIMIT, OTHER = "#2f81f7", "#8b949e", "#d29922", "#a371f7"
ROUTES = {"driver": DRIVER, "kernel": FERRY, "staged": "#e8833a", "buffered": OTHER, "another": "#3fb950"}
VERDICTS = {"met": "#3fb950", "within the spread": "#d29922", "missed": "#f85149", "no target": DRIVER}


class Chart:
    def __init__(self, title, detail="", height=230, is_wide=False):
        import plotly.graph_objects as objects
        self.objects, self.title, self.detail, self.is_wide = objects, title, detail, is_wide
        self.figure = objects.Figure(layout={
            "template": None, "height": height, "margin": {"l": 46, "r": 16, "t": 6, "b": 24}, "showlegend": False,
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "hovermode": "closest",
            "dragmode": False, "font": {"family": "system-ui, sans-serif", "size": 12},
            "hoverlabel": {"bgcolor": "#24292f", "font": {"color": "#ffffff"}},
            "xaxis": {"fixedrange": True, "zeroline": False}, "yaxis": {"fixedrange": True, "zeroline": False}})

    def line(self, x, y, colour, texts, width=2, spread=None):
        """`spread`: the lower and the upper end at each point."""
        error = spread and {"type": "data", "symmetric": False, "thickness": 1, "width": 2,
                            "arrayminus": [at - low for at, (low, _) in zip(y, spread)],
                            "array": [high - at for at, (_, high) in zip(y, spread)]}
        self.figure.add_trace(self.objects.Scatter(
            x=x, y=y, mode="lines+markers", line={"color": colour, "width": width}, marker={"size": 3 + width},
            error_y=error or None, text=texts, hovertemplate="%{text}<extra></extra>"))

    def limit(self, value):
        if value:
            self.figure.add_hline(y=value, line={"color": LIMIT, "width": 1.5, "dash": "dot"})

    def axis(self, which, ticks, texts, title="", is_log=True):
        self.figure.update_layout({which + "axis": {
            "type": "log" if is_log else "linear", "tickvals": ticks, "ticktext": texts, "tickangle": 0,
            "title": {"text": title, "standoff": 4}}})
        if which == "x" and title:
            self.figure.update_layout(margin={"b": 40})

    def log_axis(self, which, values, text):
        """Covers all values and at least a decade, so that small differences look small."""
        low, high = min(values) / 1.2, max(values) * 1.2
        if high < 10 * low:
            middle = math.sqrt(low * high)
            low, high = middle / math.sqrt(10), middle * math.sqrt(10)
        digits = [1] if high > 100 * low else [1, 2, 5]
        ticks = [digit * 10.0**power for power in range(-6, 13) for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        ticks = ticks[::1 + len(ticks) // 7]
        self.axis(which, ticks, [text(tick) for tick in ticks])
        self.figure.update_layout({which + "axis": {"range": [math.log10(low), math.log10(high)]}})

    def html(self, number):
        inside = self.figure.to_html(full_html=False, include_plotlyjs=False,
                                     config={"displayModeBar": False, "responsive": True})
        inside = inside.replace(re.search(r'<div id="([^"]+)"', inside)[1], f"chart-{number}") # not a random name
        detail = f"<small>{escape(self.detail)}</small>" if self.detail else ""
        return (f'<figure class="chart{" wide" if self.is_wide else ""}">'
                f"<figcaption>{escape(self.title)}{detail}</figcaption>{inside}</figure>")


def hover(row, side):
    return (f"{'ferry' if side == 'ferry_ns' else 'driver'}, {size_text(row['bytes'])}: "
            f"<b>{three_digits(speed(row, side))} GB/s</b>, {time_text(row[side]['median'])}")


def add_speeds(chart, x, rows):
    """The driver's line and ferry's through the same points. The driver's shows beneath where the two are equal."""
    for side, colour, width in [("raw_ns", DRIVER, 4), ("ferry_ns", FERRY, 2)]:
        chart.line(x, [speed(row, side) for row in rows], colour, [hover(row, side) for row in rows], width,
                   spread=[(speed(row, side, "p75"), speed(row, side, "p25")) for row in rows])


def limit_of(report, row):
    """The software driver has no limit."""
    return None if report["machine"]["is_software"] else row["ceiling_gb_per_s"]


def speed_chart(title, detail, sizes, rows, limit=None):
    chart = Chart(title, detail)
    add_speeds(chart, sizes, rows)
    chart.limit(limit)
    ticks = [16**power for power in range(12) if min(sizes) <= 16**power <= max(sizes)]
    if len(ticks) < 3:
        ticks = sorted(set(sizes))
    ticks = ticks[::1 + len(ticks) // 5]
    chart.axis("x", ticks, [size_text(tick) for tick in ticks])
    ends = [(side, quantile) for side in ("raw_ns", "ferry_ns") for quantile in ("p25", "p75")]
    speeds = [speed(row, *end) for row in rows for end in ends]
    chart.log_axis("y", speeds + [limit or speeds[0]], lambda tick: f"{tick:g}")
    return chart


# ---- The sections: a title, a sentence, a legend and charts


def rows_of(report, *names):
    return [(case["name"], row) for case in report["cases"] if case["name"] in names for row in case["rows"]]


def counted(count, what):
    return f"{count} {what}" + ("" if int(count) == 1 else "s")


def broadcast_source(source):
    return source if source.startswith("device") else f"{source} memory"


def title_of(case, labels):
    """What is copied, and under which conditions."""
    copy = labels.get("copy", labels.get("copies", labels.get("source", "")))
    way = DIRECTIONS.get(copy, copy)
    if case == "linear":
        memory = "device memory" if labels["memory"] == "device" else labels["memory"] + " memory"
        return f"{memory.capitalize()} {way}", {"async": "asynchronous", "sync": "synchronous"}[labels["form"]]
    if case == "pageable":
        call = {"ferry_copy": "synchronous", "ferry_copy_async": "on a stream"}.get(labels["ferry's call"], "")
        return f"Pageable memory {way}", ", ".join([call, *([] if labels["what"] == "line" else [labels["what"]])])
    if case == "both-ways":
        return "Both directions at the same time", "pinned memory"
    if case == "broadcast":
        return f"Broadcast from {broadcast_source(copy)}", counted(labels["destinations"], "destination")
    if case == "multilink":
        return (f"{labels['memory'].capitalize()} memory {way}",
                f"over {counted(int(labels['helpers']) + 1, 'link')}; driver: {labels['raw']}")
    if case == "peer":
        return f"Device {copy}", f"peer access {labels['access']}"
    return f"Device {copy}", f"relayed, stream of {labels['stream of']}"


def groups_by_size(report, *names):
    """The rows that differ only in their size."""
    groups = {}
    for case, row in rows_of(report, *names):
        labels = {name: value for name, value in row["labels"].items() if name not in ("raw call", "route")}
        groups.setdefault((case, tuple(labels.items())), []).append(row)
    for (case, labels), rows in groups.items():
        if len({row["bytes"] for row in rows}) >= 3 and rows[0]["ceiling_gb_per_s"]:
            yield case, dict(labels), sorted(rows, key=lambda row: row["bytes"])


CASES_BY_SIZE = ["linear", "pageable", "both-ways", "peer", "relay", "broadcast", "multilink"]


def charts_by_size(report):
    charts = []
    for case, labels, rows in groups_by_size(report, *CASES_BY_SIZE):
        sizes = [row["bytes"] for row in rows]
        charts.append(speed_chart(*title_of(case, labels), sizes, rows, limit_of(report, rows[-1])))
    return charts


GAPS = {"source": "gaps at the source", "destination": "gaps at the destination", "both": "gaps at both ends"}


def charts_by_width(report):
    """The boxes of `strided` whose rows are twice their width apart."""
    groups = {}
    for _, row in rows_of(report, "strided"):
        labels = row["labels"]
        width = int(labels["row bytes"])
        tight, twice = "tight", str(2 * width)
        gaps = {(twice, tight): "source", (tight, twice): "destination", (twice, twice): "both"}.get(
            (labels["source pitch"], labels["destination pitch"]))
        if not gaps:
            continue
        best = groups.setdefault((labels["copy"], GAPS[gaps]), {})
        if width not in best or best[width]["bytes"] < row["bytes"]:
            best[width] = row
    charts = []
    for (copy, gaps), best in groups.items():
        if len(best) < 3:
            continue
        widths = sorted(best)
        charts.append(speed_chart(
            f"Rows {DIRECTIONS.get(copy, copy)}", f"pinned memory, {gaps}" if copy != "D2D" else gaps, widths,
            [best[width] for width in widths], limit_of(report, best[widths[-1]])))
    return charts


def size_of(text):
    number, unit = text.split()
    return int(number) << {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[unit]


def charts_of_pieces(report):
    groups = {}
    for _, row in rows_of(report, "batch"):
        labels = row["labels"]
        if " x " in labels["pieces"] and labels["form"] in ("pieces", "prepared"):
            point = size_of(labels["pieces"].split(" x ")[1]), row
            groups.setdefault((labels["copy"], labels["form"]), []).append(point)
    charts = []
    for (copy, form), points in groups.items():
        points.sort(key=lambda point: point[0])
        count = points[0][1]["labels"]["pieces"].split(" x ")[0]
        charts.append(speed_chart(
            f"Pieces {DIRECTIONS.get(copy, copy)}",
            f"up to {count} in one call" + (", prepared before" if form == "prepared" else ""),
            [size for size, _ in points], [row for _, row in points]))
    return charts


def charts_of_routes(report):
    names = list(ROUTES)
    scale = [[position, ROUTES[name]] for at, name in enumerate(names)
             for position in (at / len(names), (at + 1) / len(names))]
    charts = []
    for route_map in [each for case in report["cases"] for each in case.get("route_maps", [])]:
        memory = "" if route_map["memory"] == "device" else f"{route_map['memory']} memory "
        chart = Chart(f"{memory}{DIRECTIONS[route_map['copy']]}".capitalize(), GAPS[route_map["gaps"]], height=260)
        widths = [size_text(width) for width in route_map["row_bytes"]]
        rows = [count_text(count) for count in route_map["rows"]]
        routes = route_map["routes"]
        codes = [[None if route is None else names.index(route if route in ROUTES else "another") for route in line]
                 for line in routes]
        texts = [[f"{rows[y]} rows of {widths[x]}: <b>{route}</b>" if route else "" for x, route in enumerate(line)]
                 for y, line in enumerate(routes)]
        chart.figure.add_trace(chart.objects.Heatmap(
            z=codes, zmin=-0.5, zmax=len(names) - 0.5, colorscale=scale, showscale=False, xgap=1, ygap=1, text=texts,
            hovertemplate="%{text}<extra></extra>", hoverongaps=False))
        for which, labels, title in [("x", widths, "width of a row"), ("y", rows, "rows")]:
            shown = range(0, len(labels), 5 if len(labels) > 12 else 2)
            chart.axis(which, list(shown), [labels[at] for at in shown], title, is_log=False)
        charts.append(chart)
    return charts


def latency_groups(report):
    """Rows that measure the time of a call, which no link limits. Grouped by case, and for large cases by copy."""
    for case in report["cases"]:
        rows = [row for row in case["rows"] if not row["ceiling_gb_per_s"] and row["labels"]]
        by_copy = {}
        for row in rows:
            by_copy.setdefault(row["labels"].get("copy", "") if len(rows) > 12 else "", []).append(row)
        for copy, group in by_copy.items():
            parts = -(-len(group) // 16)
            for part in range(parts):
                yield case, copy, group[len(group) * part // parts:len(group) * (part + 1) // parts]


BOX = {"lowerfence": "p10", "q1": "p25", "median": "median", "q3": "p75", "upperfence": "p90"}


def charts_of_latency(report):
    charts = []
    for case, copy, rows in latency_groups(report):
        chart = Chart(case["name"] + (f", {DIRECTIONS.get(copy, copy)}" if copy else ""), case.get("summary", ""),
                      height=60 + 46 * len(rows))
        for side, colour, offset in [("raw_ns", DRIVER, 0.02), ("ferry_ns", FERRY, -0.24)]:
            y = [len(rows) - at + offset for at in range(len(rows))]
            times = [row[side] for row in rows]
            quantiles = {name: [time[of] for time in times] for name, of in BOX.items()}
            chart.figure.add_trace(chart.objects.Box(
                y=y, orientation="h", width=0.2, line={"color": colour, "width": 1.5}, hoverinfo="skip", **quantiles))
            symbols = ["line-ns-open"] * len(rows) + ["circle-open"] * len(rows)
            chart.figure.add_trace(chart.objects.Scatter(
                x=[time["median"] for time in times] + [time["p99"] for time in times], y=y + y, mode="markers",
                marker={"color": colour, "size": 6, "symbol": symbols},
                text=[f"{'ferry' if side == 'ferry_ns' else 'driver'}: median <b>{time_text(time['median'])}</b>, p10 "
                      f"{time_text(time['p10'])}, p90 {time_text(time['p90'])}, p99 {time_text(time['p99'])}"
                      for time in times] * 2, hovertemplate="%{text}<extra></extra>"))
        for at, row in enumerate(rows):
            labels = [f"{name}: {value}" if value.isdigit() else value for name, value in row["labels"].items()
                      if name not in ("raw call", "route", "ferry's call") and value != copy]
            chart.figure.add_annotation(x=0, xref="paper", xanchor="left", y=len(rows) - at + 0.3, showarrow=False,
                                        text=escape(", ".join([*labels, size_text(row["bytes"])])))
        chart.log_axis("x", [row[side][quantile] for row in rows for side in ("raw_ns", "ferry_ns")
                             for quantile in ("p10", "p99")], round_time_text)
        chart.figure.update_layout(yaxis={"visible": False, "range": [0.5, len(rows) + 0.6]}, margin={"l": 8})
        charts.append(chart)
    return charts


def scaling_chart(title, detail, points, axis_title):
    """`points`: (x, row), one for each x."""
    chart = Chart(title, detail)
    points = sorted(points, key=lambda point: point[0])
    add_speeds(chart, [x for x, _ in points], [row for _, row in points])
    chart.axis("x", [x for x, _ in points], [str(x) for x, _ in points], axis_title)
    chart.figure.update_layout(yaxis={"rangemode": "tozero"})
    return chart


def charts_of_scaling(report):
    charts = []
    groups = {}
    for case, row in rows_of(report, "pageable-devices", "broadcast", "multilink"):
        labels = row["labels"]
        if case == "pageable-devices":
            key = f"Pageable memory {DIRECTIONS[labels['copy']]}", "by the number of devices", "devices"
            x = int(labels["devices"])
        elif case == "broadcast":
            source = broadcast_source(labels["source"])
            key = f"Broadcast from {source}", "by the number of destinations", "destinations"
            x = int(labels["destinations"])
        else:
            key = (f"{labels['memory'].capitalize()} memory {DIRECTIONS[labels['copy']]}",
                   f"by the number of links; driver: {labels['raw']}", "links")
            x = int(labels["helpers"]) + 1
        at = groups.setdefault(key, {})
        if x not in at or at[x]["bytes"] < row["bytes"]:
            at[x] = row
    for (title, detail, axis_title), points in groups.items():
        if len(points) > 1:
            size = size_text(max(row["bytes"] for row in points.values()))
            charts.append(scaling_chart(title, f"{detail}, {size}", points.items(), axis_title))
    for case in report["cases"]:
        charts += charts_of_threads(case)
    return charts


def charts_of_threads(case):
    """How fast threads copy by memcpy, and ferry's staged copies by the number of its threads."""
    numbers = case.get("numbers", [])
    if case["name"] == "pageable-devices":
        lines = {("memcpy on the host", ""): [(int(each["labels"]["threads"]), each["GB/s"]) for each in numbers]}
    elif case["name"] == "pageable":
        lines = {}
        for each in numbers:
            if each["threads"]:
                key = (f"Staged copies {DIRECTIONS.get(each['labels']['copy'])}", each["labels"]["size"])
                lines.setdefault(key, []).append((int(each["threads"]), each["GB/s"]))
    else:
        return []
    charts = []
    for (title, size), points in lines.items():
        points = sorted(set(points))
        if len(points) < 2:
            continue
        chart = Chart(title, ", ".join(filter(None, ["by the number of threads", size])))
        chart.line([x for x, _ in points], [y for _, y in points], FERRY,
                   [f"{x} threads: <b>{three_digits(y)} GB/s</b>" for x, y in points])
        chart.axis("x", [x for x, _ in points], [str(x) for x, _ in points], "threads")
        chart.figure.update_layout(yaxis={"rangemode": "tozero"})
        charts.append(chart)
    return charts


def charts_of_targets(report):
    cases = [case for case in report["cases"] if any(row["verdict"] in VERDICTS for row in case["rows"])]
    if not cases:
        return []
    chart = Chart("Rows by case", height=60 + 24 * len(cases), is_wide=True)
    names = [case["name"] for case in cases]
    for verdict, colour in VERDICTS.items():
        counts = [sum(row["verdict"] == verdict for row in case["rows"]) for case in cases]
        chart.figure.add_trace(chart.objects.Bar(
            y=names, x=[100 * count / len(case["rows"]) for count, case in zip(counts, cases)], orientation="h",
            marker={"color": colour}, text=[f"{count} {verdict}" for count in counts], textposition="none",
            hovertemplate="%{y}: <b>%{text}</b><extra></extra>"))
    chart.axis("x", [0, 50, 100], ["0", "50 %", "100 %"], is_log=False)
    chart.figure.update_layout(barmode="stack", bargap=0.3, xaxis={"range": [0, 100]}, margin={"r": 30},
                               yaxis={"autorange": "reversed", "automargin": True})
    return [chart]


SPEED_LEGEND = [("ferry", FERRY), ("the driver's own calls", DRIVER),
                ("limit: the best pinned copy of this run", LIMIT)]
SECTIONS = [
    ("sizes", "Throughput by size",
     "GB/s until the bytes have arrived, medians with the middle half of the samples. Higher is better. Both scales "
     "are logarithmic.", SPEED_LEGEND, charts_by_size),
    ("widths", "Throughput by width of rows",
     "GB/s of boxes whose row pitch is twice their width. Each copied byte counts once.", SPEED_LEGEND,
     charts_by_width),
    ("pieces", "Many pieces in one call", "GB/s by the size of a piece. Pieces are scattered over 16 allocations.",
     SPEED_LEGEND[:2], charts_of_pieces),
    ("routes", "Routes",
     "The route that ferry plans for a copy of so many rows of this width, on an idle stream. Nothing was copied for "
     "these charts.", [*ROUTES.items()][:4], charts_of_routes),
    ("latency", "Latency",
     "Times of calls. Box: the middle half of the samples; line: the median; whiskers: 10th to 90th percentile; "
     "circle: 99th percentile. Less is better. The scale is logarithmic.", SPEED_LEGEND[:2], charts_of_latency),
    ("scaling", "Threads and GPUs",
     "GB/s by the number of threads, devices and links that work at the same time.", SPEED_LEGEND[:2],
     charts_of_scaling),
    ("targets", "Targets",
     "A row meets its target if the middle half of its samples does, and misses it if none of that half does.",
     [*VERDICTS.items()], charts_of_targets),
]

# ---- The page

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --page: #f6f8fa; --card: #fff; --line: #d1d9e0;
--grid: #e6eaef }
@media (prefers-color-scheme: dark) {
:root { --text: #e6edf3; --soft: #9198a1; --page: #010409; --card: #0d1117; --line: #3d444d; --grid: #262c36 } }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page) }
main { max-width: 1240px; margin: auto; padding: 20px 16px }
h1 { font-size: 26px; line-height: 1.25; margin: 0 } h2 { font-size: 20px; margin: 40px 0 4px }
p { margin: 4px 0 10px; max-width: 80ch } .soft, small { color: var(--soft) } a { color: #2f81f7 }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 14px 0 }
.notice { border: 2px solid #d29922; border-radius: 8px; padding: 10px 14px; margin: 14px 0; max-width: none;
background: var(--card) }
.facts, .chart, details { background: var(--card); border: 1px solid var(--line); border-radius: 8px }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 8px 20px; padding: 14px;
margin: 14px 0 }
dt { font-size: 13px; color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 14px; margin: 8px 0 }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 12px;
align-items: start }
.chart { margin: 0; padding: 10px 10px 4px; min-width: 0 } .chart.wide { grid-column: 1 / -1 }
figcaption { font-weight: 600; line-height: 1.3 }
figcaption small { display: block; font-weight: 400; min-height: 1.3em }
details { margin: 8px 0; padding: 8px 12px } summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere }
summary span { font-weight: 400; color: var(--soft) }
.rows { overflow-x: auto } .note { white-space: pre-line; font-size: 14px }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums } th { text-align: left }
th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid var(--grid); white-space: nowrap }
.number { text-align: right }
#latency .charts { display: block; columns: 340px; column-gap: 12px }
#latency .chart { break-inside: avoid; margin-bottom: 12px }
.js-plotly-plot :is(.xtick, .ytick, .infolayer) text { fill: var(--text) !important }
.js-plotly-plot .gridlayer path { stroke: var(--grid) !important }
"""
# Nothing may be loaded, whatever the library would like to.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def facts(report):
    machine = report["machine"]
    version = machine["driver_version"]
    link = machine.get("link")
    memory = machine.get("device_memory_bytes")
    rows = [row for case in report["cases"] for row in case["rows"]]
    verdicts = Counter(row["verdict"] for row in rows)
    count = machine.get("device_count", 1)
    yield "GPU", machine["device_name"] + (f", device {machine['device']} of {count}" if count > 1 else "")
    if memory:
        yield "GPU memory", (f"{memory / (1 << 30):.1f} GiB, {machine['sm_count']} SMs, "
                             f"{counted(machine['copy_engines'], 'copy engine')}")
    if link:
        yield "Link to the host", (f"PCIe, {link['lanes']} lanes at {link['gigatransfers_per_second']:g} GT/s: "
                                   f"{link['gigabytes_per_second']:.1f} GB/s")
    if machine.get("processors"):
        name = machine.get("processor")
        yield "Processor", (f"{name}, " if name else "") + counted(machine["processors"], "processor")
    cuda = f"CUDA {version // 1000}.{version % 1000 // 10}"
    yield "Driver", "ferry's software driver" if machine["is_software"] else cuda
    if machine.get("staging_threads"):
        threads, buffer = counted(machine["staging_threads"], "thread"), size_text(machine["staging_bytes"])
        yield "Staging", f"{threads}, {buffer} for each device"
    if not machine["is_software"]:
        yield "Best pinned copies", ", ".join(f"{DIRECTIONS.get(way, way)} {three_digits(rate)} GB/s"
                                              for way, rate in (report.get("ceilings_gb_per_s") or {}).items())
    yield "ferry", f"{report['ferry_version']}, opened in {time_text(report['opening_ns']['open'])}"
    yield "Run", report["date"].replace("T", " ").replace("Z", " UTC") + (", quick" if report["quick"] else "")
    words = {"met": "meet their target", "within the spread": "within the spread", "missed": "miss it"}
    counts = [f"{verdicts[verdict]} {meaning}" for verdict, meaning in words.items() if verdicts[verdict]]
    yield "Rows", ", ".join([f"{len(rows)} measured", *counts])


def notices(report):
    if report["machine"]["is_software"]:
        yield ("<b>These are results of the software driver.</b> The CPU makes the copies that a GPU would make, so "
               "the page says nothing about the speed of hardware, and no row is judged.")
    if not report.get("complete"):
        yield "<b>The run was not complete.</b> The page shows the rows that were measured."
    if report["quick"]:
        yield "<b>This was a quick run:</b> fewer sizes and samples. Its numbers vary more than in a full run."


def table(case):
    rows = case["rows"]
    labels = list(dict.fromkeys(name for row in rows for name in row["labels"]))
    numbers = ["size", "driver", "ferry", "driver GB/s", "ferry GB/s", "driver / ferry", "target"]
    lines = [(labels, numbers, ["target is"])]
    for row in rows:
        is_copy = row["ceiling_gb_per_s"]
        speeds = [three_digits(speed(row, side)) if is_copy else "" for side in ("raw_ns", "ferry_ns")]
        ratio = f"{row['target']:.3f}" if row["target"] else ""
        target = f"at most {time_text(row['max_ns'])}" if row["max_ns"] else ratio
        times = [time_text(row[side]["median"]) for side in ("raw_ns", "ferry_ns")]
        lines.append(([row["labels"].get(name, "") for name in labels],
                      [size_text(row["bytes"]), *times, *speeds, f"{row['ratio']['median']:.3f}", target],
                      [row["verdict"]]))
    return number_table(lines)


def number_table(lines):
    """The lines are (texts, numbers, texts). The first one is the head."""
    def html(tag, line):
        before, numbers, after = ["".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for text in texts)
                                  for texts, kind in zip(line, ["", ' class="number"', ""])]
        return f"<tr>{before}{numbers}{after}</tr>"
    body = "".join(html("td", line) for line in lines[1:])
    return f'<div class="rows"><table>{html("th", lines[0])}{body}</table></div>'


def further_numbers(case):
    entries = case.get("numbers", [])
    if not entries:
        return ""
    labels, numbers = list(entries[0]["labels"]), [name for name in entries[0] if name != "labels"]
    lines = [([each["labels"][name] for name in labels], [three_digits(each[name]) for name in numbers], [])
             for each in entries]
    return number_table([(labels, numbers, []), *lines])


def details_of(case):
    count = f"– {counted(len(case['rows']), 'row')}" if case["rows"] else ""
    note = f'<p class="note soft">{escape(case["note"])}</p>' if case.get("note") else ""
    heading = f"{escape(case['name'])} <span>{escape(case.get('summary', ''))} {count}</span>"
    return (f"<details><summary>{heading}</summary>{note}{table(case) if case['rows'] else ''}{further_numbers(case)}"
            "</details>")


def page_of(report):
    from plotly.offline import get_plotlyjs
    title = "Copies on " + report["machine"]["device_name"]
    sections, links, number = [], [], 0
    for name, heading, sentence, legend, make in SECTIONS:
        charts = make(report)
        if not charts:
            continue
        links.append(f'<a href="#{name}">{heading}</a>')
        swatches = "".join(f'<span><i style="background:{colour}"></i>{escape(text)}</span>' for text, colour in legend)
        drawn = "".join(chart.html(number + at) for at, chart in enumerate(charts))
        number += len(charts)
        sections.append(f'<section id="{name}"><h2>{heading}</h2><p class="soft">{sentence}</p>'
                        f'<div class="legend">{swatches}</div><div class="charts">{drawn}</div></section>')
    described = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
                        for name, text in facts(report) if text)
    warned = "".join(f'<p class="notice">{text}</p>' for text in notices(report))
    rows = "".join(details_of(case) for case in report["cases"])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="soft">ferry beside the driver's own calls, measured side by side on the same buffers. All bytes were
verified.</p>
{warned}
<dl class="facts">{described}</dl>
<nav>{"".join(links)}<a href="#rows">All rows</a></nav>
<noscript><p class="notice">The charts need JavaScript, which is in this file. The tables do not.</p></noscript>
{"".join(sections)}
<section id="rows"><h2>All rows</h2>
<p class="soft">Medians. driver / ferry above 1: ferry is faster.</p>
{rows}</section>
</main>
</body>
</html>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="what ferry-bench --json has written")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    asked = parser.parse_args()
    report = read(asked.results)
    try:
        import plotly  # noqa: F401
    except ImportError:
        sys.exit(f"No page was written, because python3 has no package plotly. {HOW_TO_INSTALL}")
    try:
        page = page_of(report)
    except (KeyError, TypeError, AttributeError) as missing:
        sys.exit(f"{asked.results} lacks what a report of ferry-bench has: {missing!r}")
    asked.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
