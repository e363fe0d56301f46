# make repro · make test · make serve · make ui · make check · make test-slow · make bench-stages · make bench-serving · make bench-gpu · make verify-stability · make help
# Each verb does all of its own set-up. Variables: PYTHON, TORCH_INDEX, PORT.

PYTHON ?= python3
# CPU-only people save gigabytes with TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
PORT ?=
VENV := .venv
READY := $(VENV)/.installed
SHELL := bash

export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help repro serve ui status test test-slow bench-stages bench-serving bench-gpu verify-stability check format lock-check

help: ## what each verb does
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "Python 3.11 to 3.13 is needed; name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --progress-bar off \
		$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r requirements.lock
	@touch $(READY)

repro: $(READY) ## set up, then every stage from data to a verified champion, then what came of it
	dvc repro
	@python -m pipeline status

serve: $(READY) ## the champion on 127.0.0.1:8000 (PORT=8001 for another port)
	@python -m pipeline serve $(if $(PORT),--port $(PORT))

ui: $(READY) ## MLflow's pages on this project's registry
	@python -m pipeline ui

status: $(READY) ## the chain from data to champion, and what is stale
	@python -m pipeline status

test: $(READY) ## every test that is not slow, one whole path through all stages among them
	python -m pytest -m "not slow"

test-slow: $(READY) ## scenarios, kills and load
	python -m pytest -m slow

bench-stages: $(READY) ## seconds and peak memory of every stage (ALL=1: run all again)
	python benchmarks/stages.py $(if $(ALL),--force)

bench-serving: $(READY) ## our service and its peers under the same load: half an hour
	python -m benchmarks.serving

bench-gpu: $(READY) ## the champion in every precision on a GPU; says so where there is none
	python -m benchmarks.gpu

verify-stability: $(READY) ## one good version verified ten times idle and ten beside a busy core
	python -m benchmarks.verify_stability

check: $(READY) ## format, lint, types, import law: seconds
	ruff format --check .
	ruff check .
	mypy
	python -m pytest -q tests/test_architecture.py

format: $(READY) ## rewrite to the house format
	ruff format .
	ruff check --fix .

lock-check: $(READY) ## whether requirements.lock can be installed from a plain PyPI
	python -m pip --isolated install --dry-run --quiet --ignore-installed -r requirements.lock
