"""Parses traces of torch.profiler."""

import json

from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


class Trace:
    """A parsed Chrome trace."""

    def __init__(self, profiler, folder):
        path = folder / f"trace{len(list(folder.iterdir()))}.json"
        profiler.export_chrome_trace(str(path))
        self.file = json.loads(path.read_text())
        self.events = self.file["traceEvents"]

    def of(self, *categories):
        found = [e for e in self.events if e.get("ph") == "X" and e.get("cat") in categories]
        return sorted(found, key=lambda e: e["ts"])

    @property
    def work(self):
        return self.of(*WORK)

    @property
    def calls(self):
        return self.of("privateuse1_runtime")

    def named(self, name):
        return [e for e in self.events if e.get("ph") == "X" and e["name"] == name]

    def row_names(self, kind):
        return {
            (e["pid"], e["tid"]): next(iter(e["args"].values())) for e in self.events if e["name"] == kind
        }


def end(event):
    return event["ts"] + event["dur"]


def row(event):
    return event["pid"], event["tid"]


def trace_of(body, folder, **options):
    with profile(activities=BOTH, **options) as profiler:
        body()
    return Trace(profiler, folder)
