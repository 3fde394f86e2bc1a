# The commands for working on Sukkal, by hand and in CI. `make` without a target lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help run test test-core test-rest times lint docs size bench bench-short soak conformance conformance-update compose tools docker wrk rabbitmq components

# Folder of the published conformance suite (conform.py and its baseline).
SUITE ?= ../shared/conformance
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
INSTALL := $(AS_ROOT) apt-get -qq update && $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends
# Runs a target and prints how long it took.
STEP := python3 -B tests/run.py step

help:
	@echo "make run                 build and run Sukkal with its messages in ./sukkal-data, until Ctrl-C"
	@echo "make test                check the format, lint, build the documentation and run all tests"
	@echo "make test-core           lint, and run the tests that take no minutes: before each commit"
	@echo "make test-rest           build the documentation, and run browsers, generated clients, campaigns and crashes"
	@echo "make times               print the slowest tests, compilations and steps of the last run"
	@echo "make lint                check the format and lint"
	@echo "make docs                build the documentation of the code"
	@echo "make size                count the lines of code, and the files that two recipes name"
	@echo "make conformance         run the published Zaqar conformance suite in SUITE=$(SUITE)"
	@echo "make conformance-update  run it, and update the list of the tests that pass"
	@echo "make compose             test the Docker image and docker-compose.yml with a private Docker daemon"
	@echo "make soak                run the long form of the concurrency and crash tests (hours)"
	@echo "make bench               run the benchmarks and write their figures into docs (more than half an hour)"
	@echo "make bench-short         run a short form of each benchmark"

size:
	@python3 -B tests/size.py

run:
	@cargo build --profile quick --bin sukkal
	trap 'kill $$(jobs -p) 2>/dev/null || true; wait' EXIT
	trap 'exit 0' INT TERM
	target/quick/sukkal &
	until target/quick/sukkal ready 2> /dev/null; do kill -0 $$! || exit 1; sleep 0.1; done
	cat <<'TEXT'

	Sukkal listens on http://127.0.0.1:8888 (Ctrl-C stops it; the messages stay in ./sukkal-data).
	The console is at http://127.0.0.1:8888/console. Try:

	  target/quick/sukkal message post hello 'Hello, world!'
	  curl -i -H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' -H 'X-Project-ID: demo' http://127.0.0.1:8888/v2/queues/hello/messages -d '{"messages": [{"body": "Hello, world!"}]}' -H 'Content-Type: application/json'
	TEXT
	wait -n

test: test-core test-rest

test-core: tools
	@$(STEP) lint $(MAKE) --no-print-directory lint
	python3 -B tests/run.py core

test-rest: tools
	@$(STEP) docs $(MAKE) --no-print-directory docs
	python3 -B tests/run.py rest

times:
	@python3 -B tests/run.py times

lint: components
	@cargo fmt --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings

docs:
	@RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --quiet --workspace --exclude sukkal-tests

# The long form of the concurrency and crash tests. For each store: a million observed messages, a million
# with delayed messages, five minutes of claims, and five minutes at the quotas of a queue. Also a hundred
# power cuts (500 for the embedded store, and 500 killed processes), two thousand changes of the number of
# shards, redrives of 100,000 dead letters, a million deliveries to subscribers, and 200 failovers without
# receipts and with them. The same with queues in two pools that are stopped and restarted, and with queues
# that move between pools while processes are killed. 20,000 random documents, which each reader reads. And a
# siege of five minutes by attackers of 19 kinds, during which the 99th percentile of honest requests may be
# at most five times as long as before. Prints what was checked.
soak: tools
	@rm -f target/checked.tsv
	soak() { env "$$1" cargo test --release --workspace --test main -- "$${@:2}" --test-threads 1; }
	soak SUKKAL_RACE_OBSERVED=1000000 feed_order::
	soak SUKKAL_EXCLUSIVE_SECONDS=300 exclusive_claims::a_message exclusive_claims::pooled
	soak SUKKAL_POWER_CUTS=100 faults::power_cut
	soak SUKKAL_POWER_CUTS=500 faults::embedded
	soak SUKKAL_WAKEUPS=1000000 wake_ups
	soak SUKKAL_SOCKETS=50000 websocket::campaign
	soak SUKKAL_DIVISIONS=2000 resharding
	soak SUKKAL_GHOSTS=10000 faults::disconnected_waiters
	soak SUKKAL_REDRIVEN=100000 faults::redrive
	soak SUKKAL_PUSHED=1000000 push::campaign
	soak SUKKAL_FAILOVERS=200 faults::failovers
	soak SUKKAL_STALLS=200 faults::stalls
	soak SUKKAL_QUOTA_SECONDS=300 quotas::campaign
	soak SUKKAL_DOCUMENTS=20000 read_back
	soak SUKKAL_SIEGE_SECONDS=300 siege
	cat target/checked.tsv

# Takes more than half an hour. The machine must be idle otherwise. Writes sections of docs/performance.md
# and docs/behavior-under-load.md. For one benchmark: cargo bench --workspace --bench bench -- NAME (see
# benches/README.md).
bench: tools wrk rabbitmq
	@ulimit -n 20000 2> /dev/null || true
	cargo bench --workspace --bench bench -- quotas
	for name in blocking fairness overload waiting push versus; do
		cargo bench --workspace --bench bench -- $$name --write
	done

# Shows that each benchmark works, in a debug build. Its figures mean nothing.
bench-short: tools wrk
	@cargo bench --workspace --profile dev --bench bench --quiet -- short

conformance: tools
	@cargo build --workspace --bin sukkal --quiet
	python3 -B tests/clients/conformance.py $(SUITE) target/debug/sukkal tests/clients/conformance_passed.txt $(FLAGS)

conformance-update:
	@$(MAKE) conformance FLAGS=--update

# Tests the unchanged Dockerfile and docker-compose.yml with the program that the tests have built. Needs
# root. Needs no network once the packages are installed.
compose: tools docker
	@cargo build --workspace --bin sukkal --quiet
	$(AS_ROOT) python3 -B tests/compose/check.py target/debug/sukkal

# The programs that tests start, or with which they try the files in ops/ and the commands of the guides.
tools:
	@missing=()
	need() { command -v "$$1" > /dev/null || missing+=("$${@:2}"); }
	need redis-server redis-server
	need npm nodejs npm
	need chromium chromium
	need promtool prometheus
	need systemd-analyze systemd
	for tool in nginx haproxy curl jq openssl groff; do need $$tool $$tool; done
	python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3 python3-venv)
	if [ $${#missing[@]} -gt 0 ]; then $(INSTALL) "$${missing[@]}"; fi

docker:
	@command -v dockerd > /dev/null && command -v docker-compose > /dev/null && command -v ip > /dev/null || { $(INSTALL) docker.io docker-compose iproute2; }

wrk:
	@command -v wrk > /dev/null || { $(INSTALL) wrk; }

# The benchmark skips RabbitMQ if it cannot be installed.
rabbitmq:
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { $(INSTALL) rabbitmq-server; } || true

components:
	@cargo fmt --version > /dev/null 2>&1 && cargo clippy --version > /dev/null 2>&1 || rustup component add rustfmt clippy
