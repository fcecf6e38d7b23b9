# Two commands on a fresh machine: `make demo` and `make test`. Needs Python 3.11+, make and a package registry.
PYTHON ?= python3
VENV ?= .venv
# Processes that run the tests, and the files or directories of those to run: all by default. One waits for servers and
# agents most of the time, two more for real schedulers in `make check`.
WORKERS ?= $(if $(EXHAUSTIVE),4,3)
TESTS ?= tests
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
# What the demo needs, for a user who waits for it: no development tools, and no bytecode of what is never imported.
SITE = $(VENV)/.site
# Peers in a room of their own: they hold back other packages.
BENCH = $(VENV)/bench
# Linters of what is not Python, where they are at hand: Debian's lua-check; oxlint, 18 MB, which npm fetches once.
LUA = deploy/slurm tests/deploy/slurm
OXLINT = npm exec --yes --prefer-offline -- oxlint@1.94.0
JAVASCRIPT = --deny-warnings --ignore-pattern '**/vendor/**' server/jobsight_server
# Prints the seconds and CPU seconds of a step.
STEP = @$(PYTHON) tests/step.py

# The hundreds of processes that are started load compiled modules, whatever the image says that this runs in.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check lint types contract docs coverage bench bench-agent accuracy papers constraints dist deb clean

$(SITE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[server]'
	touch $@

$(STAMP): $(SITE)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet -e '.[server]' --group dev
	touch $@

# The ports are checked before anything is installed.
demo:
	@$(PYTHON) examples/ports.py $(LISTEN)
	@$(MAKE) --no-print-directory $(SITE)
	$(BIN)/python examples/demo.py $(if $(ONCE),--once) $(if $(LISTEN),--listen $(LISTEN))

# Each promise once (docs/develop/promises.md). QUICK=1 leaves out slow tests; EXHAUSTIVE=1, as in `make check`, adds what
# takes long, repeats what others prove, or needs the machine for itself.
test: $(STAMP)
	$(STEP) 'make test' $(BIN)/python -m pytest -n $(WORKERS) --slowest 40 \
	-m 'not alone$(if $(EXHAUSTIVE),, and not exhaustive)$(if $(QUICK), and not slow)' $(TESTS)
	$(if $(EXHAUSTIVE),$(STEP) 'tests that are alone' $(BIN)/python -m pytest --slowest 10 -m alone tests/system)

# The lines that `make test` runs, in all processes; less than 90 % is an error.
coverage: $(STAMP)
	rm -f .coverage .coverage.*
	$(STEP) 'make coverage' $(BIN)/python -m coverage run -m pytest -n $(WORKERS) -m 'not alone and not exhaustive' $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover

lint: $(STAMP)
	$(STEP) 'ruff check' $(BIN)/ruff check .
	$(STEP) 'ruff format' $(BIN)/ruff format --check .
	$(STEP) codespell $(BIN)/codespell
	@if command -v luacheck >/dev/null; then luacheck -q $(LUA); else echo 'no luacheck here: Lua is not linted'; fi
	@if $(OXLINT) --version >/dev/null 2>&1; then $(OXLINT) $(JAVASCRIPT); \
	else echo 'no npm here that has oxlint: JavaScript is not linted'; fi

types: $(STAMP)
	$(STEP) mypy $(BIN)/mypy

contract: $(STAMP)
	$(STEP) lint-imports $(BIN)/lint-imports

docs: $(STAMP)
	$(STEP) doctests $(BIN)/python -m pytest --doctest-modules --doctest-glob='*.md' -o testpaths= \
	--ignore=server/jobsight_server/upgrade/migrations README.md docs agent predictor scheduler server papers
	$(STEP) docs/check.py $(BIN)/python docs/check.py

check: $(STAMP)
	$(STEP) 'make check' $(MAKE) --no-print-directory lint types contract docs test EXHAUSTIVE=1

$(BENCH)/.installed: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BENCH)/bin/python -m pip install --quiet -e '.[server]' --group bench
	touch $@

bench: $(BENCH)/.installed
	$(BENCH)/bin/python -m benchmarks

bench-agent: $(STAMP)
	$(BIN)/python benchmarks/agent.py

accuracy: $(STAMP)
	nice $(BIN)/python benchmarks/accuracy.py

# All papers, with their tables and pictures in papers/out; hours on two cores. One of them: `make papers NAME=ranking`.
papers: $(STAMP)
	$(BIN)/python -m jobsight_papers $(or $(NAME),all) --plot papers/out

# The versions that this release was tried with. Needs a package registry.
constraints:
	$(PYTHON) -m venv --clear $(VENV)/pins
	$(VENV)/pins/bin/python -m pip install --quiet --disable-pip-version-check '.[server,mcp]'
	{ echo "# \`pip install -c constraints.txt '.[server]'\`: the versions of this release, made by \`make constraints\`."; \
	$(VENV)/pins/bin/python -m pip list --format=freeze --exclude jobsight --exclude pip --exclude setuptools; } \
	> $(VENV)/pins/constraints.txt
	mv $(VENV)/pins/constraints.txt constraints.txt
	rm -rf $(VENV)/pins

# In dist/: wheels of the agent alone, for nodes, and of all of Jobsight, and the latter's source.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m hatchling build --target sdist --directory dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . ./agent

# The agent's Debian package, beside them.
deb:
	deploy/agent-deb.sh dist

clean:
	rm -rf $(VENV) dist demo-site .pytest_cache .mypy_cache .ruff_cache .hypothesis
