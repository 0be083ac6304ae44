# Two commands matter: `make reproduce` and `make test`. Both make their own environment in .venv.

PYTHON ?= python3
# `make test CONSTRAINTS=` takes the newest versions that pyproject.toml allows.
CONSTRAINTS ?= -c constraints.txt
# Notebooks for `make refresh`, `make reproduce` and `make plays`, by number or name; all if empty.
NB ?=
# One play of each notebook for `make plays`, by its number; all if empty.
PLAY ?=
# The number of a figure of the paper for `make figure`.
N ?=
# Options for `make lab`, such as --no-browser or --port 9999.
LAB ?=
# JupyterLab refuses to start as root, as which containers run; whoever types `make lab` there means it.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
# How many kinds of runs `make test-combinatorial` draws from the 15 million.
CASES ?= 40000
# Environments for `make test-kernels`, by name (Haswell, Sandybridge, SkylakeX, Zen, Prescott, plain, oldest, shaken-SEED,
# or some at once: Zen+shaken-2); all if empty. `--fast` takes two, and the notebooks that print most, as .ci/run does.
KERNELS ?=
# Extras for `make dist-extras`, by name; all that a user of the module may want if empty.
EXTRA ?=
# Benchmarks for `make bench`, by name, and options such as --resume; all if empty.
BENCH ?=
BIN := .venv/bin
BOOK_EXTRAS := notebooks,fast,secure,privacy
TEST_EXTRAS := video,femnist,test,bench
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(CONSTRAINTS)
BOOK := $(CURDIR)/.venv/bin/python -m book
FLOWER_NOTEBOOKS := $(wildcard notebooks/*_flower.ipynb)
# What takes longest begins first, so that two workers end together: the list in book/running.py.
LONGEST := $(foreach number,03 01 14 02 12 13 11 17 09 04 15 07 19 10 06 18 16 08 00,$(wildcard notebooks/$(number)_*.ipynb))
IN_ORDER := $(LONGEST) $(filter-out $(LONGEST),$(wildcard notebooks/[0-9][0-9]_*.ipynb))
NOTEBOOKS := $(filter-out $(FLOWER_NOTEBOOKS),$(IN_ORDER))
LONGEST_OF_FLOWER := tests/flower/test_hospitals.py tests/flower/test_fitting.py
FLOWER_TESTS := $(LONGEST_OF_FLOWER) $(filter-out $(LONGEST_OF_FLOWER),$(wildcard tests/flower/test_*.py))
# A worker takes one file after another, in the order that is given.
BY_FILE := -n 2 --dist loadscope --no-loadscope-reorder

# One thread each, because notebooks run side by side and sums must not depend on the number of cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export NUMBA_NUM_THREADS := 1
# The kernel `python3` is this environment's, whatever else is installed for the user.
export JUPYTER_PATH := $(CURDIR)/.venv/share/jupyter

# A hundred processes import the same packages, which are compiled once and kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# Nothing that is run here tells anybody that it runs.
export FLWR_TELEMETRY_ENABLED := 0
export RAY_USAGE_STATS_ENABLED := 0

# nbval runs in the folder of the notebooks.
ifdef FGMP_DATA
export FGMP_DATA := $(abspath $(FGMP_DATA))
endif

.PHONY: help reproduce test dist dist-extras test-flower test-combinatorial test-kernels soak mutants lab figure plays audit refresh paper site test-site bench bench-full clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' Makefile

reproduce: .venv/compiled  ## run all notebooks into build/notebooks and list the claims
	cd notebooks && $(BOOK) run $(NB)
	@echo 'Next: make lab (open them), CLAIMS.md (every claim with its verdict), notebooks/15_your_own_data.ipynb (your own table).'

# Two notebooks run at a time, each in one process: joblib then starts no others.
test: .venv/tests .venv/compiled  ## lint, types, unit tests, then every notebook against its committed outputs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	MPLBACKEND=agg $(BIN)/python -m pytest -n 3 tests --ignore tests/flower
	$(if $(NOTEBOOKS),JOBLIB_MULTIPROCESSING=0 $(BIN)/python -m pytest $(BY_FILE) \
	  --nbval --nbval-current-env --nbval-sanitize-with notebooks/sanitize.cfg $(NOTEBOOKS))
	@echo 'Next: make test-flower (the same for Flower), make site (the book as pages), make help (the rest).'

test-flower: .venv/engine .venv/compiled  ## every test of federation on Flower, and the notebook of it
	FGMP_FLOWER=1 MPLBACKEND=agg $(BIN)/python -m pytest $(BY_FILE) $(FLOWER_TESTS)
	$(BIN)/python -m pytest \
	  --nbval --nbval-current-env --nbval-sanitize-with notebooks/sanitize.cfg $(FLOWER_NOTEBOOKS)

test-combinatorial: .venv/tests  ## compare a large sample of all kinds of runs with the oracle, about 15 minutes on two cores (CASES=number)
	FGMP_COMBINATORIAL=$(CASES) $(BIN)/python -m pytest -n 2 -q tests/combinatorial

test-kernels: .venv/tests .venv/compiled  ## compare the notebooks as other processors run them, with the oldest NumPy, without Numba, and on data with their last bits shaken (KERNELS=names)
	$(BIN)/python tools/kernels.py $(KERNELS)

soak: .venv/engine  ## runs of 20,000 rounds, all notebooks with small.yaml, and a hospital that comes back, about ten minutes (nightly)
	$(BIN)/python tools/soak.py
	FGMP_SOAK=1 MPLBACKEND=agg $(BIN)/python -m pytest -q tests/test_notebooks.py
	FGMP_SOAK=1 FGMP_FLOWER=1 $(BIN)/python -m pytest -q tests/flower/test_hospitals.py

mutants: .venv/mutmut  ## change the code in small ways and count what the tests notice (some hours, nightly)
	@mkdir -p build
	MPLBACKEND=agg NUMBA_DISABLE_JIT=1 $(BIN)/python -m mutmut run --max-children 2 >build/mutmut.log || { tail -n 30 build/mutmut.log; exit 1; }
	$(BIN)/python tools/mutants.py

lab: .venv/installed  ## open JupyterLab on the notebooks (LAB="--no-browser --port 9999")
	@echo 'Open 00_start_here.ipynb first; each notebook names the next one at its end. Ctrl-C twice ends JupyterLab.'
	@trap : INT; $(BIN)/python -m jupyterlab notebooks $(AS_ROOT) $(LAB); code=$$?; \
	  echo 'Next: make reproduce (all notebooks, and every claim); your own table: notebooks/15_your_own_data.ipynb.'; \
	  exit $$code

figure: .venv/compiled  ## draw a figure of the paper as PNG and PDF into build/figures (N=3)
	cd notebooks && $(BOOK) figure $(N)

plays: .venv/engine  ## run what the notebooks propose to change, and compare it with the folded answers (NB=02 PLAY=1)
	cd notebooks && $(BOOK) plays $(if $(PLAY),--number $(PLAY)) $(NB)

audit: .venv/audit  ## look for known weaknesses in the pinned packages and the workflows (nightly)
	.venv/audit/bin/zizmor --offline --persona auditor .github/workflows
	.venv/audit/bin/pip-audit --no-deps --disable-pip --requirement constraints.txt

refresh: .venv/installed  ## run the committed notebooks again, and write all that is made from them (NB="03_name ...")
	cd notebooks && $(BOOK) run --in-place $(NB)

paper: .venv/paper  ## run all notebooks at the paper's sizes, and keep the runs that notebooks/paper.yaml lists; goes on after an interruption
	cd notebooks && $(BOOK) paper $(NB)

site: .venv/site  ## make the site of the book in build/site/html, from the notebooks as they are committed
	rm -rf docs/api
	$(BIN)/python -m sphinx -W --keep-going -E -q -c docs -d build/site/doctrees . build/site/html

test-site: site  ## make the site and open every page of it in a browser (Chromium or Chrome)
	$(BIN)/python -m pytest -q -rs docs

bench: export NUMBA_NUM_THREADS := 2
bench: .venv/peers  ## measure speed against floors and peers, at most 10 minutes (BENCH="name ... --resume")
	$(BIN)/python benchmarks/run.py $(BENCH)

bench-full: .venv/peers  ## the same with more sizes and repetitions
	$(BIN)/python benchmarks/run.py --full $(BENCH)

# An empty environment has what the wheel asks for and nothing else: only there a missing dependency shows.
dist: .venv/dist  ## build the sdist and the wheel into build/dist, check them, and run README's example from each
	rm -rf build/dist build/lib
	.venv/dist/bin/python -m build --outdir build/dist .
	.venv/dist/bin/python -m twine check --strict build/dist/*
	.venv/dist/bin/check-wheel-contents build/dist
	$(PYTHON) tools/installed.py build/dist/*.whl core readme
	$(PYTHON) tools/installed.py build/dist/*.tar.gz core

dist-extras: dist  ## install the wheel with each extra alone into an empty environment, and run an example of it (EXTRA=name)
	$(PYTHON) tools/installed.py build/dist/*.whl $(EXTRA)

clean:  ## remove the environment, the builds and the caches
	rm -rf .venv build mutants *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The pip that a Python brings may be some years old, and takes twice as long to resolve what is asked for.
.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'fgmp needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@touch $@

.venv/installed: .venv/created pyproject.toml constraints.txt
	@echo 'installing into .venv; the first time this takes some minutes'
	$(INSTALL) -e '.[$(BOOK_EXTRAS)]'
	@touch $@

# Before runs that stand side by side, which would each compile the same loops.
.venv/compiled: .venv/installed fgmp/fast/kernels.py tools/loops.py
	$(BIN)/python tools/loops.py
	@touch $@

# What only some commands need is added where they are run.
.venv/tests: .venv/installed
	$(INSTALL) -e '.[$(TEST_EXTRAS)]'
	@touch $@

# Best subsets, which a kept run compares with.
.venv/paper: .venv/installed
	$(INSTALL) abess
	@touch $@

.venv/engine: .venv/tests
	$(INSTALL) -e '.[flower]'
	@touch $@

.venv/mutmut: .venv/tests
	$(INSTALL) -e '.[mutants]'
	@touch $@

# Apart, so that it shares no package with what it looks at.
.venv/dist:
	$(PYTHON) -m venv .venv/dist
	.venv/dist/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2,<2' 'twine>=6,<7' 'check-wheel-contents>=0.6,<1'

.venv/audit: .venv/installed
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet --disable-pip-version-check 'zizmor>=1.32,<2' 'pip-audit>=2.9,<3'
	@touch $@

.venv/site: .venv/tests
	$(INSTALL) -e '.[site]'
	@touch $@

# All that tests, Flower and the site need, for CI: one call of pip in place of four.
.venv/everything: .venv/created pyproject.toml constraints.txt
	$(INSTALL) -e '.[$(BOOK_EXTRAS),$(TEST_EXTRAS),flower,site]'
	@touch .venv/installed .venv/tests .venv/engine .venv/site $@

# A peer that does not install here is named as missing in the table of the benchmarks.
.venv/peers: .venv/tests benchmarks/peers.py
	$(BIN)/python benchmarks/peers.py peers | while read -r peer; do \
	  $(INSTALL) "$$peer" </dev/null || \
	  echo "$$peer does not install here" >&2; done
	$(PYTHON) -m venv .venv/flower
	$(BIN)/python benchmarks/peers.py flower | while read -r peer; do \
	  .venv/flower/bin/python -m pip install --quiet --disable-pip-version-check numpy "$$peer" </dev/null || \
	  { echo "$$peer does not install here" >&2; rm -rf .venv/flower; }; done
	@touch $@
