"""``python -m torch_openreg <command>``. Each command is a module in the table below.

A command module defines ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> exit code``. torch and the device
are not loaded before ``run``: a command that needs them loads them there.
"""

import argparse
import os
import signal
import sys
from importlib import import_module

COMMANDS = {
    "api-report": "torch_openreg.api_report",
    "doctor": "torch_openreg.doctor",
    "driver-check": "torch_openreg.driver_check",
    "new": "torch_openreg.new",
    "ops": "torch_openreg.ops",
    "sweep": "torch_openreg.sweep",
    "timeline": "torch_openreg.timeline",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_openreg")
    commands = parser.add_subparsers(metavar="command", required=True)
    for name, module_name in COMMANDS.items():
        module = import_module(module_name)
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments)


def _run() -> int:
    """As a program in a pipe: ends without a message if the reader, such as ``head``, has ended."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it at exit
        return 128 + signal.SIGPIPE
    return code


if __name__ == "__main__":
    sys.exit(_run())
