"""A headless browser for tests of HTML pages: runs JavaScript in the page and returns its result."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"])), None
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no browser is installed; `make test-browser` installs one and runs this"
)


def browse(page: Path, *options: str) -> str:
    """Opens the page without network access; returns the browser's output, e.g. the DOM with ``--dump-dom``."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={home}",
                "--window-size=1280,720",
                "--virtual-time-budget=4000",
                *options,
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(page: Path, program: str, *options: str) -> dict:
    """Runs JavaScript in the loaded page and returns its return value. An exception in the page fails the test."""
    probe = """
<script>
const errors = [];
window.addEventListener("error", event => errors.push(event.message));
window.addEventListener("load", () => setTimeout(async () => {
  let answer;
  try { answer = await (async () => { %s })(); } catch (error) { errors.push(String(error)); }
  const out = document.createElement("pre");
  out.id = "answer";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify({ answer, errors }))));
  document.body.append(out);
}, 50));
</script>
"""
    instrumented = page.with_name(f"instrumented-{page.name}")
    instrumented.write_text(page.read_text().replace("<head>", "<head>" + probe % program, 1))
    document = browse(instrumented, "--dump-dom", *options)
    found = re.search(r'<pre id="answer">([^<]*)</pre>', document)
    assert found, document[-2000:]
    import base64

    result = json.loads(base64.b64decode(found[1]))
    assert result["errors"] == []
    return result["answer"]
