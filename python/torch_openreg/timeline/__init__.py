"""``python -m torch_openreg timeline``: renders a Chrome trace as one self-contained HTML page."""

import argparse
import sys
from pathlib import Path

HELP = "render a Chrome trace of the profiler as one HTML page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="a .json or .json.gz file from export_chrome_trace")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="the HTML file; default: the path of the trace with the suffix .html",
    )
    parser.add_argument("--title", help="the heading of the page; default: the name of the trace")


def run(arguments: argparse.Namespace) -> int:
    from .page import render
    from .trace import TraceError, read_timeline

    output = arguments.output or arguments.trace.with_name(_stem(arguments.trace) + ".html")
    try:
        timeline = read_timeline(arguments.trace)
        output.write_text(render(timeline, arguments.title or arguments.trace.name), encoding="utf-8")
    except (TraceError, OSError) as error:
        print(f"timeline: {error}", file=sys.stderr)
        return 1
    streams = sum(row.on_device for row in timeline.rows)
    threads = len(timeline.rows) - streams
    print(
        f"{output}: {len(timeline.events)} events on {_count(streams, 'stream')} and {_count(threads, 'thread')}"
    )
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".json")
