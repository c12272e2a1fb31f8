"""The dashboards that are shipped, evaluated as Grafana does: which queries a panel asks, and what a Prometheus answers."""

import json
import re
from pathlib import Path

BOARDS = Path(__file__).resolve().parents[2] / "deploy" / "grafana"


def boards():
    return {path.stem: json.loads(path.read_text()) for path in sorted(BOARDS.glob("*.json"))}


def panels(board):
    """The panels with queries."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expression(target, rate):
    """A target's query for all brokers and topics."""
    asked = re.sub(r'(=~?")\$[a-z]+"', r'\1.*"', target["expr"].replace("$__rate_interval", rate))
    assert "$" not in re.sub(r'"[^"]*"', "", asked), f"a variable that nothing fills in: {asked}"
    return asked


def legend(target, labels):
    """The name of a series, from the target's pattern."""
    pattern = target.get("legendFormat") or "{{__name__}}"
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), pattern).strip()


def series(panel, prometheus, begin, end, step, rate="10s"):
    """The series of a panel: a name and its points (seconds, value or None)."""
    found = []
    for target in panel["targets"]:
        asked = expression(target, rate)
        for one in prometheus.range(asked, begin, end, step):
            points = [(at, None if value in ("NaN", "+Inf", "-Inf") else float(value)) for at, value in one["values"]]
            found.append((legend(target, one["metric"]), points))
    return found
