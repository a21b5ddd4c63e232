# One command each; every one sets up what it needs first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install tour test test-all check lint bench constraints clean

install: $(STAMP)  ## the library, its tests and its peers, in .venv

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q uv
	$(BIN)/uv pip install -q --compile-bytecode -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

tour: $(STAMP)  ## the main job: explore, plan, certify, draw
	$(BIN)/horizonfree tour

test: $(STAMP)  ## every test that is not marked slow
	$(BIN)/pytest -n 2 -m 'not slow'

test-all: $(STAMP)  ## every test
	$(BIN)/pytest -n 2

lint: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test  ## what a change must pass

bench: $(STAMP)  ## speed, side by side with peers
	$(BIN)/uv pip install -q --compile-bytecode -c constraints.txt -e '.[dev,bench]'
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

constraints: $(STAMP)  ## rewrite constraints.txt from pyproject.toml
	$(BIN)/uv pip compile -q --universal --no-annotate --no-header --all-extras --no-emit-index-url pyproject.toml -o constraints.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis out
