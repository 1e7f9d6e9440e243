"""Renders the page: template, CSS, JavaScript and events in one HTML file."""

import html
import json
import re
from collections import Counter
from importlib.resources import files
from typing import Any

from .trace import Timeline

# In the order of the legend. All other categories are "other".
CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "fill",
    "gpu_user_annotation": "range on the device",
    "cpu_op": "operator",
    "user_annotation": "range",
    "runtime": "runtime call",
    "python_function": "Python",
    "other": "other",
}


def render(timeline: Timeline, title: str) -> str:
    parts = files(__package__)
    page = (parts / "page.html").read_text(encoding="utf-8")
    text = {
        "title": html.escape(title),
        "style": (parts / "page.css").read_text(encoding="utf-8"),
        "program": (parts / "page.js").read_text(encoding="utf-8"),
        "table": _table(timeline),
        "data": _embed(as_data(timeline)),
    }
    # In one pass, so that placeholders in inserted text are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: text[placeholder[1]], page)


def category(name: str) -> str:
    if name.endswith(("_runtime", "_driver")):
        return "runtime"
    return name if name in CATEGORIES else "other"


def as_data(timeline: Timeline) -> dict[str, Any]:
    """Input of page.js. Events are columns instead of objects, to keep the file small."""
    names: dict[str, int] = {}
    keys = list(CATEGORIES)
    events = timeline.events
    present = Counter(category(event.category) for event in events)
    return {
        "duration": round(timeline.duration, 3),
        "categories": [{"key": k, "label": CATEGORIES[k], "count": present[k]} for k in keys],
        "rows": [
            {
                "group": row.group,
                "name": row.name,
                "device": row.on_device,
                "work": row.work,
                "busy": round(row.busy, 4),
            }
            for row in timeline.rows
        ],
        "name": [names.setdefault(event.name, len(names)) for event in events],
        "names": list(names),
        "category": [keys.index(category(event.category)) for event in events],
        "row": [event.row for event in events],
        "start": [round(event.start, 3) for event in events],
        "length": [round(event.duration, 3) for event in events],
        "depth": [event.depth for event in events],
        "operator": [-1 if event.operator is None else event.operator for event in events],
        "details": {str(i): event.details for i, event in enumerate(events) if event.details},
        "arrows": [list(arrow) for arrow in timeline.arrows],
    }


def _embed(data: dict[str, Any]) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _table(timeline: Timeline) -> str:
    """The rows as an HTML table, for browsers without JavaScript."""
    lines = [
        f"<tr><td>{html.escape(row.group)}</td><td>{html.escape(row.name)}</td>"
        f"<td>{row.work if row.on_device else ''}</td>"
        f"<td>{f'{row.busy:.1%}' if row.on_device else ''}</td></tr>"
        for row in timeline.rows
    ]
    return "\n".join(lines)
