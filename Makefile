# make demo: set up with nothing but Python and make, and run the main job on the bundled traces.
# make test: set up with the test extras, and run lint, types, the build of the documents, and all tests.
#            As root it first installs Chromium with apt-get where there is none; the tests in a browser skip without.
# make interrupts: set up with the test extras, and interrupt and kill commands at random moments, 1,000 times each.
# make stress MINUTES=10: capture programs to which all kinds of things happen (docs/stress.md).
# make fuzz: set up with the test extras, and try mutants of small traces for MINUTES=30.
# make docs: set up with the docs extra, and build the documentation site in site/.

PYTHON ?= python3
SECONDS ?= 60
# Half as many again as processors: tests wait for the programs that they capture, interrupt and serve.
PROCESSORS := $(shell $(PYTHON) -c 'import os; print(len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))')
WORKERS ?= $(shell expr $(PROCESSORS) \* 3 / 2)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test fuzz interrupts stress sanitize chromium lint lint-native format types docs clean

demo: $(VENV)/.installed
	$(BIN)/tracebraid demo

# Hundreds of commands are started, and each would compile its modules where Python is told to write no bytecode.
test: lint types docs chromium
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Captured programs to which all kinds of things happen, for so many minutes; then the table of what was tried.
stress: MINUTES ?= 10
stress: $(VENV)/.installed-test
	$(BIN)/python -m tools.stress --minutes $(MINUTES) --growth

# The native recorder under ThreadSanitizer and AddressSanitizer; a short form is one of the tests.
sanitize: $(VENV)/.installed-test
	$(BIN)/python tools/sanitize_recorder.py $(SECONDS) thread
	$(BIN)/python tools/sanitize_recorder.py $(SECONDS) address

# docs/fuzzing.md says what to do with what fails.
fuzz: MINUTES ?= 30
fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tools.fuzz --minutes $(MINUTES) --failures fuzz-failures --minimise

# docs/interrupts.md says what is judged.
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

# All of the C++, with the headers of PyTorch: minutes.
lint-native: $(VENV)/.installed-test
	$(BIN)/python tools/lint_native.py --all

format: $(VENV)/.installed-test
	$(BIN)/ruff format .
	$(BIN)/deno fmt --quiet
	$(BIN)/clang-format -i src/tracebraid/recorders/native/*.h src/tracebraid/recorders/native/*.cpp \
		tests/integration/scripts/*.cpp

types: $(VENV)/.installed-test
	$(BIN)/mypy

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Tracebraid needs Python 3.10 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
