# make demo   a census model trained, optimised, checked and timed
# make test   lint, types, formatting, then the tests
# Both do their own set-up; `make venv` stops after it. PYTHON chooses the interpreter (3.10-3.13).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.stamp-run
DEV_STAMP := $(VENV)/.stamp-dev
BUILD_STAMP := build/.stamp

PY_DIRS := $(wildcard tf_blade feature_column benchmarks examples tests)
CXX_SOURCES := $(shell find cc ops -name '*.cc' -o -name '*.h' -o -name '*.cu' 2>/dev/null)
BUILD_FILES := $(wildcard setup.py CMakeLists.txt pyproject.toml) \
    $(shell find cc ops -name CMakeLists.txt -o -name '*.cmake' 2>/dev/null)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Two test processes: TensorFlow uses every core in each, and each needs about a gigabyte.
PYTEST_FLAGS ?= -q -n 2 --dist loadfile

.PHONY: demo test lint check fmt venv build clean distclean
.DEFAULT_GOAL := demo

demo: $(BUILD_STAMP)
	$(BIN)/python -m examples.census.demo

test: lint check

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PY_DIRS)
	$(if $(CXX_SOURCES),$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES))

check: $(DEV_STAMP) $(BUILD_STAMP)
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

fmt: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(CXX_SOURCES),$(BIN)/clang-format -i $(CXX_SOURCES))

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

$(BUILD_STAMP): $(RUN_STAMP) $(CXX_SOURCES) $(BUILD_FILES)
	tools/system_packages.sh $(BIN)/python
	$(BIN)/python setup.py build_ext --inplace
	@mkdir -p $(@D)
	@touch $@

clean:
	rm -rf build dist *.egg-info tf_blade/_lib .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
