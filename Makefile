# Ebb: `make run` brings up the fabric and compares the schemes, `make test` runs every test.
#
#   make run [K=4] [SCHEMES=dctcp,ndp] [DILATION=50] [SWITCH=ebb|bmv2] [P4C=ebb-p4c|p4c-bm2-ss]
#            [P4=tna: the programs for Tofino]
#            [CLI=1: the prompt at once; CLI=after: after all schemes] [SCHEME=ndp: one alone]
#            [SCENARIO=experiments/scenarios/link-failure.toml] [FUSED=0: a process per switch] [THREADS=2]
#            [HOST_LINKS=auto|shared|veth: how agents reach their switch]
#            [VOLUME=1: bytes and packets of every port per ms] [WEB=1: live in the browser]
#   make compare [A=2026-11-23T08-15-02] [B=latest]: two of results/runs, without names the last two
#   make experiments [STALE=1|CHECK=1]
#   make experiment NAME=hull-dynamic [SIZE=quick|full] [CLUSTER=tcp://..] [FABRIC=mininet]
#   make report | results
#   make pgo
#   make bench [BENCH="goodput codec_overlap --quick"] [BASE=COMMIT: ratios to it, in pairs]
#   make install | install-p4 | uninstall [PREFIX=/usr/local] [DESTDIR=] [ALIASES=1: p4c etc. too] [STUDY=1] [CTL=0]
#   make wheels | deb | image
#   make test | test-quick [BASE=main] | test-long | lint | build | clean | p4-proto

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Rules of make's own would be tried on each of 1400 sources, for most of a second.
MAKEFLAGS += --no-print-directory --no-builtin-rules

# Where tools/setup puts a Rust toolchain if an older one comes first on PATH.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON := .venv/bin/python
BUILD := build
CARGO := cargo
# The folders too: a file that was removed has no time of change.
P4_SOURCES := p4src p4src/include $(wildcard p4src/*.p4 p4src/include/*.p4)
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find common host-agent simulator switch \
  -name '*.rs' -o -name '*.fds' -o -name '*.p4' -o -name Cargo.toml)
PY_PACKAGES := host-agent/python/ebb_agent topologies/ebb_topologies controller/ebb_controller volume/ebb_volume \
  experiments/ebb_experiments dashboard/ebb_dashboard
PROTOS := ebb_tm ebb_fabric ebb_trace
PROTO_MODULES := $(PROTOS:%=controller/ebb_controller/%_pb2.py)

# Options of `make run`; empty means: what the scenario says.
K ?=
SCHEMES ?=
SCHEME ?=
DILATION ?=
SWITCH ?= ebb
CLI ?=
WEB ?=
FUSED ?=
THREADS ?=
SCENARIO ?=
P4 ?=
VOLUME ?=
HOST_LINKS ?=

# The P4 compiler: ours, or the reference one if it is on PATH and the switch is the reference one.
# Each has an output directory of its own, because either's output runs on either switch.
P4C ?= $(if $(filter bmv2,$(SWITCH)),$(if $(shell command -v p4c-bm2-ss),p4c-bm2-ss,ebb-p4c),ebb-p4c)
ifeq ($(notdir $(P4C)),ebb-p4c)
  PROGRAM := $(BUILD)
  override P4C := $(BUILD)/ebb-p4c
else
  PROGRAM := $(BUILD)/$(notdir $(P4C))
endif

# A missing or half written target is made again, whatever else looks new: its rule gets `again`, which is never made.
.DELETE_ON_ERROR:
P4_TOOLS := ebb-p4c ebb-stf ebb-switch
BINARIES := $(P4_TOOLS) ebb-agent ebb-simulator
ifneq ($(words $(realpath $(addprefix $(BUILD)/,$(BINARIES)))),$(words $(BINARIES)))
  $(BUILD)/.binaries: again
endif
ifneq ($(words $(realpath $(addprefix $(BUILD)/,$(P4_TOOLS)))),$(words $(P4_TOOLS)))
  $(BUILD)/.p4-binaries: again
endif
# Programs that tools/count_instructions runs beside the simulator.
COUNTED := pipeline_instructions traffic_manager_instructions transport_instructions
ifneq ($(words $(realpath $(COUNTED:%=$(BUILD)/instructions/%))),$(words $(COUNTED)))
  $(BUILD)/.instructions: again
endif
P4_PROGRAMS := fabric fabric_codel fabric_tenants fabric_full
OURS := $(P4_PROGRAMS:%=$(BUILD)/%.json)
# Programs of p4src/tna, for P4=tna; ebb-p4c compiles them.
TNA_PROGRAMS := $(patsubst p4src/%.p4,$(BUILD)/%.json,$(wildcard p4src/tna/*.p4))
WANTED_TNA := $(if $(filter tna,$(P4)),$(TNA_PROGRAMS))
TNA_SOURCES := p4src/tna p4src/tna/include $(wildcard p4src/tna/*.p4 p4src/tna/include/*.p4)
THEIRS := $(filter-out $(OURS),$(P4_PROGRAMS:%=$(PROGRAM)/%.json))
ifneq ($(words $(realpath $(P4_PROGRAMS:%=$(PROGRAM)/%.p4info.txtpb))),$(words $(P4_PROGRAMS)))
  $(P4_PROGRAMS:%=$(PROGRAM)/%.json): again
endif

# $(call nearest,WHAT,NAME,KNOWN): the line about a name that there is not.
nearest = $(shell python3 topologies/ebb_topologies/nearest.py '$(1)' '$(2)' $(3)) (make help has all)
# An environment that was copied or moved along with the tree would run the code of the old one.
ifneq ($(wildcard .venv/pyvenv.cfg),)
ENVIRONMENT_OF := sed -n 's/^command = .* -m venv \(--[^ ]* \)*//p' .venv/pyvenv.cfg
ifeq ($(shell [ "$$($(ENVIRONMENT_OF))" = '$(CURDIR)/.venv' ] || python3 tools/moved.py >&2 || echo failed),failed)
  $(error .venv is that of another folder)
endif
endif

# A variable that nothing reads would be ignored without a word: a typo is refused.
blank := $() $()
GIVEN := $(foreach word,$(subst \$(blank),_,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$(word))))
OPTIONS := K SCHEMES SCHEME DILATION SWITCH P4 P4C CLI FUSED THREADS SCENARIO VOLUME HOST_LINKS A B NAME SIZE SET \
  STALE CHECK CLUSTER FABRIC BENCH BASE PREFIX DESTDIR ALIASES STUDY CTL WEB BUILD CARGO PYTHON
ifneq ($(filter-out $(OPTIONS),$(GIVEN)),)
  $(error $(call nearest,variable of this Makefile,$(firstword $(filter-out $(OPTIONS),$(GIVEN))),$(OPTIONS)))
endif
# So would be an option of `make run` that says nothing to a simulation.
NOT_OF_SIM := $(filter K DILATION SWITCH P4C CLI WEB FUSED HOST_LINKS,$(GIVEN))
ifeq ($(MAKECMDGOALS)$(if $(NOT_OF_SIM),,-),sim)
  $(error make sim does not take $(NOT_OF_SIM): SCENARIO has all but SCHEMES, SCHEME, THREADS, P4 and VOLUME)
endif

TARGETS := help setup build run compare sim experiments experiment report results pages page p4-proto bench pgo \
  test test-quick test-build test-rust test-crates test-units test-long test-python test-fabrics test-tools test-ptf \
  test-instructions test-e2e lint check-tna wheels install install-p4 uninstall deb image clean
.PHONY: $(TARGETS)
.PHONY: again
again: ;

help: ## this list, and the options
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
	@echo; sed -n '3,/^$$/s/^#   //p' Makefile

setup: ## install what is missing (apt, Rust, Python environment)
	@tools/setup

# Requirements of `make run`, of experiments too, of tests and lints too; one after the other, as they share the folder.
# Those of ebb-ctl are a part of the first, and enough for the P4 tools.
ifneq ($(MAKECMDGOALS),install-p4)
.venv/.p4-installed: .venv/.run-installed
endif
.venv/.web-installed: .venv/.run-installed
.venv/.study-installed: .venv/.run-installed
.venv/.dev-installed: .venv/.study-installed
.venv/.%-installed: requirements.lock pyproject.toml tools/setup
	@tools/setup $*

controller/ebb_controller/%_pb2.py: switch/p4-proto/proto/%.proto .venv/.p4-installed
	@$(PYTHON) -m grpc_tools.protoc -I $(dir $<) --python_out=$(dir $@) --pyi_out=$(dir $@) $(notdir $<)

# $(call place,PROGRAMS): what cargo has built, and the commit that --version tells.
define place
  @for b in $(1); do ln -f target/debug/$$b $(BUILD)/$$b 2>/dev/null || cp -f target/debug/$$b $(BUILD)/$$b; done
  @git describe --always --abbrev=40 --exclude='*' --dirty=+ > $(BUILD)/COMMIT 2>/dev/null || rm -f $(BUILD)/COMMIT
  @touch $@
endef

# One cargo call builds all binaries; the stamp spares the others the wait for its lock.
$(BUILD)/.binaries: $(RUST_SOURCES) | .venv/.run-installed
	@mkdir -p $(BUILD)
	@echo "== building the compiler, the switch and the agent (optimised; minutes the first time)"
	@$(CARGO) build --locked --workspace --exclude ebb-p4-generator --bins
	$(call place,$(BINARIES))

# The P4 tools alone, unless they are there with all others: without the Python environment, and in less time. A recipe
# that names $(MAKE) itself would be run by `make -n`.
IS_MADE = $(MAKE) -q
$(BUILD)/.p4-binaries: $(RUST_SOURCES)
	@mkdir -p $(BUILD)
	@$(IS_MADE) $(BUILD)/.binaries 2>/dev/null || { tools/setup rust && \
	  echo "== building the compiler, the switch and the test runner (optimised; minutes the first time)" && \
	  $(CARGO) build --locked $(P4_TOOLS:%=-p %) --bins; }
	$(call place,$(P4_TOOLS))

# $(call compile,COMPILER): the target and the P4Info beside it; both compilers take these options.
compile = $(1) -o $@ --p4runtime-files $(@:.json=.p4info.txtpb) p4src/$(basename $(@F)).p4

$(OURS): $(P4_SOURCES) $(BUILD)/.binaries
	@$(call compile,$(BUILD)/ebb-p4c)

$(TNA_PROGRAMS): $(P4_SOURCES) $(TNA_SOURCES) $(BUILD)/.binaries
	@mkdir -p $(@D)
	@$(BUILD)/ebb-p4c -o $@ --p4runtime-files $(@:.json=.p4info.txtpb) p4src/tna/$(basename $(@F)).p4

$(THEIRS): $(P4_SOURCES)
	@command -v '$(P4C)' >/dev/null || \
	  { echo "P4C=$(P4C): no such command; ebb-p4c, or p4c-bm2-ss of p4lang/p4c" >&2; exit 1; }
	@mkdir -p $(@D)
	@$(call compile,'$(P4C)')

# Python keeps byte code of what it imports unless PYTHONDONTWRITEBYTECODE is set, as in many containers; then every
# command would compile its modules anew, for a fifth of a second.
$(BUILD)/.bytecode: $(shell find $(PY_PACKAGES) -name '*.py' 2>/dev/null) $(PROTO_MODULES) | .venv/.run-installed
	@mkdir -p $(@D)
	@$(PYTHON) -m compileall -q $(PY_PACKAGES)
	@touch $@

build: $(BUILD)/.binaries $(OURS) $(THEIRS) $(WANTED_TNA) $(PROTO_MODULES) $(BUILD)/.bytecode ## compile everything

run: build $(if $(WEB),.venv/.web-installed) ## fat-tree up, every scheme run and compared (90 s)
	@$(PYTHON) -m $(if $(WEB),ebb_dashboard run,ebb_experiments.cli) --switch '$(SWITCH)' --program '$(PROGRAM)' \
	  $(if $(SCENARIO),--scenario '$(SCENARIO)') $(if $(K),--k '$(K)') \
	  $(if $(SCHEMES)$(SCHEME),--schemes '$(or $(SCHEMES),$(SCHEME))') \
	  $(if $(DILATION),--dilation '$(DILATION)') $(if $(filter-out 0,$(CLI)),--cli '$(CLI)') \
	  $(if $(P4),--p4 '$(P4)') $(if $(filter 0,$(FUSED)),--no-fused) $(if $(THREADS),--threads '$(THREADS)') \
	  $(if $(filter-out 0,$(VOLUME)),--volume '$(VOLUME)') $(if $(HOST_LINKS),--host-links '$(HOST_LINKS)')

A ?=
B ?=

compare: .venv/.run-installed ## two runs side by side: A and B of results/runs, or the last two
	@$(PYTHON) -m ebb_experiments.tour.compare $(if $(A),--a '$(A)') $(if $(B),--b '$(B)')

sim: .venv/.study-installed build ## SCENARIO in virtual time; SCHEMES, THREADS, P4, VOLUME
	@$(PYTHON) -m ebb_experiments.sim.cli '$(or $(SCENARIO),experiments/scenarios/sim/permutation.toml)' \
	  $(if $(SCHEMES)$(SCHEME),--schemes '$(or $(SCHEMES),$(SCHEME))') $(if $(THREADS),--threads '$(THREADS)') \
	  $(if $(P4),--p4 '$(P4)') $(if $(filter-out 0,$(VOLUME)),--volume '$(VOLUME)')

NAME ?=
SIZE ?= quick
CLUSTER ?=
FABRIC ?= virtual
EXPERIMENT := $(PYTHON) -m ebb_experiments.study.cli

experiments: .venv/.study-installed build ## the papers' experiments, and a report; STALE=1: those that are old; CHECK=1
	@$(EXPERIMENT) $(if $(CHECK),check,run --size '$(SIZE)' $(if $(STALE),--stale)) $(if $(CLUSTER),--cluster '$(CLUSTER)')

experiment: .venv/.study-installed build ## NAME of one of them (or several), with SIZE and FABRIC, SET='PATH=VALUE ..'
	@$(if $(NAME),$(EXPERIMENT) run $(NAME) --size '$(SIZE)' --fabric '$(FABRIC)' $(if $(CLUSTER),--cluster '$(CLUSTER)') \
	  $(foreach setting,$(SET),--set '$(setting)'),\
	  $(EXPERIMENT) list; echo "which one? make experiment NAME=.. [SIZE=full]" >&2; exit 1)

report: .venv/.study-installed build ## results/report: grades and figures of what has been run
	@$(EXPERIMENT) report

results: .venv/.study-installed build ## docs/results: the same of the full sizes that have been run, to be committed
	@$(EXPERIMENT) report --size full --markdown --out docs/results

pages: build ## the tables of docs/architecture.md and the keys of docs/scenarios.md, made from P4 and models
	@$(PYTHON) -m ebb_controller.reference
	@$(PYTHON) -m ebb_experiments.reference > docs/scenarios.md.new && mv docs/scenarios.md.new docs/scenarios.md

p4-proto: .venv/.run-installed ## generated Rust again, after a change of switch/p4-proto/proto or of finsy
	@$(PYTHON) tools/protos.py --write

page: ## the page of the live view, built of dashboard/page (node 20)
	@cd dashboard/page && npm ci --silent --ignore-scripts && npm run --silent build

bench: .venv/.study-installed build ## what agent, fabric and simulator achieve on this machine (docs/bench.md)
	@$(PYTHON) -m ebb_experiments.bench $(BENCH) $(if $(BASE),--base '$(BASE)')

pgo: .venv/.study-installed build ## the programs compiled by a profile of runs: faster simulations (docs/bench.md)
	@$(PYTHON) tools/profile_guided.py

# Each level is run whatever became of the others; the last lines are one table of all.
test: .venv/.run-installed ## every test, and what was skipped
	@$(PYTHON) tools/levels.py

BASE ?=

test-quick: .venv/.dev-installed $(PROTO_MODULES) ## tests and lints of what differs from main, or from BASE
	@$(PYTHON) tools/quick.py $(BASE)

# As it is built for users.
$(BUILD)/.instructions: $(RUST_SOURCES) $(BUILD)/.binaries
	@mkdir -p $(BUILD)/instructions
	@$(CARGO) build --locked --workspace $(COUNTED:%=--example %)
	@for b in $(COUNTED); do ln -f target/debug/examples/$$b $(BUILD)/instructions/$$b 2>/dev/null || \
	  cp -f target/debug/examples/$$b $(BUILD)/instructions/$$b; done
	@touch $@

# Python's packages come while cargo compiles.
test-build: ## what the tests need, but those of Rust, which compile while others run
	@$(MAKE) -j2 .venv/.dev-installed build
	@$(MAKE) $(TNA_PROGRAMS) $(BUILD)/.instructions

# Clippy wants the examples, too; in `make test` it is clippy that compiles (tools/clippy.py), and whoever comes first
# compiles for both. One cargo compiles and runs: a second one would wait for those that compile something else. Tests
# of other levels wait for times, so they come before what compiles.
CARGO_TEST := $(CARGO) test --locked --workspace --no-fail-fast
test = PROPTEST_CASES=$${PROPTEST_CASES:-100} nice -n 10 $(CARGO_TEST)

test-rust: test-crates test-units ## both of these, of the crates

test-crates: $(OURS) ## integration tests of the crates, which wait more than they compute
	@$(test) --test '*'

test-units: $(OURS) ## unit tests of the crates
	@$(test) --lib --bins

test-long: .venv/.dev-installed build ## the same with many more random inputs and all of the corpora; 8192 hosts
	@EBB_LONG=1 PROPTEST_CASES=5000 EBB_FUZZ_CORPORA=all $(CARGO_TEST) --tests
	@EBB_LONG=1 $(PYTHON) -m pytest -s experiments/tests/test_scale.py

OF_PYTHON := .venv/.dev-installed build $(TNA_PROGRAMS)
test-python: $(OF_PYTHON) ## both of these, of the Python packages
	@$(PYTHON) -m pytest -v

# The second part starts no fabric, whose ports and names are those of the first.
TESTPATHS = $(shell $(PYTHON) -c \
  'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["tool"]["pytest"]["ini_options"]["testpaths"])')
TOOLS = $(filter dashboard/% volume/% ptf-tests/% switch/% tools/%,$(TESTPATHS))
test-fabrics: $(OF_PYTHON) ## tests of hosts, topologies, controller and experiments
	@$(PYTHON) -m pytest -v $(filter-out $(TOOLS),$(TESTPATHS))

test-tools: $(OF_PYTHON) ## tests of the live view, of volumes and of tools
	@$(PYTHON) -m pytest -v $(TOOLS)

test-ptf: .venv/.dev-installed build ## packet tests of every mechanism against the switch
	@$(PYTHON) ptf-tests/run.py --switch '$(SWITCH)' --compiler '$(P4C)'

test-instructions: .venv/.dev-installed build $(TNA_PROGRAMS) $(BUILD)/.instructions ## what a packet costs, by record
	@$(PYTHON) tools/count_instructions

test-e2e: export EBB_RESULTS := $(BUILD)/results
test-e2e: build ## small Mininet runs, end to end; the second one with faults
	@$(PYTHON) -m ebb_experiments.cli --scenario experiments/scenarios/smoke.toml \
	  --switch '$(SWITCH)' --program '$(PROGRAM)'
ifneq ($(SWITCH),bmv2)
	@$(PYTHON) -m ebb_experiments.cli --scenario experiments/scenarios/link-failure.toml \
	  --program '$(PROGRAM)'
endif

comma := ,
# $(call lint,WHAT,COMMAND): a line for each, as tools/levels.py counts them.
lint = if $(2); then echo 'ok   $(1)'; else echo 'FAIL $(1)'; exit 1; fi

lint: .venv/.dev-installed $(PROTO_MODULES) ## formatting, types, arrows, dependencies, pages
	@$(call lint,formatting of Rust,$(CARGO) fmt --all --check)
	@$(call lint,ruff,$(PYTHON) -m ruff check .)
	@$(call lint,formatting of Python,$(PYTHON) -m ruff format --check .)
	@$(call lint,types of Python,$(PYTHON) -m mypy host-agent/python/ebb_agent topologies/ebb_topologies \
	  controller/ebb_controller volume/ebb_volume experiments/ebb_experiments dashboard/ebb_dashboard)
	@$(call lint,types of packet tests,MYPYPATH=controller:ptf-tests $(PYTHON) -m mypy ptf-tests)
	@$(call lint,types of tools,MYPYPATH=tools $(PYTHON) -m mypy tools/compare tools/oracle tools/generated tools/mutants \
	  tools/tna tools/installing tools/instructions tools/*.py tests/golden)
	@$(call lint,arrows between crates and inside them,$(PYTHON) tools/arrows.py)
	@$(call lint,arrows between Python modules,lint-imports --no-cache --no-logo)
	@$(call lint,generated Rust,$(PYTHON) tools/protos.py)
	@$(call lint,width of lines,$(PYTHON) tools/widths.py)
	@$(call lint,first words of comments,$(PYTHON) tools/comments.py)
	@$(call lint,links between pages,$(PYTHON) tools/links.py)
	@$(call lint,reasons of bands that changed,$(PYTHON) tools/bands.py)
	@$(call lint,licences$(comma) sources and versions of dependencies,$(PYTHON) tools/dependencies.py)
	@$(call lint,clippy and documentation of Rust,$(PYTHON) tools/clippy.py)

check-tna: .venv/.dev-installed ## p4src/tna through p4c's back end for Tofino, where it is on PATH; renews the page
	@tools/check_tna --write

# Without what an earlier one left: setuptools packs all that lies in its folder.
wheels: build $(TNA_PROGRAMS) ## dist/*.whl: the Python packages, for pip
	@rm -rf $(BUILD)/python dist/*.whl
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

PREFIX ?= /usr/local
DESTDIR ?=
ALIASES ?=
STUDY ?=
CTL ?=
INSTALLING = PYTHONPATH=tools $(1) -m installing $(2) --prefix '$(PREFIX)' $(if $(DESTDIR),--destination '$(DESTDIR)') \
  $(if $(ALIASES),--aliases)

install: wheels ## programs, Python packages, manual pages and completions below PREFIX
	@$(call INSTALLING,$(PYTHON),all) --wheel dist/*.whl $(if $(STUDY),--study)

NO_CTL := $(filter 0,$(CTL))

install-p4: $(if $(NO_CTL),,$(PROTO_MODULES))
install-p4: $(BUILD)/.p4-binaries ## compiler, switch, test runner, ebb-ctl (quick-start-p4)
	@$(call INSTALLING,$(if $(NO_CTL),python3,$(PYTHON)),p4) $(if $(NO_CTL),,--ctl)

uninstall: ## what install or install-p4 has put below PREFIX is taken away
	@$(call INSTALLING,python3,remove)

DEB := $(BUILD)/deb

deb: wheels ## dist/ebb.deb: the same as a package of the distribution (this release of it)
	@rm -rf $(DEB)
	@$(MAKE) install PREFIX=/usr DESTDIR=$(CURDIR)/$(DEB)
	@PYTHONPATH=tools $(PYTHON) -m installing.deb $(DEB) dist/ebb.deb

image: ## a container with Ebb, by podman or docker, or else in a chroot (packaging/)
	@for engine in podman docker; do if $$engine info >/dev/null 2>&1; then \
	  exec $$engine build -t ebb -f packaging/Containerfile .; fi; done; \
	  echo "== neither podman nor docker runs here: the same steps in a chroot"; packaging/chroot

.DEFAULT:
	@echo "$(call nearest,target,$@,$(TARGETS))" >&2; exit 1

clean: ## remove everything that was built (not .venv, not target/)
	rm -rf $(BUILD) dist results $(PROTO_MODULES:=*)
