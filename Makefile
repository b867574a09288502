# Each target makes .venv itself. PYTHON chooses the interpreter, ARGS goes to the command.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := torch,boosters,compare,data,ray,dask,onnx,parquet

.PHONY: docs-serve docs-check wheel-check mutations same-numbers fuzz-files fuzz-tables file-sizes test-lowest test-newest test-python gauntlet intervals pair-speed automatic automatic-speed small-tables strips fuzz demo test browser check bench synthetic figures playground boston quantifier quantifier-speed rounds baselines known \
  reproduction tuned cells msd kills signals torch digits command docs format clean

demo: .venv/core
	$(BIN)/aleator demo $(ARGS)

test: .venv/all browser
	MPLBACKEND=Agg SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

# The same tests with the lowest versions of the core's dependencies that pyproject.toml allows, and with the newest ones.
# Other people's warnings about each other's versions are no errors there. Versions of Numba do not share a cache.
test-lowest: browser
	$(MAKE) .venv-lowest/all
	MPLBACKEND=Agg SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/numba .venv-lowest/bin/python -m pytest -n 2 --dist worksteal -W default $(ARGS)

test-newest: browser
	$(MAKE) .venv-newest/all
	MPLBACKEND=Agg SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv-newest/numba .venv-newest/bin/python -m pytest -n 2 --dist worksteal -W default $(ARGS)

# The tests that need neither torch nor Ray, with another interpreter: make test-python PYTHON=python3.13
test-python: browser
	$(MAKE) .venv-python/all
	MPLBACKEND=Agg SCIPY_ARRAY_API=1 OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv-python/numba .venv-python/bin/python -m pytest -n 2 --dist worksteal -W default \
	  $(addprefix --ignore=,src/aleator/torch $(shell grep -rlE "^(import|from) (torch|aleator.torch)" tests --include=*.py)) -k "not torch and not ray" $(ARGS)

# The tests of the page use Chromium. Where there is none, Debian's is installed; elsewhere CHROMIUM may name one.
browser:
	@command -v $${CHROMIUM:-chromium} >/dev/null || { echo "installing Chromium for the tests of the page"; \
	  export DEBIAN_FRONTEND=noninteractive; install="apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core"; \
	  $$install >/dev/null 2>&1 || { apt-get update -qq && $$install; } >/dev/null 2>&1; } \
	  || echo "Chromium could not be installed: the tests of the page will be skipped"

check: .venv/all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python docs/reference_check.py
	rm -rf dist && $(BIN)/python -m build -q --no-isolation && $(BIN)/twine check --strict dist/*

bench: .venv/all
	$(BIN)/python benchmarks/speed.py $(ARGS)

boston: .venv/all
	$(BIN)/python benchmarks/boston.py $(ARGS)

quantifier: .venv/all
	$(BIN)/python benchmarks/quantifier.py $(ARGS)

quantifier-speed: .venv/all
	$(BIN)/python benchmarks/quantifier_speed.py $(ARGS)

rounds: .venv/all
	$(BIN)/python benchmarks/rounds.py $(ARGS)

baselines: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/baselines.py $(ARGS)

known: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/known.py $(ARGS)

synthetic: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/synthetic.py $(ARGS)

# Section 8: all of it with its wall time (50 minutes on two cores), with settings chosen by grid search (as long again),
# why some cells are not the paper's, a data set of the size of MSD, and a run that is killed twenty times.
reproduction: .venv/all
	$(BIN)/python benchmarks/reproduction.py $(ARGS)

tuned: .venv/all
	$(BIN)/aleator reproduce tables --hyperparameters tuned --methods ens_ml,ens_pair --out tuned $(ARGS)

fuzz: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fuzz_automatic.py $(ARGS)

automatic: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/automatic.py $(ARGS)

# Mutated tables and model files; each prints its seed.
fuzz-tables: .venv/all
	$(BIN)/python benchmarks/fuzz_tables.py $(ARGS)

fuzz-files: .venv/all
	$(BIN)/python benchmarks/fuzz_files.py $(ARGS)

# 300 small mutations of the mathematics, each judged by the tests of its module (an hour on two cores).
mutations: .venv/all
	$(BIN)/python benchmarks/mutations.py $(ARGS)

# Are predictions those of another commit, to the last bit? ARGS="write FILE" with the one, "compare FILE" with the other.
same-numbers: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/same_numbers.py $(ARGS)

# Bytes and load times of model files.
file-sizes: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/file_sizes.py $(ARGS)

# Ten tables, forty kinds of dirt, five models, 35 minutes; intervals for skewed errors; seconds by the number of rows.
gauntlet: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gauntlet.py $(ARGS)

intervals: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/intervals.py $(ARGS)

pair-speed: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/pair_speed.py $(ARGS)

automatic-speed: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/automatic_speed.py $(ARGS)

small-tables: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/small_tables.py $(ARGS)

strips: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/strips.py $(ARGS)

cells: .venv/all
	$(BIN)/python benchmarks/cells.py $(ARGS)

msd: .venv/all
	$(BIN)/python benchmarks/msd.py $(ARGS)

# aleator.torch: what it costs beside the obvious, and the example of the rotated digits over five seeds.
torch: .venv/all
	$(BIN)/python benchmarks/torch_speed.py $(ARGS)

digits: .venv/all
	$(BIN)/python benchmarks/digits.py --seeds 0 1 2 3 4 --out docs/figures $(ARGS)

# The command: coverage of its intervals over 50 splits, 5 million rows through predict, seconds from Ctrl-C to the end.
command: .venv/all
	OMP_NUM_THREADS=1 $(BIN)/python -u benchmarks/command.py $(ARGS)

# The site, in docs/_build/html: all pages and examples are executed, and what was not changed is kept for the next time.
docs: .venv/docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q docs docs/_build/html

docs-serve: docs
	$(BIN)/python -m http.server --directory docs/_build/html 8000

# Every page of the site in Chromium, wide and narrow: links, anchors, errors, requests to elsewhere, sideways scrolling.
docs-check: docs browser
	$(BIN)/python docs/crawl.py $(ARGS)

# The wheel in empty environments, without extras: make wheel-check PYTHONS="python3.11 python3.12 python3.13"
PYTHONS ?= python3.11 python3.12 python3.13
wheel-check: .venv/all
	$(BIN)/python benchmarks/wheel.py $(PYTHONS)

# 200 signals at random moments over the commands, and a reader beside 1,000 rewrites of its file.
signals: .venv/all
	$(BIN)/python benchmarks/signals.py $(ARGS)

kills: .venv/all
	$(BIN)/python benchmarks/kills.py $(ARGS)

# What is drawn in docs/theory/lambda.md, and the trainings that `aleator playground` replays.
figures: .venv/core
	$(BIN)/aleator reproduce figures --out docs/figures $(ARGS)
	MPLBACKEND=Agg $(BIN)/python -c "import runpy; runpy.run_path('examples/01_houses.py')['figure'].savefig('docs/figures/houses.png', dpi=130)"

playground: .venv/core
	$(BIN)/python -m aleator.paper.playground

format: .venv/all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade pip

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt -e .
	@touch $@

.venv/all: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[$(EXTRAS)]" --group dev
	@touch $@ .venv/core

.venv/docs: .venv/all
	$(BIN)/python -m pip install -q -c constraints.txt --group docs
	@touch $@

.venv-lowest/all: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install -q --upgrade pip
	.venv-lowest/bin/python -m pip install -q -c constraints-lowest.txt torch==2.13.0
	.venv-lowest/bin/python -m pip install -q -c constraints-lowest.txt -e ".[$(EXTRAS)]" --group dev
	@touch $@

.venv-newest/all: pyproject.toml
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install -q --upgrade pip
	.venv-newest/bin/python -m pip install -q torch==2.13.0
	.venv-newest/bin/python -m pip install -q --upgrade -e ".[$(EXTRAS)]" --group dev torch==2.13.0
	@touch $@

.venv-python/all: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-python
	.venv-python/bin/python -m pip install -q --upgrade pip
	.venv-python/bin/python -m pip install -q -c constraints.txt -e ".[boosters,compare,data,dask,onnx,parquet]" --group dev
	@touch $@

clean:
	rm -rf .venv .venv-lowest .venv-newest .venv-python demo reproduction tuned .pytest_cache .mypy_cache .ruff_cache .hypothesis dist docs/_build docs/generated docs/gallery docs/reference/api
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
