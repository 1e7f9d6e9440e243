"""Converts a Chrome trace to rows of events: device streams and host threads, with arrows from launch to work."""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Categories of work on a stream. Annotations enclose work.
WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
ON_DEVICE = WORK | {"gpu_user_annotation"}

# Arguments of an event that the page shows.
INTERESTING = (
    *("Input Dims", "Input type", "bytes", "memory bandwidth (GB/s)", "result", "stream", "device"),
    *("Process Group Name", "Group size"),
)


class TraceError(Exception):
    """The file is not a valid trace."""


@dataclass
class Event:
    name: str
    category: str
    row: int
    start: float  # microseconds from the first event
    duration: float
    depth: int = 0  # number of enclosing events in its row
    operator: int | None = None  # the event of the operator that launched it
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass
class Row:
    group: str
    name: str
    on_device: bool
    order: tuple[Any, ...]
    work: int = 0  # kernels, copies and fills
    busy: float = 0.0  # fraction of the duration with work


@dataclass
class Timeline:
    rows: list[Row]
    events: list[Event]
    arrows: list[tuple[int, int]]  # launching call, launched work
    duration: float


def read_timeline(path: Path) -> Timeline:
    try:
        content = path.read_bytes()
        loaded = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise TraceError(f"{path} is not JSON: {error}") from error
    events = loaded.get("traceEvents") if isinstance(loaded, dict) else loaded
    if not isinstance(events, list):
        raise TraceError(f"{path} has no traceEvents; create a trace with profiler.export_chrome_trace")
    return make_timeline(events)


def make_timeline(raw: Iterable[dict[str, Any]]) -> Timeline:
    raw = list(raw)
    # Kineto uses a pid that is not a number for headings.
    complete = [e for e in raw if e.get("ph") == "X" and isinstance(e.get("pid"), int)]
    if not complete:
        raise TraceError("the trace has no event with a duration")
    complete.sort(key=lambda e: (float(e["ts"]), -float(e.get("dur", 0))))
    rows = _rows(complete, _names(raw))
    index = {key: i for i, (key, _) in enumerate(rows)}
    origin = float(complete[0]["ts"])
    events = [
        Event(
            name=str(e.get("name", "")),
            category=str(e.get("cat", "")),
            row=index[_key(e)],
            start=float(e["ts"]) - origin,
            duration=max(float(e.get("dur", 0)), 0.0),
            details={k: e["args"][k] for k in INTERESTING if k in e.get("args", {})},
        )
        for e in complete
    ]
    duration = max(event.end for event in events)
    _nest(events)
    _measure([row for _, row in rows], events, duration)
    _find_operators(events, complete)
    return Timeline([row for _, row in rows], events, _arrows(events, complete), duration)


def _key(event: dict[str, Any]) -> tuple[int, str]:
    return event["pid"], str(event.get("tid", 0))


def _names(raw: list[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    """Metadata of processes and threads, by (metadata name, process or thread)."""
    metadata: dict[tuple[Any, ...], Any] = {}
    for event in raw:
        if event.get("ph") == "M" and event.get("args"):
            value = next(iter(event["args"].values()))
            subject = _key(event) if str(event["name"]).startswith("thread") else event.get("pid")
            metadata[event["name"], subject] = value
    return metadata


def _rows(
    complete: list[dict[str, Any]], metadata: dict[tuple[Any, ...], Any]
) -> list[tuple[tuple[int, str], Row]]:
    categories: dict[tuple[int, str], set[str]] = {}
    for event in complete:
        categories.setdefault(_key(event), set()).add(str(event.get("cat", "")))
    rows = []
    for key, present in categories.items():
        pid, tid = key
        on_device = not present.isdisjoint(ON_DEVICE)
        label = (
            metadata.get(("process_labels", pid)) or metadata.get(("process_name", pid)) or f"process {pid}"
        )
        group = (
            str(label) if on_device else f"Host · {metadata.get(('process_name', pid), 'process')} ({pid})"
        )
        name = str(metadata.get(("thread_name", key)) or (f"stream {tid}" if on_device else f"thread {tid}"))
        number = int(tid) if tid.lstrip("-").isdigit() else 0
        rows.append((key, Row(group, name, on_device, (not on_device, pid, number, tid))))
    # Devices first.
    return sorted(rows, key=lambda item: item[1].order)


def _nest(events: list[Event]) -> None:
    """Computes depths. Events are sorted by start, longer ones first; the tolerance is the rounding of the trace.

    On a stream all work has the same depth, below the ranges.
    """
    open_by_row: dict[tuple[int, bool], list[Event]] = {}
    ranges_of_row: dict[int, int] = {}
    for event in events:
        around = open_by_row.setdefault((event.row, event.category in WORK), [])
        while around and around[-1].end <= event.start + 0.0005:
            around.pop()
        # Partially overlapping events are nested too.
        event.depth = len(around)
        around.append(event)
        if event.category == "gpu_user_annotation":
            ranges_of_row[event.row] = max(ranges_of_row.get(event.row, 0), event.depth + 1)
    for event in events:
        if event.category in WORK:
            event.depth += ranges_of_row.get(event.row, 0)


def _measure(rows: list[Row], events: list[Event], duration: float) -> None:
    reached = [0.0] * len(rows)
    for event in events:
        if event.category not in WORK:
            continue
        row = rows[event.row]
        row.work += 1
        begin = max(event.start, reached[event.row])
        row.busy += max(event.end - begin, 0.0)
        reached[event.row] = max(reached[event.row], event.end)
    for row in rows:
        row.busy /= max(duration, 1e-9)


def _find_operators(events: list[Event], complete: list[dict[str, Any]]) -> None:
    by_number = {}
    for i, e in enumerate(complete):
        if e.get("cat") == "cpu_op" and "External id" in e.get("args", {}):
            by_number[e["args"]["External id"]] = i
    for event, e in zip(events, complete, strict=True):
        if event.category in WORK or event.category.endswith(("_runtime", "_driver")):
            event.operator = by_number.get(e.get("args", {}).get("External id"))


def _arrows(events: list[Event], complete: list[dict[str, Any]]) -> list[tuple[int, int]]:
    calls = {}
    for i, e in enumerate(complete):
        if events[i].category.endswith(("_runtime", "_driver")):
            calls[e.get("args", {}).get("correlation")] = i
    arrows = []
    for i, e in enumerate(complete):
        correlation = e.get("args", {}).get("correlation")
        if events[i].category in WORK and correlation is not None and correlation in calls:
            arrows.append((calls[correlation], i))
    return arrows
