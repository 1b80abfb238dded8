# Ebb: `make run` brings up the fabric and compares the schemes, `make test` runs every test.
#
#   make run [K=4] [SCHEMES=dctcp,ndp] [DILATION=50] [SWITCH=ebb|bmv2] [CLI=1]
#   make test | lint | build | clean

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := .venv/bin/python
BUILD := build
CARGO := cargo
P4_SOURCES := $(wildcard p4src/*.p4 p4src/include/*.p4)
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find switch host-agent -name '*.rs' -o -name '*.proto' -o -name '*.p4' -o -name Cargo.toml)
PROTO := switch/p4runtime/proto/ebb_tm.proto

# Options of `make run`; empty means: what the scenario says.
K ?=
SCHEMES ?=
DILATION ?=
SWITCH ?= ebb
CLI ?=

.PHONY: help setup build run test test-rust test-python test-ptf test-e2e lint clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## install what is missing (apt, Rust, Python environment)
	@tools/setup

$(PYTHON) .venv/.ebb-installed: requirements.lock pyproject.toml tools/setup
	@tools/setup
	@touch .venv/.ebb-installed

$(BUILD)/p4runtime.fds: .venv/.ebb-installed switch/p4runtime/descriptors.py
	@mkdir -p $(BUILD)
	@$(PYTHON) switch/p4runtime/descriptors.py $@

controller/ebb_controller/ebb_tm_pb2.py: $(PROTO) .venv/.ebb-installed
	@$(PYTHON) -m grpc_tools.protoc -I $(dir $(PROTO)) --python_out=$(dir $@) --pyi_out=$(dir $@) $(notdir $(PROTO))

# One cargo call builds all binaries; the stamp spares the others the wait for its lock.
$(BUILD)/.binaries: $(BUILD)/p4runtime.fds $(RUST_SOURCES)
	@echo "== building the compiler, the switch and the agent (release; minutes the first time)"
	@$(CARGO) build --release --locked --workspace --bins
	@for b in ebb-p4c ebb-switch ebb-agent; do ln -sf ../target/release/$$b $(BUILD)/$$b; done
	@touch $@

$(BUILD)/fabric.json: $(P4_SOURCES) $(BUILD)/.binaries
	@$(BUILD)/ebb-p4c -o $@ --p4runtime-files $(BUILD)/fabric.p4info.txtpb p4src/fabric.p4

build: $(BUILD)/.binaries $(BUILD)/fabric.json controller/ebb_controller/ebb_tm_pb2.py ## compile everything

run: build ## fat-tree up, every scheme run and compared (about 2 minutes)
	@$(PYTHON) -m ebb_experiments.cli --switch '$(SWITCH)' \
	  $(if $(K),--k '$(K)') $(if $(SCHEMES),--schemes '$(SCHEMES)') \
	  $(if $(DILATION),--dilation '$(DILATION)') $(if $(CLI),--cli)

test: lint test-rust test-python test-ptf test-e2e ## every test

test-rust: $(BUILD)/p4runtime.fds $(BUILD)/fabric.json ## unit, property and golden tests of the crates
	@$(CARGO) test --locked --workspace

test-python: build ## unit tests of topologies, controller and experiments
	@$(PYTHON) -m pytest

test-ptf: build ## packet tests of every mechanism against the switch
	@$(PYTHON) ptf-tests/run.py --switch '$(SWITCH)'

test-e2e: build ## a small Mininet run, end to end
	@$(PYTHON) -m ebb_experiments.cli --scenario experiments/scenarios/smoke.toml --switch '$(SWITCH)'

lint: $(BUILD)/p4runtime.fds controller/ebb_controller/ebb_tm_pb2.py ## formatting, clippy, ruff, types
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy topologies/ebb_topologies controller/ebb_controller experiments/ebb_experiments

clean: ## remove everything that was built (not .venv, not target/)
	rm -rf $(BUILD) results controller/ebb_controller/ebb_tm_pb2.py*
