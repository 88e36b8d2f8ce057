# The two commands that matter are `make demo` and `make test`; both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One more than there are cores, since some tests wait for something.
WORKERS = $(shell $(BIN)/python -c "import os; print((os.cpu_count() or 1) + 1)")

.PHONY: demo test lint types format parity bench clean

demo: $(READY)
	@$(BIN)/mooring demo

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Do we decide as kube-scheduler does? PARITY_DIRS=… replays other scenarios.
parity: $(READY)
	$(BIN)/python -m tests.parity $(PARITY_DIRS)

bench: $(READY)
	$(BIN)/python -m benchmarks.core

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
