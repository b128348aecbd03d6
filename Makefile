# `make demo` and `make test` work in a fresh clone with Python 3.11+; a second run does not reinstall.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-all lint format site figures bench clean

demo: $(VENV)/installed
	$(BIN)/bellsketch demo --out runs/demo

test: lint
	$(BIN)/python -m pytest -n 2

test-all: lint
	$(BIN)/python -m pytest -n 2 -m ""

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site: build/site/index.html"

figures: $(VENV)/installed
	$(BIN)/bellsketch reproduce all --scale full --out docs/figures
	$(BIN)/python -m bellsketch.experiments.claims_page docs/figures

bench: $(VENV)/installed-dev
	$(BIN)/bellsketch bench tabular
	$(BIN)/python benchmarks/core.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/structure.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/coefficients.py
	$(BIN)/python benchmarks/baselines.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/deep.py --quick --no-peer

clean:
	rm -rf $(VENV) runs build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "bellsketch needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --editable . --constraint constraints.txt
	touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.txt
	$(PIP) install --quiet --editable ".[deep,cluster,docs,explore]" --requirement requirements-dev.txt --constraint constraints.txt
	touch $@
