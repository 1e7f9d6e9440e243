"""``python -m torch_openreg timeline``: the streams of a Chrome trace as a picture, one page that needs nothing."""

import argparse
import sys
from pathlib import Path

HELP = "draw the streams of a profiler's Chrome trace as one HTML page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="what export_chrome_trace wrote: a .json or .json.gz file")
    parser.add_argument(
        "-o", "--output", type=Path, help="the page to write; default: beside the trace, with .html"
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
