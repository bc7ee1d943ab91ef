# The commands of the project; `make help` lists them. Everything they make lies in build/;
# compiler and linter results also in the user's cache folder, for the next clone (tools/common.py).
MAKEFLAGS += --no-print-directory
ROOT := $(CURDIR)
VENV := $(ROOT)/build/venv
PYTHON := $(VENV)/bin/python
JOBS ?= $(shell nproc)
# Debian's own tools go first, so that another CMake or Python on the PATH changes nothing.
export PATH := $(VENV)/bin:/usr/bin:/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: help setup build demo test check bench paper nightly wheels train candidates lint format docs results deb clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo      build real C programs with and without the model, and print the table'
	@echo 'make test      everything that CI runs: all tests, sanitizers, linters'
	@echo 'make check     the inner loop: build, and the unit tests that a change concerns'
	@echo 'make bench     round trips and the cost of asking, each beside its floor'
	@echo 'make paper     the evaluation of the CC 2024 paper, redone: docs/evaluation.md (two hours)'
	@echo 'make wheels    wheels for other machines, in build/wheels/dist (docs/installing.md)'
	@echo 'make nightly   hours of longer campaigns: what tests sample, LLVM 19, trainers, fuzzers, soaks'
	@echo 'make train     ARGS="phase-ordering --corpus DIR -o DIR": mlbridge train, with PyTorch and Ray in build/venv-train'
	@echo 'make candidates  choose what is compared with -Oz anew, and measure it (an hour and a half)'
	@echo 'make setup     install what is needed: Debian packages, build/venv'
	@echo 'make build     the Python package, with components and compiler plugin, into build/venv'
	@echo 'make lint      the linters alone;  make format  clang-format and ruff in place'
	@echo 'make docs      the site: all pages, and the reference of C++, C and Python, in build/docs/site'
	@echo 'make results   join the tables of demo, bench, experiments and tests into docs/results.md'
	@echo 'make deb       Debian packages of this tree, in build/deb'
	@echo 'make clean     remove what was built, keep what was downloaded'

setup:
	@tools/setup

build: setup
	@$(PYTHON) tools/install_package.py

demo:
	@tools/setup --for demo
	@$(PYTHON) demo/prepare.py
	@$(PYTHON) demo/run.py $(ARGS)

test: setup
	@$(PYTHON) tools/run_tests.py $(ARGS)

check: setup
	@$(PYTHON) tools/run_tests.py --check $(ARGS)

lint: setup
	@$(PYTHON) tools/run_tests.py --lint $(ARGS)

train: setup
	@$(PYTHON) tools/train_venv.py $(ARGS)

candidates: build
	@$(PYTHON) models/phase-ordering-size/make.py $(ARGS)

bench: build
	@$(PYTHON) tools/cmake_build.py bench
	@$(PYTHON) bench/run.py $(ARGS)

paper: build
	@$(PYTHON) tools/cmake_build.py bench
	@$(PYTHON) tools/cmake_build.py dev
	@$(PYTHON) -m experiments.paper.run $(ARGS)

wheels: build
	@$(PYTHON) tools/wheels.py $(ARGS)

nightly: build
	@tools/setup --for nightly
	@$(PYTHON) tools/nightly.py $(ARGS)

format: setup
	@$(PYTHON) tools/format.py

docs: build
	@$(PYTHON) tools/docs.py

results: setup
	@$(PYTHON) tools/join_results.py

deb:
	@python3 tools/deb.py $(ARGS)

clean:
	@rm -rf build/cmake build/test build/install build/demo build/bench build/nightly build/docs build/deb build/python build/.package-stamp
