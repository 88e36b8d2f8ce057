# The two commands that matter are `make demo` and `make test`; both set up .venv first.
# PYTHON=python3.13 VENV=.venv-3.13 uses another Python in an environment of its own.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One more than there are cores, since some tests wait for something.
WORKERS = $(shell $(BIN)/python -c "import os; print((os.cpu_count() or 1) + 1)")
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

.PHONY: demo test test-all faults fuzz live coverage lint types format parity bench contract reference docs lock wheel clean

demo: $(INSTALLED)
	@$(BIN)/mooring demo

# What you run while you work: under five minutes on two cores.
test: $(READY)
	$(PYTEST) -m "not slow"

test-all: $(READY)
	$(PYTEST)

# The scheduler against a real API server: KUBEBUILDER_ASSETS or MOORING_TEST_KUBECONFIG says which.
live: $(READY)
	@test -n "$$KUBEBUILDER_ASSETS$$MOORING_TEST_KUBECONFIG" || \
	  { echo "set KUBEBUILDER_ASSETS or MOORING_TEST_KUBECONFIG: see CONTRIBUTING.md" >&2; exit 2; }
	$(BIN)/python -m pytest tests/live

# A million requests in virtual time with faults from seeds: see CONTRIBUTING.md.
faults: $(READY)
	$(BIN)/python -m tests.faults --seeds 900 --steps 1000

coverage: $(READY)
	$(PYTEST) -m "not slow" --cov=mooring --cov-report=term:skip-covered | tail -n 60

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Read mutated inputs with everything that reads what comes from outside; see CONTRIBUTING.md.
FUZZ_EXECUTIONS ?= 100000
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --executions $(FUZZ_EXECUTIONS)

# Compare decisions with kube-scheduler's recorded ones. PARITY_DIRS=… replays other scenarios.
parity: $(READY)
	$(BIN)/python -m tests.parity $(PARITY_DIRS)

bench: $(READY)
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.gangs

# Rewrite the pinned text of the public Python API (tests/contract).
contract: $(READY)
	$(BIN)/python -m tests.contract

# Regenerate docs/reference from docstrings, flags and metrics.
reference: $(READY)
	$(BIN)/python -m tests.docs.reference

# The documentation site in site/. Broken links fail the build.
docs: $(READY)
	$(BIN)/python -m tests.docs.reference --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Pin the development environment.
lock: $(READY)
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command "make lock" --extra fast --group dev pyproject.toml --output-file requirements.lock

wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[fast]'
	@touch $@

$(READY): $(INSTALLED)
	$(PIP) 'pip>=25.1'
	$(PIP) --group dev
	@touch $@

clean:
	rm -rf $(VENV) site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
