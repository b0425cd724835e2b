# `make demo` shows the project, `make federation` runs a real federation on this machine, `make test` checks it.
# Each sets up all it needs in .venv on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Where torch comes from: by default the package index. On a machine without a GPU PyTorch's own index of CPU builds
# saves gigabytes: make test TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
# What `make mutants` changes, and how many changes it tries.
FOLDER ?= potluck/core
COUNT ?= 200

.PHONY: demo federation docs test test-all mutants fuzz fuzz-guided chaos bench-gpu methods lint types format clean

# torch goes first, so that it may come from an index of its own.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/potluck demo

federation: $(READY)
	$(BIN)/python examples/three_organisations/run.py

# The documentation as a site, in build/site; a warning is an error.
docs: $(READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --conf-dir docs --builder html . build/site
	@echo "file://$(CURDIR)/build/site/index.html"

# A process for each core, with one thread: more would get in each other's way.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --durations=10 --cov --cov-report=term

test: lint types
	$(PYTEST)

test-all: lint types
	$(PYTEST) -m ''

# How many small mistakes in a folder its tests notice; an hour at most.
mutants: $(READY)
	$(BIN)/python -m tools.mutants $(FOLDER) --count $(COUNT)

# A million damaged payloads, heads of messages and run files; half an hour at most.
fuzz: $(READY)
	$(BIN)/python -m tools.fuzz

# The same as far as their code leads, two minutes each; atheris is installed for it alone, and needs Linux or macOS.
fuzz-guided: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check atheris==3.0.0
	$(BIN)/python -m tools.fuzz_guided

# kill -9 at random moments, 160 times on local engines and 40 times over Flower; two hours at most.
chaos: $(READY)
	$(BIN)/python -m tools.chaos

# All that is to be shown on a GPU: tests, steps, first and whole rounds; half an hour. Needs a GPU, and says so.
bench-gpu: $(READY)
	$(BIN)/python -m benchmarks.gpu_checks

# The page of methods, docs/methods.md, from the code; python -m tools.methods_page --measure also measures what they cost.
methods: $(READY)
	$(BIN)/python -m tools.methods_page

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint deploy/Containerfile

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
