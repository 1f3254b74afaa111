# The front doors. CMake builds; this file only says which of its doors to take. `make help` lists them.
# Variables: BUILD=build, JOBS=<cpus>, PREFIX=/usr/local, CC=gcc|clang, CMAKE_ARGS="-D…", PYTHON=/path/to/python3, PYTEST_ARGS.

SHELL := /bin/bash
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
VENV := .venv
PY := $(VENV)/bin/python
CMAKE_ARGS ?=
PYTEST_ARGS ?=
FUZZ ?= parquet
FUZZ_TARGETS = $(basename $(patsubst fuzz/fuzz_%,%,$(wildcard fuzz/fuzz_*.c)))
SECONDS_EACH ?= 3600
CONFIGURE = cmake -S . -G Ninja
# Modules with threads of their own: what ThreadSanitizer has to say something about.
THREADED := ^(trace|budget|pool|io|dataset|read|samples|batch|cache|loader|tables|pack)$$
C_FILES = $(shell git ls-files -co --exclude-standard -- '*.c' '*.h' | grep -v '^include/forebay/\(arrow\|dlpack\)\.h$$\|^tests/abi/headers/')
# What the Python package is made of: when one of these is newer than its stamp, pip builds it again.
PYTHON_INPUTS = $(shell find src include python helper cli cmake CMakeLists.txt pyproject.toml -type f -not -name '*.pyc' 2>/dev/null)

.DEFAULT_GOAL := build
.PHONY: help setup build python wheels wheels-twice sdist matrix deb test check check-all asan ubsan tsan aarch64 aarch64-python fuzz fuzz-smoke fuzz-long fuzz-seeds FORCE faults budgets regressions interrupts kills bench demo recipes recipes-setup recipes-bench docs fmt fmt-check lint install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- set-up: stamps, so that a second run does nothing -------------------------------------------------------------------

setup: $(BUILD)/.stamp-system $(VENV)/.stamp-venv $(VENV)/.stamp-torch ## Install what is missing: packages (apt), virtual environment

$(BUILD)/.stamp-system: tools/setup.sh
	@mkdir -p $(BUILD)
	@tools/setup.sh system
	@touch $@

$(VENV)/.stamp-venv: tests/requirements.txt | $(BUILD)/.stamp-system
	@tools/setup.sh venv $(VENV) tests/requirements.txt
	@touch $@

$(VENV)/.stamp-torch: tests/requirements-torch.txt $(VENV)/.stamp-venv
	@tools/setup.sh torch $(VENV) tests/requirements-torch.txt
	@touch $@

$(VENV)/.stamp-frameworks: tests/requirements-frameworks.txt $(VENV)/.stamp-torch # after torch, which they must not replace
	@tools/setup.sh venv $(VENV) tests/requirements-frameworks.txt
	@touch $@

# --- build ---------------------------------------------------------------------------------------------------------------

build: $(BUILD)/.stamp-system ## Build the library, the command, the examples and the C tests (default)
	@[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) -B $(BUILD) $(CMAKE_ARGS)
	@cmake --build $(BUILD) -j $(JOBS)

python: $(VENV)/.stamp-python ## Build the Python package into the virtual environment

$(VENV)/.stamp-python: $(PYTHON_INPUTS) $(VENV)/.stamp-venv
	$(PY) -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	@touch $@

ARCH ?= $(shell uname -m)
WHEEL_PY = build-wheel/venv/bin/python

build-wheel/venv/.stamp: tools/wheel-requirements.txt
	@tools/setup.sh wheel build-wheel/venv $<
	@touch $@

wheels: build-wheel/venv/.stamp ## Build the wheel that installs on any Linux with glibc 2.28, into dist/, and check it (needs the network once); ARCH=aarch64
	PATH=$(CURDIR)/build-wheel/venv/bin:$$PATH $(WHEEL_PY) tools/wheel.py --arch=$(ARCH)
	PATH=$(CURDIR)/build-wheel/venv/bin:$$PATH $(WHEEL_PY) tools/check_wheel.py dist/*_$(ARCH).whl

wheels-twice: wheels ## Build the wheel again, in another folder: the same bytes
	PATH=$(CURDIR)/build-wheel/venv/bin:$$PATH $(WHEEL_PY) tools/wheel.py --arch=$(ARCH) --work=build-wheel/twice --out=build-wheel/twice/dist
	@for wheel in build-wheel/twice/dist/*_$(ARCH).whl; do cmp $$wheel dist/$$(basename $$wheel) && echo "$$(basename $$wheel): the same bytes"; done

sdist: build-wheel/venv/.stamp ## Build the source package, into dist/
	@rm -f dist/*.tar.gz
	PATH=$(CURDIR)/build-wheel/venv/bin:$$PATH SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(WHEEL_PY) -m build --sdist --no-isolation -o dist .
	$(WHEEL_PY) -m twine check --strict dist/*.tar.gz
	PATH=$(CURDIR)/build-wheel/venv/bin:$$PATH $(WHEEL_PY) -m check_manifest

matrix: ## The wheel in dist/ with the oldest and newest packages that it works with (gigabytes of downloads): a table
	python3 tools/matrix.py dist/*_$(ARCH).whl

deb: ## Debian packages by debian/, into build-deb/, which lintian then finds nothing wrong with (needs apt)
	@tools/setup.sh deb
	@rm -rf build-deb && mkdir -p build-deb/forebay && git archive HEAD | tar x -C build-deb/forebay
	@tar czf build-deb/forebay_$$(sed -n "1s/.*(\(.*\)-.*/\1/p" debian/changelog).orig.tar.gz -C build-deb --exclude=debian forebay
	cd build-deb/forebay && PATH=/usr/bin:/usr/sbin:/bin:/sbin DEB_BUILD_OPTIONS="nocheck parallel=$(JOBS)" dpkg-buildpackage -us -uc -F
	cd build-deb && lintian --fail-on error,warning *.changes

# --- tests ---------------------------------------------------------------------------------------------------------------

test: setup $(VENV)/.stamp-frameworks build python ## Everything: C tests, checks, install test, command and Python tests
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)
	FOREBAY_CLI=$(CURDIR)/$(BUILD)/forebay $(PY) -m pytest -q tests $(PYTEST_ARGS)

check: build ## A minute or two: unit tests, layers, symbols, docs
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS) -L '^(unit|check)$$'

check-all: test asan tsan fuzz-smoke lint ## test, and all that follows

asan: $(BUILD)/.stamp-system ## C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@[ -f build-asan/build.ninja ] || $(CONFIGURE) -B build-asan -DFBY_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo $(CMAKE_ARGS)
	@cmake --build build-asan -j $(JOBS)
	@cd build-asan && ctest --output-on-failure -j $(JOBS) -L '^(unit|slow)$$'

ubsan: $(BUILD)/.stamp-system ## C tests under UndefinedBehaviorSanitizer alone (faster than asan)
	@[ -f build-ubsan/build.ninja ] || $(CONFIGURE) -B build-ubsan -DFBY_SANITIZE=undefined $(CMAKE_ARGS)
	@cmake --build build-ubsan -j $(JOBS)
	@cd build-ubsan && ctest --output-on-failure -j $(JOBS) -L '^(unit|slow)$$'

tsan: $(BUILD)/.stamp-system ## C tests of the modules with threads under ThreadSanitizer
	@[ -f build-tsan/build.ninja ] || $(CONFIGURE) -B build-tsan -DFBY_SANITIZE=thread $(CMAKE_ARGS)
	@cmake --build build-tsan -j $(JOBS)
	@cd build-tsan && ctest --output-on-failure -j $(JOBS) -L '$(THREADED)'

build-aarch64/.stamp-system: tools/setup.sh
	@mkdir -p build-aarch64
	@tools/setup.sh aarch64
	@touch $@

aarch64: build-aarch64/.stamp-system ## Cross-build for aarch64 (Debian), and run the C unit tests and the command there under qemu-user
	@[ -f build-aarch64/build.ninja ] || $(CONFIGURE) -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DFBY_BUILD_HELPER=OFF $(CMAKE_ARGS)
	@cmake --build build-aarch64 -j $(JOBS)
	@# qemu-user leaves limits of the process to its host: test_memory_limits cannot see its own.
	@cd build-aarch64 && ctest --output-on-failure -j $(JOBS) -L '^unit$$' -E '^test_memory_limits$$'
	@cd build-aarch64 && FOREBAY_SIMD=scalar ctest --output-on-failure -R '^test_(convert|parquet_encodings)$$' # test_filter tries both by itself

# libFuzzer's own limits on memory see what libhdf5 asks for, which its callers limit.
fuzz_helper_ARGS = -malloc_limit_mb=1048576
# Most of the time would go to counting which features of the corpus are rare, to memory that is kept from use, and to long stacks of it.
FUZZ_FAST = -entropic=0 -reload=0
FUZZ_ENV = ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=4:$$ASAN_OPTIONS
FUZZ_BOUNDS = -max_len=65536 -timeout=20 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1

build-fuzz/fuzz_%: $(BUILD)/.stamp-system FORCE
	@tools/setup.sh fuzz
	@[ -f build-fuzz/build.ninja ] || CC=clang $(CONFIGURE) -B build-fuzz -DFBY_BUILD_FUZZ=ON -DFBY_BUILD_SHARED=OFF -DFBY_BUILD_CLI=OFF \
	    -DFBY_BUILD_EXAMPLES=OFF -DFBY_BUILD_TESTS=OFF -DFBY_SANITIZE=address,undefined
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_$*
FORCE:

aarch64-python: build python ## The wheel for aarch64 (make wheels ARCH=aarch64) under qemu-user: Python tests of the core; batches of the recipes and values of expr as here
	tools/aarch64_python.sh dist/*_aarch64.whl $(PY)

fuzz: build-fuzz/fuzz_$(FUZZ) ## Fuzz one target until stopped (clang is installed for it): make fuzz FUZZ=parquet|hdf5|ipc|csv|filter|cache|pipeline|client|helper; new inputs go to build-fuzz/corpus
	@mkdir -p build-fuzz/corpus/$(FUZZ)
	$(FUZZ_ENV) build-fuzz/fuzz/fuzz_$(FUZZ) $(FUZZ_FAST) $(fuzz_$(FUZZ)_ARGS) $(FUZZ_ARGS) build-fuzz/corpus/$(FUZZ) fuzz/corpus/$(FUZZ) $(wildcard tests/golden/$(FUZZ) tests/golden/$(FUZZ)_*)

fuzz-smoke: ## Replay the corpus; with clang, also half a minute of fuzzing each
	@if command -v clang >/dev/null; then for target in $(FUZZ_TARGETS); do \
	     $(MAKE) fuzz FUZZ=$$target FUZZ_ARGS='-max_total_time=30 $(FUZZ_BOUNDS)' || exit 1; done; \
	 else $(MAKE) build && cd $(BUILD) && ctest --output-on-failure -L fuzz; fi

fuzz-long: ## An hour of fuzzing each (clang is installed for it): SECONDS_EACH=3600
	@for target in $(FUZZ_TARGETS); do \
	     $(MAKE) fuzz FUZZ=$$target FUZZ_ARGS='-max_total_time=$(SECONDS_EACH) $(FUZZ_BOUNDS)' || exit 1; done

fuzz-seeds: setup build python $(addprefix build-fuzz/fuzz_,parquet hdf5 ipc csv) ## What the Python tests write, as far as it shows the fuzzers of files something new, into build-fuzz/corpus
	@rm -rf build-fuzz/files build-fuzz/seeds
	FOREBAY_CLI=$(CURDIR)/$(BUILD)/forebay $(PY) -m pytest -q --basetemp=build-fuzz/files tests/python $(PYTEST_ARGS)
	$(PY) tools/fuzz_seeds.py build-fuzz/files build-fuzz/seeds
	@cd build-fuzz && for target in $$(ls seeds); do mkdir -p corpus/$$target && fuzz/fuzz_$$target -merge=1 -verbosity=0 corpus/$$target seeds/$$target || exit 1; done
	@rm -rf build-fuzz/files build-fuzz/seeds

# --- trust: what takes long -----------------------------------------------------------------------------------------------

faults: build ## Fail every allocation, I/O operation and helper request from open to resume in turn, then go on without
	FBY_FAULT_POINTS=0 $(BUILD)/tests/test_fault_sweep

budgets: build python ## 200 generated files, bombs among them, under budgets from the stated minimum up: FILES=200
	$(PY) tests/stress/budgets.py --files $(or $(FILES),200)

regressions: build ## forebay bench --against ten times on an idle and on a busy machine, with a loss of 20 % planted and without
	$(PY) tests/stress/regression.py
	$(PY) tests/stress/regression.py --busy

interrupts: build python ## Ctrl-C in every wait and all work that takes long, 100 times each (an hour); PYTEST_ARGS="-k epochs": some of them
	FOREBAY_CLI=$(CURDIR)/$(BUILD)/forebay FOREBAY_INTERRUPTS=$(or $(TIMES),100) $(PY) -m pytest -q tests/python/test_interrupts.py \
	    tests/python/test_hdf5_interrupt.py $(PYTEST_ARGS)

kills: build python ## kill -9 a pack at 20 random moments, shuffled and not, and let it go on: the same bytes; TIMES=20
	FOREBAY_CLI=$(CURDIR)/$(BUILD)/forebay FOREBAY_PACK_KILLS=$(or $(TIMES),20) $(PY) -m pytest -q tests/python/test_pack.py -k killed $(PYTEST_ARGS)

# --- the rest ------------------------------------------------------------------------------------------------------------

bench: setup build python ## Benchmarks beside the rivals (an hour); see bench/README.md
	$(PY) bench/run.py
	$(PY) bench/overhead.py
	$(PY) bench/limits.py
	$(PY) bench/advise.py
	$(PY) bench/pack.py

demo: setup python ## Make a data set, race the PyTorch DataLoader, train a model: a table, a verdict and a picture
	FOREBAY_CLI=$(CURDIR)/$(VENV)/bin/forebay $(PY) bench/demo.py

recipes-setup: setup $(VENV)/.stamp-frameworks python ## What the recipes need, into .venv: packages, library, command

recipes: recipes-setup ## Train the recipes on small data, today's loader beside Forebay's: tables and pictures
	@for name in leak jets linkage neutrino hydrology nanoaod weather; do echo; echo "$$name"; $(PY) recipes/$$name/train.py --both --workers 2 --must-learn || exit 1; done

recipes-bench: recipes-setup ## The recipes at larger sizes, over seeds, with each loader its owner has: recipes/results.md; SCALE=medium|bench
	$(PY) recipes/bench.py --scale $(or $(SCALE),medium)
	$(PY) recipes/bench.py --scale $(or $(SCALE),medium) --no-network

build-docs/venv/.stamp: tools/docs-requirements.txt
	@tools/setup.sh venv build-docs/venv $<
	@touch $@

docs: build-docs/venv/.stamp ## Make the site of the documentation, build-docs/site/index.html; fails on links that lead nowhere
	build-docs/venv/bin/python tools/site.py
	@echo "build-docs/site/index.html"

fmt: $(VENV)/.stamp-venv ## Format C sources (clang-format of tests/requirements.txt)
	@$(VENV)/bin/clang-format -i $(C_FILES)

fmt-check: $(VENV)/.stamp-venv ## What fmt would change, as errors
	@$(VENV)/bin/clang-format --dry-run -Werror $(C_FILES)

lint: build fmt-check ## Formatting, layers, docs, a build with warnings as errors (gcc; clang where there is one)
	@$(PY) tools/check_layers.py && $(PY) tools/check_docs.py && $(PY) -m ruff check --quiet
	@for cc in gcc clang; do command -v $$cc >/dev/null || continue; \
	    CC=$$cc $(CONFIGURE) -B build-werror-$$cc -DFBY_WERROR=ON -DFBY_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(abspath $(PY)) >/dev/null && cmake --build build-werror-$$cc -j $(JOBS) || exit 1; done

install: build ## Install under PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## Remove everything built; the virtual environment stays
	rm -rf build build-*/ dist .demo
