# SPDX-License-Identifier: MIT
# setup, demo, test, check, bench: what the README says. Everything else is `kdyno --help`.

VENV := .venv
BIN := $(VENV)/bin
KDYNO := $(BIN)/kdyno

.PHONY: setup demo test check bench statistics lock clean help

help:
	@echo "make setup       what a fresh machine lacks: packages and the Python environment"
	@echo "make demo        set-up, then a memcpy experiment on real kernels, about 8 minutes"
	@echo "make test        set-up, then all tests, with real kernels"
	@echo "make check       the fast tests: no kernel, root or network"
	@echo "make bench       kdyno's own speed, as ratios"
	@echo "make statistics  docs/statistics.md again, by simulation"

setup:
	@./setup.sh

demo: setup
	@$(KDYNO) run experiments/simd-memcpy.toml --max-minutes 2.3
	@echo
	@echo "Run it again and only the measuring is left. Next: $(KDYNO) list, $(KDYNO) --help"

$(BIN)/kdyno:
	@./setup.sh --python-only

check: $(BIN)/kdyno
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/python -m mypy
	@$(BIN)/python -m pytest -n 2 -m "not uml and not browser and not tools and not slow"

# Apart, so that no browser is alive beside a guest that is being timed.
test: setup check
	@$(BIN)/python -m pytest -n 2 -m "slow and not uml and not browser and not tools"
	@$(BIN)/python -m pytest -m "(browser or tools) and not uml"
	@$(BIN)/python -m pytest -m uml

bench: setup
	@status=0; for it in boots site survey memcpy kernels speed; do \
		$(BIN)/python -m benchmarks.$$it || status=1; \
	done; exit $$status

statistics: $(BIN)/kdyno
	@$(BIN)/python -m benchmarks.statistics --write docs/statistics.md

lock:
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --all-extras \
		--python-version 3.11 pyproject.toml -o requirements.lock

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
