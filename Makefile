# The commands of this project. Each does its own set-up; `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TARGET ?= demo-output
# A Python with a CUDA build of torch, triton and transformers.
GPU_PYTHON ?= $(PYTHON)
# Processes that share the tests.
TEST_PROCESSES ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-s3 test check soak bench gpu clean

help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "make %-9s %s\n", $$1, $$2}'

$(BIN)/fastocr: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@ $(BIN)/fastocr

setup: $(VENV)/.dev ## make .venv with everything that development needs

demo: $(BIN)/fastocr ## read the sample archive into demo-output (no account, no server, no GPU)
	@infra/demo.sh $(TARGET)

demo-s3: $(VENV)/.dev ## the same from and to a real S3 server on this machine
	@$(BIN)/python -m tests.support.demo_s3

test: $(VENV)/.dev ## run all tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup

check: $(VENV)/.dev ## formatting, lint, types and import borders
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(VENV)/.dev ## hours of bad luck: 2,000 damaged files, 20 passes over ten files, 20 kills, 400 pages in one document
	$(BIN)/python -m tests.soak.mutants --mutants 2000
	$(BIN)/python -m tests.soak.passes --passes 20
	$(BIN)/python -m tests.soak.kills --kills 20
	$(BIN)/python -m tests.soak.long_document

bench: $(BIN)/fastocr ## speed of decoding, of drawing pages, and what the pipeline adds, as ratios in one run
	$(BIN)/python -m fastocr_core.bench.decode
	$(BIN)/python -m workers.raster_bench $(or $(FASTOCR_CASES),infra/examples/archive)
	$(BIN)/python -m pipeline.bench.overhead

gpu: ## correctness and speed on this machine's CUDA device, under 8 minutes
	$(GPU_PYTHON) -m fastocr_core.bench.gpu

clean: ## remove what the other targets made, except .venv
	rm -rf demo-output demo-s3-output build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache *.egg-info
