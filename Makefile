# `make demo` is the whole way on a fresh clone; `make test` is what has to pass before a change is in.
# PYTHON picks the interpreter (3.11 to 3.13), VENV the environment, ARGS go to the demo: make demo ARGS="--quick"
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --quiet --no-header
PARALLEL := --dist=loadgroup --numprocesses
TOGETHER = $(MAKE) --no-print-directory --jobs=3 lint without-ros
LAST := nice -n 19
AGAIN := --last-failed --last-failed-no-failures none
REAL_TIME = $(PYTEST) -o cache_dir=.pytest_cache/ros
in_real_time = { $(REAL_TIME) $(2) -m $(1) || { echo "once more, one at a time:"; $(REAL_TIME) $(AGAIN) $(3) -m $(1); }; }
IN_ITS_NAME = 2>&1 | sed -u 's/^/$@: /'
PACKAGING := pyproject.toml setup.cfg setup.py constraints.txt
SHELL := bash
.SHELLFLAGS := -o pipefail -c
# Tests start hundreds of processes: each would compile all that it imports again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick without-ros with-ros lint docs clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@$(BIN)/phalanx demo $(ARGS)

# Robots in real time, two teams at a time, wait for more than half of the time. What needs no wall clock computes
# meanwhile, with the least priority. Then, one after the other and with the machine to itself, comes what measures how
# punctual robots are. The quick demo is among the latter (tests/test_demo.py), so the whole way cannot break unseen.
# Robots in real time share the machine with whatever else it does: those that fail are tried once more, one at a
# time. What failed first is printed; what fails again has failed.
test:
	@$(TOGETHER) with-ros MARKED="not ros" BEHIND="$(LAST)"; status=$$?; \
		$(call in_real_time,"ros and alone") && exit $$status

quick:
	@$(TOGETHER) MARKED="not ros and not slow"

without-ros: $(VENV)/.installed-dev
	@$(BEHIND) $(PYTEST) $(PARALLEL) logical --maxprocesses 4 -m "$(MARKED)" $(IN_ITS_NAME)

with-ros: $(VENV)/.installed-dev
	@$(call in_real_time,"ros and not alone",$(PARALLEL) 2,$(PARALLEL) 1) $(IN_ITS_NAME)

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/lint-imports
	@$(BEHIND) $(BIN)/mypy

# What each task observes, commands, rewards and randomises, what shields guarantee and what contracts hold, written
# from the code; and how far shipped policies may be pushed, from their records.
docs: $(VENV)/.installed
	@$(BIN)/phalanx tasks --markdown build/docs
	@$(BIN)/phalanx robots --markdown docs/shield.md
	@$(BIN)/phalanx inspect --markdown docs/contract.md
	@$(BIN)/phalanx verify --markdown zoo/README.md

$(VENV)/.installed: $(PACKAGING) | $(BIN)/python
	@echo "Installing phalanx into $(VENV); this takes a few minutes the first time ..."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[all,dev]"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "phalanx needs Python 3.11 to 3.13; $$($(PYTHON) --version) is too old or too new: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist *.egg-info runs .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
