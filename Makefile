# Every target makes what it needs in .venv. `make` prints the list.

VENV  := .venv
BIN   := $(VENV)/bin
READY := $(VENV)/.ready

PYTEST := $(BIN)/python -m pytest
LANES  := -n 3 --dist loadgroup

# Python keeps what it has compiled, also where the shell says otherwise: hundreds of processes start in the tests.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test check lint format bench docs lock clean java

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) java ## Run the quickstart end to end on an embedded database
	$(BIN)/python examples/quickstart/demo.py

test: $(READY) java ## Run the whole test suite
	$(PYTEST) $(LANES)

check: $(READY) java ## Run the fast tests (nothing slow, no servers, no documentation)
	$(PYTEST) $(LANES) -m "not slow and not server and not docs"

lint: $(READY) ## Check format, style, types and the rings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/lint-imports

format: $(READY) ## Rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) java ## Measure speed and memory, into docs/benchmarks.md
	$(BIN)/python -m benchmarks --write $(BENCH)

docs: $(READY) ## Write generated tables and build the documentation into site/, warnings are errors
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/connection_kinds.py
	$(BIN)/mkdocs build --strict

lock: $(READY) ## Choose package versions again and write requirements.lock
	$(BIN)/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
	    --all-extras --group test --group lint --group docs --group bench --group tools \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	    --output-file requirements.lock

clean: ## Remove the environment and everything that was generated
	rm -rf $(VENV) site dist build .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf .demo spark-warehouse metastore_db derby.log
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

java:
	@scripts/bootstrap.sh java

$(READY): requirements.lock pyproject.toml scripts/bootstrap.sh
	scripts/bootstrap.sh packages
	@touch $@
