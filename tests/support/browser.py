"""A headless browser for tests of pages: what a program inside of the page finds out."""

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
    """Opens the page with the network off and returns its document as it is in the end."""
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
    """Runs a program in the page, once it is loaded. What the program's function returns comes back; what it
    throws fails the test.
    """
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
    asking = page.with_name(f"asking-{page.name}")
    asking.write_text(page.read_text().replace("<head>", "<head>" + probe % program, 1))
    document = browse(asking, "--dump-dom", *options)
    found = re.search(r'<pre id="answer">([^<]*)</pre>', document)
    assert found, document[-2000:]
    import base64

    said = json.loads(base64.b64decode(found[1]))
    assert said["errors"] == []
    return said["answer"]
