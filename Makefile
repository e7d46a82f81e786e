# make demo   a census model trained, optimised, checked and timed
# make test   lint, types, formatting, then the tests
# make fuzz   random graphs for MINUTES=5, compared with TensorFlow; FUZZ_FLAGS="--seed 1"
# All do their own set-up; `make venv` stops after it. PYTHON chooses the interpreter (3.10-3.13).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.stamp-run
DEV_STAMP := $(VENV)/.stamp-dev
BUILD_STAMP := build/.stamp

PY_DIRS := $(wildcard tf_blade feature_column benchmarks examples tests setup.py)
CXX_SOURCES := $(shell find cc ops -name '*.cc' -o -name '*.h')
# The header of generated code lives with the printer of that code.
CXX_FORMATTED := $(CXX_SOURCES) $(shell find tf_blade/compiler -name '*.h') $(wildcard examples/cpp/*.cc examples/patterns/*.c tests/patterns/*.c)
BUILT := $(wildcard tf_blade/_lib/libtf_blade_ops.so)
# CMake, Ninja and the like come from the virtual environment where the machine has none.
IN_VENV := PATH="$(CURDIR)/$(BIN):$$PATH"
# Modules are compiled when first imported: TensorFlow has thousands that never are.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

# Two test processes: TensorFlow uses every core in each, and each needs about a gigabyte.
PYTEST_FLAGS ?= -q -n 2 --dist loadfile

MINUTES ?= 5
FUZZ_FLAGS ?=

.PHONY: demo test lint check fuzz fmt venv build clean distclean FORCE
.DEFAULT_GOAL := demo

demo: $(BUILD_STAMP)
	$(IN_VENV) python -m examples.census.demo

test: lint check

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PY_DIRS)
	$(BIN)/clang-format --dry-run --Werror $(CXX_FORMATTED)

check: $(DEV_STAMP) $(BUILD_STAMP)
	$(IN_VENV) python -m pytest $(PYTEST_FLAGS)

fuzz: $(DEV_STAMP) $(BUILD_STAMP)
	$(IN_VENV) python -m tests.fuzz --minutes $(MINUTES) $(FUZZ_FLAGS)

fmt: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FORMATTED)

venv: $(DEV_STAMP) $(BUILD_STAMP)
	@echo "Ready: . $(BIN)/activate"

build: $(BUILD_STAMP)

$(BIN)/python:
	tools/system_packages.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): requirements.txt | $(BIN)/python
	@echo "Installing requirements.txt into $(VENV) (TensorFlow is large: a minute or two)"
	$(PIP) -r requirements.txt
	@touch $@

$(DEV_STAMP): requirements-dev.txt requirements-models.txt $(RUN_STAMP)
	@echo "Installing requirements-dev.txt into $(VENV)"
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps -r requirements-models.txt
	@touch $@

$(BUILD_STAMP): $(RUN_STAMP) $(CXX_SOURCES) setup.py CMakeLists.txt $(if $(BUILT),,FORCE)
	tools/system_packages.sh $(BIN)/python
	$(IN_VENV) python setup.py --quiet build_ext --inplace
	@mkdir -p $(@D)
	@touch $@

clean:
	rm -rf build dist *.egg-info tf_blade/_lib tf_blade/_runtime*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
