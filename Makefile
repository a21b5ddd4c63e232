# One command each; every one sets up what it needs first.
# The system's where it will do: distributions compile theirs with optimisation, pyenv does not (1.4 times the time).
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; assert sys.version_info >= (3, 11)' 2>/dev/null && echo /usr/bin/)python3
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := .venv/.installed
TOUR_STAMP := .venv/.installed-tour
SOURCES := pyproject.toml constraints.txt hatch_build.py $(wildcard src/horizonfree/native/*.[ch])
INSTALL := $(BIN)/uv pip install -q --compile-bytecode --reinstall-package horizonfree -c constraints.txt

.PHONY: install tour test test-all test-core test-versions soak check lint bench reproduce-small browser notebooks docs constraints wheels cibuildwheel clean

install: $(STAMP)  ## the library, its tests and its peers, in .venv

$(STAMP): $(SOURCES)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q uv
	$(INSTALL) -e '.[dev]'
	@touch $(STAMP) $(TOUR_STAMP)

$(TOUR_STAMP): $(SOURCES)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q uv
	$(INSTALL) -e '.[report]'
	@touch $(TOUR_STAMP)

tour: $(TOUR_STAMP)  ## the main job: explore, plan, certify, draw; needs the core and the report only
	$(BIN)/horizonfree tour

browser:  ## Chromium for the browser tests, where we are root and have apt; else they are skipped, and say so
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && export DEBIAN_FRONTEND=noninteractive && \
	  for x in chromium-headless-shell chromium; do apt-get install -y -qq --no-install-recommends $$x >/dev/null && break; done; } || \
	  echo "No Chromium here: browser tests will be skipped. Install the package chromium to run them."

test: $(STAMP) browser  ## every test that is not marked slow
	$(BIN)/pytest -n 2 --dist loadfile -m 'not slow'

test-all: $(STAMP) browser  ## every test, with long adversarial runs and thorough fuzzing of every public function
	HYPOTHESIS_PROFILE=thorough $(BIN)/pytest -n 2 --dist loadfile

test-core: $(STAMP)  ## the README's code and tests of the core, which need nothing of POSIX
	$(BIN)/python tests/readme.py
	$(BIN)/pytest -m 'not slow' tests/test_extras.py tests/guarantees tests/mdp tests/theory

test-versions: $(STAMP)  ## tour and core tests with the lowest and newest dependencies, on every Python found, or VERSIONS="--python 3.12 --only lowest"
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tests/versions.py $(VERSIONS)

soak: $(STAMP)  ## the playground's server, ten minutes of questions and of nonsense
	$(BIN)/python benchmarks/soak.py

lint: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/uv pip check -q

check: lint test  ## what a change must pass

bench: $(STAMP)  ## speed, side by side with peers
	$(BIN)/uv pip install -q --compile-bytecode -c constraints.txt -e '.[dev,bench]'
	for script in $(filter-out benchmarks/soak.py benchmarks/bits.py benchmarks/device.py,$(wildcard benchmarks/[a-z]*.py)); do $(BIN)/python $$script || exit 1; done

notebooks: $(STAMP)  ## execute the notebooks and write their pages, docs/notebooks/
	$(BIN)/python notebooks/build.py

docs: $(STAMP)  ## the site, into site/: open site/index.html, or `python -m http.server -d site` for its search
	PYTHONPATH=docs $(BIN)/zensical build --clean --strict
	$(BIN)/python playground/build.py site/playground

reproduce-small: $(STAMP)  ## the paper's claims, measured in a reduced form, tables into out/reproduce-small
	$(BIN)/python experiments/reproduce/run.py --small --workers 2
	$(BIN)/python experiments/reproduce/figure.py out/reproduce-small
	$(BIN)/python experiments/table1/table.py out/reproduce-small

constraints: $(STAMP)  ## rewrite constraints.txt from pyproject.toml
	$(BIN)/uv pip compile -q --universal --no-annotate --no-header --all-extras --no-emit-index-url --generate-hashes \
	  pyproject.toml -o constraints.txt

wheels: $(STAMP)  ## the sdist and the wheel of this machine, and a pure wheel, into dist/
	$(BIN)/uv build -q --out-dir dist
	HORIZONFREE_PURE=1 $(BIN)/uv build -q --out-dir dist

cibuildwheel: $(STAMP)  ## the wheel of this kind of machine as it is published, into dist/; needs Docker on Linux
	$(BIN)/uv tool run cibuildwheel --output-dir dist

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache out site dist
