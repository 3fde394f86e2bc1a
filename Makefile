# The commands for working on Sukkal, by hand and in CI. `make` without a target lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help run test lint unit docs deny bench steady soak conformance conformance-update compose docker redis python node chromium operations wrk rabbitmq shell-tools components

# Folder of the published conformance suite (conform.py and its baseline).
SUITE ?= ../shared/conformance
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
INSTALL := $(AS_ROOT) apt-get -qq update && $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends
# Lets tests move the clock of the store. The service is built without it.
TEST_FEATURES := --features movable-clock

help:
	@echo "make run                 build and run Sukkal with its messages in ./sukkal-data, until Ctrl-C"
	@echo "make test                check the format, lint, build the documentation and run all tests"
	@echo "make lint                check the format and lint"
	@echo "make unit                run all tests"
	@echo "make docs                build the documentation of the code"
	@echo "make deny                check the dependencies for advisories and licenses with cargo-deny"
	@echo "make conformance         run the published Zaqar conformance suite in SUITE=$(SUITE)"
	@echo "make conformance-update  run it, and update the list of the tests that pass"
	@echo "make compose             test the Docker image and docker-compose.yml with a private Docker daemon"
	@echo "make soak                run the long form of the concurrency and crash tests (hours)"
	@echo "make bench               run the benchmarks and write docs/performance.md (more than half an hour)"
	@echo "make steady              load an embedded store for half an hour and draw docs/steady.svg"

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

test: lint docs unit

lint: components
	@cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	cargo clippy --all-targets --quiet $(TEST_FEATURES) -- -D warnings

unit: redis python node chromium operations shell-tools
	@mkdir -p target
	cargo test $(TEST_FEATURES) -- --test-threads 4 | tee target/tests.log
	awk -f tests/totals.awk target/tests.log

docs:
	@RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --quiet

# Needs the network, for the advisories.
deny:
	@command -v cargo-deny > /dev/null || cargo install --locked cargo-deny
	cargo deny check

# The long form of the concurrency and crash tests. For each store: a million observed messages, a million
# with delayed messages, five minutes of claims, and five minutes at the quotas of a queue. Also a hundred power cuts (500 for the embedded
# store, and 500 killed processes), two thousand changes of the number of shards, redrives of 100,000
# dead letters, a million deliveries to subscribers, and 200 failovers without receipts and with them. The
# same with queues in two pools that are stopped and restarted, and with queues that move between pools
# while processes are killed.
soak: redis
	@SUKKAL_RACE_OBSERVED=1000000 cargo test --release $(TEST_FEATURES) --test main -- feed_order:: --nocapture --test-threads 1
	SUKKAL_EXCLUSIVE_SECONDS=300 cargo test --release $(TEST_FEATURES) --test main -- exclusive_claims::a_message exclusive_claims::pooled --nocapture --test-threads 1
	SUKKAL_POWER_CUTS=100 cargo test --release $(TEST_FEATURES) --test main -- faults::power_cut --nocapture --test-threads 1
	SUKKAL_POWER_CUTS=500 cargo test --release $(TEST_FEATURES) --test main -- faults::embedded --nocapture --test-threads 1
	SUKKAL_WAKEUPS=1000000 cargo test --release $(TEST_FEATURES) --test main -- wake_ups --nocapture --test-threads 1
	SUKKAL_SOCKETS=50000 cargo test --release $(TEST_FEATURES) --test main -- websocket::campaign --nocapture --test-threads 1
	SUKKAL_DIVISIONS=2000 cargo test --release $(TEST_FEATURES) --test main -- resharding --nocapture --test-threads 1
	SUKKAL_GHOSTS=10000 cargo test --release $(TEST_FEATURES) --test main -- faults::disconnected_waiters --nocapture --test-threads 1
	SUKKAL_REDRIVEN=100000 cargo test --release $(TEST_FEATURES) --test main -- faults::redrive --nocapture --test-threads 1
	SUKKAL_PUSHED=1000000 cargo test --release $(TEST_FEATURES) --test main -- push::campaign --nocapture --test-threads 1
	SUKKAL_FAILOVERS=200 cargo test --release $(TEST_FEATURES) --test main -- faults::failovers --nocapture --test-threads 1
	SUKKAL_QUOTA_SECONDS=300 cargo test --release $(TEST_FEATURES) --test main -- quotas::campaign --nocapture --test-threads 1

# Takes more than half an hour. The machine must be idle otherwise. Writes docs/performance.md. For a quick
# run: cargo bench --bench versus -- --quick (with --only NAME for one measurement; post-64, list and
# claim have the goals for processor time).
bench: redis python wrk rabbitmq
	@ulimit -n 20000 2> /dev/null || true
	cargo bench

# Loads an embedded store for half an hour and draws docs/steady.svg. The machine must be idle otherwise.
steady:
	@cargo bench --bench steady -- --minutes 30 --write

conformance: redis python
	@cargo build --quiet
	python3 tests/clients/conformance.py $(SUITE) target/debug/sukkal tests/clients/conformance_passed.txt $(FLAGS)

conformance-update:
	@$(MAKE) conformance FLAGS=--update

# Tests the unchanged Dockerfile and docker-compose.yml with the release binary. Needs root. Needs no
# network once the packages are installed.
compose: redis docker
	@cargo build --release
	$(AS_ROOT) python3 -B tests/compose/check.py target/release/sukkal

docker:
	@command -v dockerd > /dev/null && command -v docker-compose > /dev/null && command -v ip > /dev/null || { $(INSTALL) docker.io docker-compose iproute2; }

redis:
	@command -v redis-server > /dev/null || { $(INSTALL) redis-server; }

python:
	@python3 -c 'import ensurepip, venv' 2> /dev/null || { $(INSTALL) python3 python3-venv; }

node:
	@command -v npm > /dev/null || { $(INSTALL) nodejs npm; }

chromium:
	@command -v chromedriver > /dev/null || { $(INSTALL) chromium chromium-driver; }

# The programs with which tests try the files in ops/ and the commands of the runbook.
operations:
	@command -v promtool > /dev/null && command -v nginx > /dev/null && command -v haproxy > /dev/null && command -v systemd-analyze > /dev/null && command -v curl > /dev/null && command -v jq > /dev/null && command -v openssl > /dev/null || { $(INSTALL) prometheus nginx haproxy systemd curl jq openssl; }

# What the transcripts of the command line use: jq for JSON, groff for the manual, openssl for TLS.
shell-tools:
	@for tool in jq groff openssl; do command -v $$tool > /dev/null || { $(INSTALL) $$tool; }; done

wrk:
	@command -v wrk > /dev/null || { $(INSTALL) wrk; }

# The benchmark skips RabbitMQ if it cannot be installed.
rabbitmq:
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { $(INSTALL) rabbitmq-server; } || true

components:
	@cargo fmt --version > /dev/null 2>&1 && cargo clippy --version > /dev/null 2>&1 || rustup component add rustfmt clippy
