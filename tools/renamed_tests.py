"""Copies the tests, with another name for the device: `make test-name` runs them.

    python tools/renamed_tests.py foo build/renamed

Names of the package, its files and its C interface stay, and so do the settings of the simulated device and of the
choice of the driver.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
# The name of the device, but not a part of torch_openreg, torch_openreg.openreg, openreg.h, torch.ops.openreg or
# openreg::operator.
NAME = re.compile(r"(?<![\w/])(?<!torch_openreg\.)(?<!torch\.ops\.)(?<!simulated )openreg(?![\w/]|\.h\b|::)")
METHOD = re.compile(r"\bis_openreg\b")
SETTING = re.compile(r"\bOPENREG_(?=(ALLOC_CONF|AUTOLOAD|HOST_ENGINE|SCHEDULE|SEED)\b)")


def renamed(text: str, name: str) -> str:
    text = NAME.sub(name, text)
    text = METHOD.sub(f"is_{name}", text)
    return SETTING.sub(f"{name.upper()}_", text)


def copy(name: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for source in sorted(TESTS.rglob("*.py")):
        copied = target / source.relative_to(TESTS)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(renamed(source.read_text(), name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of the device")
    parser.add_argument("target", type=Path, help="folder of the copy")
    given = parser.parse_args()
    copy(given.name, given.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
