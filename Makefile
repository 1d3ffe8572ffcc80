# `make demo` is the whole way on a fresh clone; `make test` is what has to pass before a change is in.
# PYTHON picks the interpreter (3.11 to 3.13), VENV the environment, ARGS go to the demo: make demo ARGS="--quick"
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --quiet --no-header
PARALLEL := --dist=loadgroup --numprocesses
BESIDE_LINT = $(MAKE) --no-print-directory --jobs=2 lint without-ros
IDLE := $(shell command -v chrt >/dev/null && echo chrt --idle 0)
REPORT := build/tests.txt
OWN_CACHE := -o cache_dir=.pytest_cache/without-ros
ROBOTS := (ros or real_time)
again = echo "once more, one at a time:"; $(PYTEST) --last-failed --last-failed-no-failures none $(1)
PACKAGING := pyproject.toml setup.cfg setup.py constraints.txt $(wildcard deploy/shield/native/*.*)
# The other side of the Franka's driver needs other versions of libraries. FRANKY_SIM=THERE names one of your own.
FRANKY_VENV := $(abspath $(VENV))-franky-sim
FRANKY_PACKAGE := franky-sim==1.0.4
export FRANKY_SIM ?= $(FRANKY_VENV)
# Tests start hundreds of processes: each would compile all that it imports again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick franky-sim without-ros lint docs clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@$(BIN)/phalanx demo $(ARGS)

# Robots in real time wait more than they compute. What needs no wall clock takes what they leave of the cores: it runs in
# the kernel's class for idle time, and its report comes last. Then, one after the other, what
# measures how punctual robots are. The quick demo is among these (tests/command/test_demo.py): the whole way cannot break unseen.
# Robots do not feel that class, but where a virtual machine's host takes full cores away for 0.1 s. So those that fail are
# tried once more, one at a time, robots when nothing else runs any more. What failed first is printed; what fails again has failed.
test: $(VENV)/.installed-dev franky-sim
	@mkdir -p build; $(IDLE) $(BESIDE_LINT) MARKED="not ros and not real_time" >$(REPORT) 2>&1 & others=$$!; \
		trap "kill $$others" INT TERM; robots=0; \
		$(PYTEST) $(PARALLEL) 3 -m "$(ROBOTS) and not alone" || robots=1; \
		$(PYTEST) -m "$(ROBOTS) and alone" || robots=1; \
		echo "beside them, what needs no wall clock:"; \
		tail --lines=+1 --follow --pid=$$others $(REPORT); wait $$others; status=$$?; \
		[ $$robots = 0 ] || { $(call again,$(PARALLEL) 1) -m "$(ROBOTS)"; } || status=1; exit $$status

quick:
	@$(BESIDE_LINT) MARKED="not ros and not slow"

without-ros: $(VENV)/.installed-dev
	@$(PYTEST) $(PARALLEL) logical --maxprocesses 4 $(OWN_CACHE) -m "$(MARKED)" || { $(call again,$(OWN_CACHE)) -m "$(MARKED)"; }

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/lint-imports
	@$(BIN)/mypy

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

franky-sim: $(FRANKY_VENV)/.$(FRANKY_PACKAGE)

# Never fails: without it the tests that need it are skipped. What was begun and could not be ended is taken away.
$(FRANKY_VENV)/.$(FRANKY_PACKAGE): | $(BIN)/python
	@{ $(BIN)/python -m venv $(FRANKY_VENV) && \
		$(FRANKY_VENV)/bin/python -m pip install --quiet --retries 1 --timeout 10 $(FRANKY_PACKAGE) && touch $@; } || \
		{ rm -rf $(FRANKY_VENV); echo "no $(FRANKY_PACKAGE) here: the Franka's driver is tested without an arm"; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
		{ echo "phalanx needs Python 3.11 to 3.13; $$($(PYTHON) --version) is too old or too new: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) $(FRANKY_VENV) build dist *.egg-info runs .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
