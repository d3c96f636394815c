# Two commands do everything: `make demo` and `make test`. Each builds .venv when it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-device lint types bench clean

demo: $(STAMP)
	$(BIN)/ptxgraft demo -o demo-out

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 -q

# The tests that need an NVIDIA GPU; without one they are skipped, and say why.
test-device: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cuda]'
	$(BIN)/python -m pytest -n 0 -q -m device

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/pyright

bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo-out build dist
