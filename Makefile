# Two commands for everybody: `make test` checks all there is, `make demo` shows what it is for.
# Each makes its own virtual environment here; a machine needs only python3 (with venv) and make.

PYTHON ?= python3
TESTS ?= tests
WORKERS ?= 2
ROWS ?= 200000

# An environment is made anew when pyproject.toml, the interpreter or this directory's place changes.
KEY := $(shell $(PYTHON) -c 'import hashlib, os, sys; \
	print(hashlib.sha256(open("pyproject.toml", "rb").read() + (sys.version + os.getcwd()).encode()).hexdigest()[:16])')
PIP = -m pip --disable-pip-version-check --no-input -qq
DEV = .venv/bin/python

.DELETE_ON_ERROR:
.PHONY: test demo venv lint format types layers unit bench ddl clean

test: lint types layers unit

demo: .venv-demo/made-$(KEY)
	@PATH="$$PWD/.venv-demo/bin:$$PATH" sh docs/demo.sh

venv: .venv/made-$(KEY)

lint: venv
	@$(DEV) -m ruff check --quiet .
	@$(DEV) -m ruff format --check --quiet . || { echo "run: make format"; exit 1; }

format: venv
	@$(DEV) -m ruff check --fix --quiet .
	@$(DEV) -m ruff format --quiet .

types: venv
	@$(DEV) -m mypy

layers: venv
	@$(DEV) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

unit: venv
	@$(DEV) -m pytest -q -n $(WORKERS) $(TESTS)

# How fast is a backfill beside `sqlite3 .import`? A table of ratios; it needs the sqlite3 command.
bench: venv
	@$(DEV) -m tests.bench --rows $(ROWS)

# Render sql/ again after a change of the tables.
ddl: venv
	@for kind in sqlite postgresql; do \
		$(DEV) -c 'import sys; from filecollect.store.ddl import render; sys.stdout.write(render(sys.argv[1]))' \
			$$kind > sql/$$kind.sql; \
	done

clean:
	rm -rf .venv .venv-demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist

.venv/made-%:
	@echo "making .venv with everything for tests"
	@$(PYTHON) -m venv --clear .venv
	@.venv/bin/python $(PIP) install -e '.[all,dev]'
	@touch $@

.venv-demo/made-%:
	@echo "making .venv-demo"
	@$(PYTHON) -m venv --clear .venv-demo
	@.venv-demo/bin/python $(PIP) install -e .
	@touch $@
