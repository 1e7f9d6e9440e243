"""``python -m torch_openreg timeline``: the contents of the page, and its rendering in a browser."""

import gzip
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from browser import ask, browse, needs_browser
from interpreter import python
from torch.profiler import ProfilerActivity, profile, record_function

from torch_openreg.timeline.page import render
from torch_openreg.timeline.trace import TraceError, make_timeline, read_timeline


def work(name, stream, start, duration, correlation, category="kernel", **arguments):
    arguments = {"External id": correlation + 100, "correlation": correlation, **arguments}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": start,
        "dur": duration,
        "args": arguments,
    }


def launch(name, start, correlation, thread=77, shapes=None):
    operator = {"External id": correlation + 100, "Input Dims": shapes or [[2, 3]]}
    return [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 500,
            "tid": thread,
            "ts": start,
            "dur": 10.0,
            "args": operator,
        },
        {
            "ph": "X",
            "cat": "privateuse1_runtime",
            "name": "orLaunchKernel",
            "pid": 500,
            "tid": thread,
            "ts": start + 2.0,
            "dur": 1.5,
            "args": {"External id": correlation + 100, "correlation": correlation},
        },
    ]


def metadata(kind, pid, tid, /, **argument):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": argument}


@pytest.fixture
def small():
    """Two kernels on stream 0, a copy on stream 5, launched by one thread; 50 µs long."""
    return [
        metadata("process_name", 500, 0, name="python"),
        metadata("process_labels", 0, 0, labels="openreg 0"),
        metadata("thread_name", 0, 0, name="stream 0"),
        metadata("thread_name", 500, 77, name="thread 77 (main)"),
        *launch("aten::mm", 1000.0, 1, shapes=[[8, 4], [4, 2]]),
        *launch("aten::relu", 1012.0, 2),
        *launch("aten::copy_", 1024.0, 3),
        work("aten::mm.out", 0, 1005.0, 20.0, 1),
        work("aten::relu", 0, 1025.0, 5.0, 2),
        work("Memcpy HtoD", 5, 1030.0, 20.0, 3, category="gpu_memcpy", bytes=4096),
        work("step", 0, 1004.999, 25.002, 0, category="gpu_user_annotation"),
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "pid": "Spans",
            "tid": "x",
            "ts": 900,
            "dur": 9,
        },
        {"ph": "i", "name": "mark", "pid": 500, "tid": 77, "ts": 1001.0},
    ]


def test_rows_are_streams_then_threads(small):
    timeline = make_timeline(small)
    assert [(row.group, row.name, row.on_device) for row in timeline.rows] == [
        ("openreg 0", "stream 0", True),
        ("openreg 0", "stream 5", True),
        ("Host · python (500)", "thread 77 (main)", False),
    ]
    assert [row.work for row in timeline.rows] == [2, 1, 0]
    assert timeline.duration == pytest.approx(50.0)
    assert [round(row.busy, 3) for row in timeline.rows] == [0.5, 0.4, 0.0]


def test_events_keep_their_times_and_nest(small):
    timeline = make_timeline(small)
    assert len(timeline.events) == 10
    events = {(e.category, e.name): e for e in timeline.events}
    kernel = events["kernel", "aten::mm.out"]
    assert (kernel.start, kernel.duration, kernel.depth) == (5.0, 20.0, 1)
    assert events["gpu_user_annotation", "step"].depth == 0
    assert events["cpu_op", "aten::mm"].depth == 0
    assert events["privateuse1_runtime", "orLaunchKernel"].depth == 1
    assert events["gpu_memcpy", "Memcpy HtoD"].details == {"bytes": 4096}


def test_arrows_link_launches_to_kernels_and_operators(small):
    timeline = make_timeline(small)
    assert len(timeline.arrows) == 3
    for begin, end in timeline.arrows:
        assert timeline.events[begin].name == "orLaunchKernel"
        assert timeline.events[begin].start <= timeline.events[end].start
        assert (
            timeline.events[timeline.events[begin].operator] is timeline.events[timeline.events[end].operator]
        )
    operators = {e.name: timeline.events[e.operator].name for e in timeline.events if e.operator is not None}
    assert operators["aten::mm.out"] == "aten::mm"
    assert operators["Memcpy HtoD"] == "aten::copy_"


class Page(HTMLParser):
    """The static contents of a page, without running its script."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.outside, self.parts, self.now = set(), [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        self.outside += [v for k, v in attributes.items() if k in ("src", "href", "action", "data")]
        self.now = attributes.get("id", tag)

    def handle_data(self, data):
        self.parts[self.now] = self.parts.get(self.now, "") + data


def test_page_is_complete_and_self_contained(small):
    text = render(make_timeline(small), "a & b <c>")
    page = Page(text)
    assert page.outside == []
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest", text)
    assert {"picture", "legend", "tooltip", "search", "data", "selected"} <= page.ids
    assert page.parts["title"].strip() == "a & b <c>"
    data = json.loads(page.parts["data"])
    assert len(data["name"]) == len(data["start"]) == len(data["row"]) == len(data["depth"]) == 10
    assert data["arrows"] and max(map(max, data["arrows"])) < 10
    assert {c["key"]: c["count"] for c in data["categories"]}["kernel"] == 2
    assert "stream 5" in text[text.index("<noscript>") : text.index("</noscript>")]


def test_names_are_escaped(small):
    evil = "</script><script>alert(1)</script><!--{{style}}"
    text = render(make_timeline([*small, work(evil, 0, 1090.0, 1.0, 9)]), evil)
    page = Page(text)
    assert evil in json.loads(page.parts["data"])["names"]
    assert text.count("<script") == 2


def test_invalid_traces_raise(tmp_path):
    path = tmp_path / "x.json"
    for content, message in [
        ("{", "is not JSON"),
        ("{}", "has no traceEvents"),
        ('{"traceEvents": []}', "no event with a duration"),
    ]:
        path.write_text(content)
        with pytest.raises(TraceError, match=message):
            read_timeline(path)
    done = python("-m", "torch_openreg", "timeline", str(path), code=1)
    assert "no event with a duration" in done.stderr
    done = python("-m", "torch_openreg", "timeline", str(tmp_path / "none.json"), code=1)
    assert "none.json" in done.stderr


def test_command_writes_next_to_the_trace(small, tmp_path):
    with gzip.open(tmp_path / "run.json.gz", "wt") as file:
        json.dump({"traceEvents": small}, file)
    done = python("-m", "torch_openreg", "timeline", str(tmp_path / "run.json.gz"))
    assert "10 events on 2 streams and 1 thread" in done.stdout
    assert "<title>run.json.gz</title>" in (tmp_path / "run.html").read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The page of a real training step on two streams."""
    folder = tmp_path_factory.mktemp("timeline")
    model = torch.nn.Linear(64, 64).to("openreg")
    side = torch.openreg.Stream()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        with record_function("a step"):
            x = torch.randn(64, 64).to("openreg")
            model(x).sum().backward()
        side.wait_stream(torch.openreg.current_stream())
        with torch.openreg.stream(side):
            x.mm(x)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    timeline = read_timeline(folder / "trace.json")
    (folder / "trace.html").write_text(render(timeline, "training"))
    return timeline, folder / "trace.html"


def test_real_trace_has_all_launches(trained):
    timeline, _ = trained
    streams = [row for row in timeline.rows if row.on_device]
    assert len(streams) == 2
    launches = sum(row.work for row in streams)
    assert launches >= 6
    assert len(timeline.arrows) == launches
    assert any(e.name == "a step" and e.category == "gpu_user_annotation" for e in timeline.events)


# ---- In a browser

PIXEL = """
  const color = (x, y) => {
    const ratio = window.devicePixelRatio;
    return [...document.getElementById("picture").getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
  };
  const move = (x, y, type = "pointermove") => document.getElementById("picture").dispatchEvent(
    new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true }));
  const box = document.getElementById("picture").getBoundingClientRect();
  HTMLCanvasElement.prototype.setPointerCapture = () => {};
  const { timeline } = window;
  timeline.draw();  // a headless browser has no animation frames
"""


@pytest.fixture
def drawn(small, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(render(make_timeline(small), "small"))
    return page


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_events_are_drawn_at_their_positions(drawn, dark):
    options = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    seen = ask(
        drawn,
        PIXEL
        + """
        document.getElementById("arrows").click();
        timeline.draw();
        const { data, toX, yOf } = timeline;
        const background = color(box.width - 3, box.height - 3);
        return {
          background,
          dark: matchMedia("(prefers-color-scheme: dark)").matches,
          events: data.name.map((_, i) => color(toX(data.start[i]) + 3, yOf(i) + 6)),
          category: data.category,
          legend: document.getElementById("legend").innerText,
        };
        """,
        *options,
    )
    assert seen["dark"] is dark
    assert (sum(seen["background"][:3]) < 150) is dark
    assert all(color != seen["background"] for color in seen["events"])
    one_of_each = {c: tuple(color[:3]) for c, color in zip(seen["category"], seen["events"], strict=True)}
    assert len(one_of_each) == 5
    assert len(set(one_of_each.values())) == 5
    assert "kernel 2" in seen["legend"] and "copy 1" in seen["legend"]


@needs_browser
def test_tooltip_and_selection(drawn):
    seen = ask(
        drawn,
        PIXEL
        + """
        const i = timeline.data.name.findIndex(n => timeline.data.names[n] === "aten::mm.out");
        const x = timeline.toX(timeline.data.start[i] + 10), y = timeline.yOf(i);
        move(x, y);
        const tooltip = document.getElementById("tooltip").innerText;
        move(x, y, "pointerdown"); move(x, y, "pointerup");
        move(5, 5);
        return { tooltip, hidden: document.getElementById("tooltip").hidden, selected: timeline.selected === i,
                 panel: document.getElementById("selected").innerText };
        """,
    )
    for text in (seen["tooltip"], seen["panel"]):
        assert "aten::mm.out" in text
        assert re.search(r"duration\s+20\.0 µs", text)
        assert re.search(r"operator\s+aten::mm", text)
        assert "[[8,4],[4,2]]" in text
    assert seen["hidden"] and seen["selected"]


@needs_browser
def test_zoom_pan_fold_and_search(drawn):
    seen = ask(
        drawn,
        PIXEL
        + """
        const span = () => timeline.view.to - timeline.view.from;
        const all = span();
        const fixed = timeline.toX(30);
        document.getElementById("picture").dispatchEvent(new WheelEvent("wheel",
          { deltaY: -400, clientX: box.left + fixed, clientY: box.top + 60, bubbles: true }));
        const zoomed = span(), stays = Math.abs(timeline.toX(30) - fixed);
        const before = timeline.view.from;
        move(600, 200, "pointerdown"); move(500, 200); move(500, 200, "pointerup");
        const moved = timeline.view.from - before;
        const height = timeline.rows[0].height;
        move(30, timeline.rows[0].top + 5, "pointerdown"); move(30, timeline.rows[0].top + 5, "pointerup");
        const folded = timeline.rows[0].height;
        const search = document.getElementById("search");
        search.value = "MM"; search.dispatchEvent(new Event("input"));
        const found = document.getElementById("found").textContent;
        document.getElementById("all").click();
        return { all, zoomed, stays, moved, expected: 100 / (box.width - 176) * zoomed, height, folded, found,
                 again: span() };
        """,
    )
    assert seen["zoomed"] < 0.6 * seen["all"]
    assert seen["stays"] < 0.5
    assert seen["moved"] == pytest.approx(seen["expected"], rel=0.01)
    assert seen["folded"] < seen["height"]
    assert seen["found"].startswith("2 found")
    assert seen["again"] == pytest.approx(seen["all"])


@needs_browser
def test_real_trace_opens_in_a_browser(trained, tmp_path):
    timeline, page = trained
    seen = ask(page, PIXEL + "return { rows: timeline.rows.length, events: timeline.data.name.length };")
    assert seen == {"rows": len(timeline.rows), "events": len(timeline.events)}
    picture = tmp_path / "picture.png"
    browse(page, f"--screenshot={picture}")
    assert picture.stat().st_size > 10_000
