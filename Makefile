# Every target sets up what it needs, from a bare Python 3.10 or newer.
#
#   make demo     an app and an agent in a room, step by step
#   make test     everything that CI runs
#   make help     the rest

PYTHON ?= python3
VENV := .venv
AGENTS := .venv-agents
NODE_AGENT := examples/node-agent
BROWSER := tests/browser
PIP_FLAGS := --quiet --disable-pip-version-check --require-hashes --no-compile
WORKERS ?= 4
RUN_TESTS := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Not those about pytest, about pages or about what a demo tells of a broken step: they need a room, and any is good for
# them. Nor the demo's: test-main runs it on both servers.
ROOM_TESTS := -m 'livekit and not real_crabtalk' --ignore=tests/testing/test_pytest_plugin.py --ignore=tests/cli/test_demo.py \
	--ignore=tests/testing/test_failure_reports.py --ignore=tests/host/test_runner_fixture.py --ignore=tests/docs \
	-k 'not step_can_fail and not broken_steps and not first_steps and not records_that_do_not_come and not people_get_a_table \
	and not schemathesis'

# What no test imports is never compiled, and what they do only once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test setup test-main test-server test-agents test-crab test-repeat test-long coverage lint format bench conformance servers-page parity fuzz js js-static proto lock schema clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/ready ## show an app and an agent exchanging messages
	@$(VENV)/bin/curb-client demo

test: ## lint, all tests; the room tests on a real server too, and on livekit 1.1.21
	@$(MAKE) --silent -j4 setup lint
	@$(MAKE) --silent -j1 test-main test-server
	@$(MAKE) --silent -j2 --output-sync=target test-agents test-crab

setup: $(VENV)/livekit-server $(NODE_AGENT)/node_modules/ready $(BROWSER)/node_modules/ready js/node_modules/ready $(AGENTS)/node-ready

test-main: $(VENV)/ready $(VENV)/livekit-server $(NODE_AGENT)/node_modules/ready $(BROWSER)/node_modules/ready js/node_modules/ready ## all tests on the newest livekit
	@echo '== tests, livekit 1.2.1'
	@$(VENV)/bin/python -m pytest $(RUN_TESTS) -m 'not real_crabtalk' $(ARGS)

coverage: ## test-main, with the lines that no test reaches; twice the work
	@rm -f .coverage .coverage.*
	@$(MAKE) test-main ARGS='--cov --cov-report=term $(ARGS)'

test-server: $(VENV)/ready $(VENV)/livekit-server $(NODE_AGENT)/node_modules/ready $(BROWSER)/node_modules/ready js/node_modules/ready ## every test with a room, on a real livekit-server
	@echo '== tests with a room, livekit 1.2.1, on livekit-server'
	@$(VENV)/bin/python -m pytest $(RUN_TESTS) $(ROOM_TESTS) --livekit=server $(ARGS)

test-agents: $(AGENTS)/node-ready $(VENV)/livekit-server $(NODE_AGENT)/node_modules/ready ## the room tests beside livekit-agents, on livekit 1.1.21
	@echo '== room tests, livekit 1.1.21 and livekit-agents'
	@$(AGENTS)/bin/python -m pytest $(RUN_TESTS) tests/room tests/e2e tests/agents --ignore-glob='*/test_faults*' --ignore-glob='*/test_hostile*' $(ARGS)

test-crab: $(VENV)/ready $(VENV)/crabtalk ## the tests with a CrabTalk daemon on the real one, where it is there
	@echo '== tests with a CrabTalk daemon, on the real one'
	@$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m real_crabtalk tests/crabtalk tests/cli/test_crab_demo.py $(ARGS)

test-repeat: $(VENV)/ready $(VENV)/livekit-server $(NODE_AGENT)/node_modules/ready $(BROWSER)/node_modules/ready js/node_modules/ready ## the tests with a room ten times (TIMES=10) on both servers (SERVERS=server: on one): a flaky test is a failing test
	@for n in $$(seq $${TIMES:-10}); do for server in $${SERVERS:-embedded server}; do echo "== round $$n, $$server"; \
		$(VENV)/bin/python -m pytest -q $(RUN_TESTS) $(ROOM_TESTS) --livekit=$$server $(ARGS) \
		|| exit 1; done; done

test-long: $(VENV)/ready $(VENV)/livekit-server ## 200 process exits, none of which may abort; 200 calls, and 500 on the embedded server, that leave nothing
	@CURB_EXITS=200 CURB_LONG=1 $(VENV)/bin/python -m pytest -q tests/e2e/test_lifetime.py tests/testing/embedded/test_cycles.py tests/e2e/test_hostile_peer.py $(ARGS)

lint: $(VENV)/ready ## style, types and import layers
	@echo '== ruff, mypy, import-linter'
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/lint-imports --no-logo > .import-linter.log || { cat .import-linter.log; exit 1; }

format: $(VENV)/ready ## rewrite the sources in the project's style
	@$(VENV)/bin/ruff check --fix --quiet . && $(VENV)/bin/ruff format --quiet .

bench: $(VENV)/ready $(VENV)/livekit-server ## ask against the raw SDK: ratios, as a table and in bench.json
	@$(VENV)/bin/python -m bench --json bench.json $(ARGS)

conformance: $(VENV)/ready $(VENV)/livekit-server ## record anew what livekit-server does, for the embedded one to be measured against
	@$(VENV)/bin/python -m tests.conformance --livekit=server --write

servers-page: $(VENV)/ready ## write the table of one-server tests in docs/servers.md anew
	@$(VENV)/bin/python -m tests.one_server --write

parity: $(VENV)/ready $(VENV)/livekit-server $(BROWSER)/node_modules/ready js/node_modules/ready ## play every scenario with every client on both servers; write docs/parity.md and the pictures of pages anew
	@rm -rf .parity
	@for server in embedded server; do CURB_PARITY=.parity $(VENV)/bin/python -m pytest -q $(RUN_TESTS) \
		tests/parity tests/browser/test_curb_client_pages.py --deselect tests/parity/test_table.py --livekit=$$server $(ARGS) || exit 1; done
	@$(VENV)/bin/python -m tests.parity.table .parity

fuzz: $(VENV)/ready ## every decoder fed by a fuzzer, for a minute each (SECONDS=60); what fails is kept in .fuzz/
	@$(VENV)/bin/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(ARGS)

js: $(VENV)/ready js/node_modules/ready ## all of the JavaScript package: types, tests, build, sizes
	@cd js && PATH="$$PATH:$(CURDIR)/$(VENV)/bin" npm test

js-static: $(VENV)/ready js/node_modules/ready ## build the script that the Python package carries anew
	@cd js && PATH="$$PATH:$(CURDIR)/$(VENV)/bin" npm run --silent static

# Stubs of newer ones need a newer protobuf than users have.
proto: ## write the classes of CrabTalk's messages anew from crabtalk.proto
	@$(PYTHON) -m venv .venv-proto && .venv-proto/bin/pip install --quiet --disable-pip-version-check grpcio-tools==1.63.2
	@.venv-proto/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. curb_client/crabtalk/crabtalk.proto

schema: $(VENV)/ready ## write protocol.schema.json anew from the models
	@$(VENV)/bin/python -m curb_client.protocol.schema

lock: $(VENV)/ready ## compile the lock files anew
	@for name in dev agents; do $(VENV)/bin/uv pip compile --quiet pyproject.toml --all-extras requirements/$$name.in \
		--universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header -o requirements/$$name.txt; done
	@$(VENV)/bin/uv pip compile --quiet requirements/node.in \
		--universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header -o requirements/node.txt

clean: ## remove what the targets made in this folder; the cache of livekit-server stays
	@rm -rf $(VENV) $(AGENTS) .venv-proto $(NODE_AGENT)/node_modules $(BROWSER)/node_modules js/node_modules js/dist .coverage .coverage.* bench.json .import-linter.log .pytest_cache .mypy_cache .ruff_cache \
		.hypothesis .fuzz .import_linter_cache

$(VENV)/ready: requirements/dev.txt pyproject.toml
	@echo "== setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or newer is needed: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install $(PIP_FLAGS) -r requirements/dev.txt
	@$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(AGENTS)/ready: requirements/agents.txt pyproject.toml
	@echo "== setting up $(AGENTS) with livekit-agents (once; a minute or two)"
	@$(PYTHON) -m venv $(AGENTS)
	@$(AGENTS)/bin/pip install $(PIP_FLAGS) -r requirements/agents.txt
	@$(AGENTS)/bin/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Got before the tests start, so that none of them waits for a build.
$(VENV)/livekit-server: $(VENV)/ready
	@$(VENV)/bin/python -c 'from curb_client.testing import LiveKitServer; LiveKitServer(progress=print).prepare()'
	@touch $@

# Node.js and npm from PyPI, where the machine lacks one of them.
%/node-ready: %/ready requirements/node.txt
	@{ command -v node && command -v npm; } > /dev/null || $*/bin/pip install $(PIP_FLAGS) -r requirements/node.txt
	@touch $@

# Only under CI: it takes minutes, cargo and protoc. `curb-client crab install` is for everybody.
$(VENV)/crabtalk: $(VENV)/ready
	@[ -z "$$CI" ] || { nice -n 19 $(VENV)/bin/curb-client crab install && touch $@; }

js/node_modules/ready: js/package-lock.json js/package.json $(VENV)/node-ready
	@echo '== installing what the JavaScript package needs'
	@cd js && PATH="$$PATH:$(CURDIR)/$(VENV)/bin" npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(NODE_AGENT)/node_modules/ready: $(NODE_AGENT)/package-lock.json $(VENV)/node-ready
	@echo '== installing what the agent in JavaScript needs'
	@cd $(NODE_AGENT) && PATH="$$PATH:$(CURDIR)/$(VENV)/bin" npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(BROWSER)/node_modules/ready: $(BROWSER)/package-lock.json $(VENV)/node-ready
	@echo '== installing what the tests in a browser need'
	@cd $(BROWSER) && PATH="$$PATH:$(CURDIR)/$(VENV)/bin" npm ci --no-audit --no-fund --loglevel=error
	@touch $@
