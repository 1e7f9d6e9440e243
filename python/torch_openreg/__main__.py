"""``python -m torch_openreg <command>``. One small module per command, found in the table below.

A command's module has ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> exit code``. Nothing is
loaded before ``run``: a command that needs torch or the device imports torch there, and then calls
``torch_openreg._autoload()``.
"""

import argparse
import sys
from importlib import import_module

COMMANDS = {
    "doctor": "torch_openreg.doctor",
    "ops": "torch_openreg.ops",
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


if __name__ == "__main__":
    sys.exit(main())
