# SPDX-License-Identifier: MIT
# setup, demo, test, check, bench: what the README says. Everything else is `kdyno --help`.

VENV := .venv
BIN := $(VENV)/bin
KDYNO := $(BIN)/kdyno

.PHONY: setup setup-suites setup-tests demo test check bench fresh docs statistics lock clean help

# Containers often have it set. Then every process compiles all that it imports, numpy and scipy
# too: that was half of what the tests cost.
unexport PYTHONDONTWRITEBYTECODE

# In the order in which they are named, under `make -j` too.
.NOTPARALLEL:

help:
	@echo "make setup       what a fresh machine lacks: packages and the Python environment"
	@echo "make setup-suites  also what the suites run: fio, Apache, cairo, GTK, ..."
	@echo "make demo        set-up, then a memcpy experiment on real kernels, about 5 minutes"
	@echo "make test        set-up, then all tests, with real kernels"
	@echo "make check       the fast tests: no kernel, root or network"
	@echo "make fleet-test  those with a Slurm cluster and a PostgreSQL server; part of make test"
	@echo "make box-test    a box in QEMU: kexec, faults, recovery; part of make test"
	@echo "make bench       kdyno's own speed, as ratios"
	@echo "make fresh       demo and test on a Debian 12 made for it, as root and as a user"
	@echo "make docs        the parts of docs/ that are made by command"
	@echo "make statistics  docs/research/statistics.md again, by simulation"

setup:
	@./setup.sh

setup-suites:
	@./setup.sh --suites

setup-tests:
	@./setup.sh --tests

demo: setup
	@$(KDYNO) run experiments/simd-demo.toml
	@echo
	@echo "A published experiment in short. The gain is over the loop that User Mode Linux runs, not over a"
	@echo "native kernel's memcpy: docs/research/simd.md. Run it again and only the measuring is left."
	@echo "Next: $(KDYNO) list, $(KDYNO) --help"

$(BIN)/kdyno: requirements.lock pyproject.toml setup.sh
	@./setup.sh --python-only
	@touch $@

check: $(BIN)/kdyno
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/python -m mypy & types=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal \
		-m "not uml and not browser and not tools and not slow and not box" $(WHOLE); status=$$?; \
	wait $$types || status=1; exit $$status

# With everything installed, a test that lacks something fails. A skip is for what no installing
# brings, such as another CPU; the last lines say which tests were skipped, and why. A part that
# fails ends nothing: the others are run, so that one look shows all that is wrong.
test: forget-skips setup-tests
	@status=0; $(MAKE) -k --no-print-directory check tests-browser tests-kernels \
		WHOLE="--complete --skips=build/skips" || status=1; \
	echo; echo "$$(wc -l <build/skips) tests skipped:"; sort build/skips; exit $$status

# Apart, so that no browser is alive beside a guest that is being timed.
tests-browser:
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "(browser or tools) and not uml" $(WHOLE)

# Three files at once: guests that take turns leave a CPU idle, which builds and counting guests fill,
# and slow tests without a kernel; the box and a cluster are waited for. No test asserts what a busy
# machine would change, and the lock of measuring holds between them. In tests/conftest.py's order.
tests-kernels:
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder \
		-m "qemu or uml or box or (slow and not browser and not tools)" $(WHOLE)

# A cluster and a database server, each started in a folder of its own and ended again.
fleet-test: setup-tests
	@$(BIN)/python -m pytest --complete tests/test_fleet*.py tests/test_slurm.py tests/uml/test_on_slurm.py \
		tests/test_two_machines.py tests/test_machines.py tests/test_shared_store.py tests/test_store_*.py

# A Debian made for it in QEMU, reached by ssh, goes into other kernels by kexec and comes back.
box-test: setup-tests
	@$(BIN)/python -m pytest -m box $(WHOLE)

.PHONY: forget-skips fleet-test box-test tests-browser tests-kernels
forget-skips:
	@mkdir -p build
	@: >build/skips

fresh: $(BIN)/kdyno
	@$(BIN)/python -m benchmarks.fresh $(FRESH)

bench: setup-tests
	@$(BIN)/python -m benchmarks

docs: $(BIN)/kdyno
	@$(BIN)/python -m benchmarks.pages
	@$(BIN)/kdyno lab published -o docs/research/published.md

statistics: $(BIN)/kdyno
	@$(BIN)/python -m benchmarks.statistics --write docs/research/statistics.md

lock:
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --all-extras \
		--python-version 3.11 pyproject.toml -o requirements.lock

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
