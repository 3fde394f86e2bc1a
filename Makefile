# Everything a desk or a CI does with Sukkal. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help run test lint unit docs bench steady soak conformance conformance-update compose docker redis python node chromium wrk rabbitmq components

# Where the published conformance suite lies (conform.py and its baseline).
SUITE ?= ../shared/conformance
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
INSTALL := $(AS_ROOT) apt-get -qq update && $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends
# Tests move the store's clock; the service that users run cannot.
TEST_FEATURES := --features movable-clock

help:
	@echo "make run          build and run Sukkal, with its messages in ./sukkal-data, until Ctrl-C"
	@echo "make test         format, lint, all tests, docs"
	@echo "make conformance  the published Zaqar tests in SUITE=$(SUITE)"
	@echo "make compose      the image and docker-compose.yml, tested on a Docker daemon of their own"
	@echo "make soak         the long form of the tests that race"
	@echo "make bench        the benchmarks, and docs/performance.md anew"
	@echo "make steady       the embedded store for half an hour, and docs/steady.svg anew"

run:
	@cargo build --profile quick --bin sukkal
	trap 'kill $$(jobs -p) 2>/dev/null || true; wait' EXIT
	trap 'exit 0' INT TERM
	target/quick/sukkal &
	until target/quick/sukkal ready 2> /dev/null; do kill -0 $$! || exit 1; sleep 0.1; done
	cat <<'TEXT'

	Sukkal listens on http://127.0.0.1:8888 (Ctrl-C stops it; the messages stay in ./sukkal-data). Try:

	  curl -i -H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' -H 'X-Project-ID: demo' http://127.0.0.1:8888/v2/queues/hello/messages -d '{"messages": [{"body": "Hello, world!"}]}' -H 'Content-Type: application/json'
	TEXT
	wait -n

test: lint docs unit

lint: components
	@cargo fmt --check
	cargo clippy --all-targets --quiet -- -D warnings
	cargo clippy --all-targets --quiet $(TEST_FEATURES) -- -D warnings

unit: redis python node chromium
	@mkdir -p target
	cargo test $(TEST_FEATURES) | tee target/tests.log
	awk -f tests/totals.awk target/tests.log

docs:
	@RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --quiet

# A million observed messages per store, and as many where messages are delayed, five minutes of claims, and a
# hundred power cuts, checked; for an embedded store five hundred, and as many deaths of the process. Fair queues divided anew
# two thousand times.
soak: redis
	@SUKKAL_RACE_OBSERVED=1000000 cargo test --release $(TEST_FEATURES) --test main -- race::every race::workers --nocapture --test-threads 1
	SUKKAL_EXCLUSIVE_SECONDS=300 cargo test --release $(TEST_FEATURES) --test main -- exclusive::a_message --nocapture --test-threads 1
	SUKKAL_POWER_CUTS=100 cargo test --release $(TEST_FEATURES) --test main -- faults::power_cut --nocapture --test-threads 1
	SUKKAL_POWER_CUTS=500 cargo test --release $(TEST_FEATURES) --test main -- faults::embedded --nocapture --test-threads 1
	SUKKAL_WAKEUPS=1000000 cargo test --release $(TEST_FEATURES) --test main -- wakeups --nocapture --test-threads 1
	SUKKAL_DIVISIONS=2000 cargo test --release $(TEST_FEATURES) --test main -- resizing --nocapture --test-threads 1
	SUKKAL_GHOSTS=10000 cargo test --release $(TEST_FEATURES) --test main -- faults::ghosts --nocapture --test-threads 1

# Half an hour and more on a machine that does nothing else; docs/performance.md is written anew. For a look:
# cargo bench --bench versus -- --quick (and --only NAME: post-64, list and claim have the goals of CPU).
bench: redis python wrk rabbitmq
	@ulimit -n 20000 2> /dev/null || true
	cargo bench

# Half an hour of the embedded store under load, on a machine that does nothing else; docs/steady.svg is drawn anew.
steady:
	@cargo bench --bench steady -- --minutes 30 --write

conformance: redis python
	@cargo build --quiet
	python3 tests/clients/conformance.py $(SUITE) target/debug/sukkal tests/clients/conformance_passed.txt $(FLAGS)

conformance-update:
	@$(MAKE) conformance FLAGS=--update

# The unchanged Dockerfile and docker-compose.yml with the release binary. Needs root, and no network once the packages are
# installed.
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

wrk:
	@command -v wrk > /dev/null || { $(INSTALL) wrk; }

# Where it cannot be had, the benchmark does without.
rabbitmq:
	@test -x /usr/lib/rabbitmq/bin/rabbitmq-server || { $(INSTALL) rabbitmq-server; } || true

components:
	@cargo fmt --version > /dev/null 2>&1 && cargo clippy --version > /dev/null 2>&1 || rustup component add rustfmt clippy
