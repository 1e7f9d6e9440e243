#!/bin/sh
# Installs missing system packages for the build with apt-get if run as root; otherwise prints their names.
# usage: system.sh PYTHON [browser|benchmark]
set -eu
python=$1
extra=${2:-}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  { echo "Python 3.10 or later is required. Set PYTHON, for example: make PYTHON=python3.11" >&2; exit 1; }

missing=
command -v g++ >/dev/null || missing="$missing g++"
command -v make >/dev/null || missing="$missing make"
"$python" -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"
test -f "$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ||
  missing="$missing python3-dev"
test -f /usr/include/gtest/gtest.h || test -f /usr/local/include/gtest/gtest.h || missing="$missing libgtest-dev"
if [ "$extra" = browser ]; then
  command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing="$missing chromium"
fi
if [ "$extra" = benchmark ]; then
  test -f /usr/include/benchmark/benchmark.h || test -f /usr/local/include/benchmark/benchmark.h ||
    missing="$missing libbenchmark-dev"
fi
test -n "$missing" || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "Missing:$missing. On Debian or Ubuntu: sudo apt-get install$missing" >&2
  exit 1
fi
