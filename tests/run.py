"""Builds the tests, runs a part of them, and says what took how long.

Usage: run.py core | rest       builds the tests and runs one part
       run.py times             prints what was slow in the last run of each part
       run.py step NAME COMMAND runs a command, and notes how long it took
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
TARGET = ROOT / "target"
STEPS = TARGET / "steps.tsv"
CHECKED = TARGET / "checked.tsv"
TIMINGS = TARGET / "cargo-timings/cargo-timing.html"
COMPILATIONS = TARGET / "compilations.json"

# What install.py installs while the tests are compiled.
PACKAGES = [
    ["python", "python-tests", TESTS / "requirements.txt"],
    ["python", "redis-8", TESTS / "redis-8.txt"],
    ["node"],
]
# Beginnings of the names of tests that take minutes: browsers, generated clients, proxies and other
# servers, campaigns, and crashes. The other ones are the core, together with the unit tests.
REST = ("clients::", "console::", "exclusive_claims::", "faults::", "feed_order::", "operations::", "pools::",
        "push::campaign::", "quotas::campaign::", "read_back::", "resharding::", "siege::", "wake_ups::", "websocket::campaign::")
# Of these, the tests that use the whole machine. They run after the others.
ALONE = "siege::"
# Tests mostly wait for servers, so there are more threads than cores.
THREADS = 6
# A test that takes longer is ended, and so is the run.
TEST_MAX_S = 600
# The variants of each campaign that must have checked something: see support::report.
CAMPAIGNS = {
    "disconnected_waiters": ["redis", "memory"],
    "embedded_kill": ["embedded"],
    "embedded_power_cut": ["embedded"],
    "embedded_tokens": ["embedded"],
    "exclusive_claims": ["standalone", "standalone, fair", "cluster", "cluster, fair", "cluster, moved", "embedded",
                         "embedded, fair", "memory", "memory, fair", "pooled", "pooled, fair", "moves"],
    "failovers": ["Crash", "Command", "Partition", "cluster", "Crash, receipts: false", "Crash, receipts: true"],
    "feed_order": ["standalone", "cluster", "embedded", "memory", "delayed", "delayed-cluster", "delayed-embedded",
                   "delayed-memory", "fair", "fair-cluster", "fair-embedded", "fair-memory", "moved", "worked",
                   "worked-cluster", "worked-memory", "pooled", "pooled-embedded", "moves"],
    "power_cut": ["standalone"],
    "push": ["redis", "cluster", "embedded", "pooled", "moves"],
    "quotas": ["redis", "cluster", "embedded"],
    "read_back": ["memory", "file", "redis"],
    "redrive": ["redis", "embedded"],
    "resharding": ["standalone", "cluster", "embedded", "memory"],
    "siege": ["redis", "embedded"],
    "wake_ups": ["standalone", "standalone, timed", "cluster", "cluster, timed", "memory", "memory, timed",
                 "dead letters, standalone", "dead letters, cluster", "dead letters, memory"],
    "websocket": ["redis", "memory"],
}


def main(arguments):
    match arguments:
        case ["core" | "rest" as part]:
            run(part)
        case ["times"]:
            print_times()
        case ["step", name, *command]:
            with step(name):
                status = subprocess.run(command, cwd=ROOT).returncode
            sys.exit(status)
        case _:
            sys.exit(__doc__)


@contextlib.contextmanager
def step(name):
    """Prints how long a step took, and notes it."""
    start = time.monotonic()
    yield
    seconds = time.monotonic() - start
    print(f"{name}: {seconds:.0f} s", flush=True)
    TARGET.mkdir(exist_ok=True)
    with STEPS.open("a") as steps:
        steps.write(f"{name}\t{seconds:.1f}\n")


def run(part):
    with step(f"build for test-{part}"):
        # Installing waits for the network most of the time. A test that needs packages says why it has none.
        installing = [subprocess.Popen([sys.executable, "-B", TESTS / "install.py", *what]) for what in PACKAGES]
        programs = build()
        for process in installing:
            process.wait()
    CHECKED.write_text("")
    listed = subprocess.run([programs["main"][0], "--list", "--format=terse"], stdout=subprocess.PIPE, text=True)
    names = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
    results = Results(part)
    with step(f"test-{part}"):
        chosen = [name for name in names if name.startswith(REST) == (part == "rest")]
        results.collect(programs["main"], [name for name in chosen if not name.startswith(ALONE)])
        if part == "core":
            results.collect(programs["support"], [], "support::")
            for name in sorted(programs.keys() - {"main", "support"}):
                results.collect(programs[name], [], f"unit::{name}::")
        else:
            results.collect(programs["main"], [name for name in chosen if name.startswith(ALONE)])
    results.report()


def build():
    """Builds the service and its tests. Returns the programs with tests: their paths and folders."""
    cargo = ["cargo", "build", "--quiet", "--workspace", "--bin", "sukkal", "--tests", "--timings"]
    cargo.append("--message-format=json-render-diagnostics")
    built = subprocess.run(cargo, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    units = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);", TIMINGS.read_text(), re.S)[1])
    # The second part finds everything compiled, and leaves the figures of the first one.
    if units:
        COMPILATIONS.write_text(json.dumps(units))
    artifacts = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    tests = [one for one in artifacts if one.get("executable") and one["profile"]["test"]]
    # Cargo runs the tests of a package in its folder, too.
    return {one["target"]["name"]: (one["executable"], pathlib.Path(one["manifest_path"]).parent) for one in tests}


class Results:
    """What the tests of a part have reported."""

    def __init__(self, part):
        self.part = part
        self.passed = []
        self.failed = []
        self.faults = []

    def collect(self, program, names, prefix=""):
        """Runs these tests of a program, or all of them, in its folder. The prefix names the program."""
        executable, folder = program
        # The form of the output is unstable, and RUSTC_BOOTSTRAP makes libtest accept its options.
        options = ["-Zunstable-options", "--format=json", "--report-time", "--show-output"]
        command = [executable, f"--test-threads={THREADS}", *options, "--exact", *names]
        environment = os.environ | {"RUSTC_BOOTSTRAP": "1", "RUST_BACKTRACE": "0"}
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, env=environment,
                                   start_new_session=True)
        running, has_ended = {}, False
        for line in lines_of(process, lambda: self.overdue(running)):
            try:
                event = json.loads(line)
            except ValueError:
                sys.stderr.write(line)
                continue
            if event["type"] == "suite":
                has_ended = event["event"] != "started"
            elif event["type"] == "test" and event["event"] == "started":
                running[event["name"]] = time.monotonic()
            elif event["type"] == "test" and event["event"] in ("ok", "failed", "ignored"):
                running.pop(event["name"], None)
                self.note(prefix, event)
        process.wait()
        if not has_ended:
            self.faults.append(f"the tests did not end; these were running: {', '.join(sorted(running))}")

    def overdue(self, running):
        now = time.monotonic()
        return any(now - start > TEST_MAX_S for start in running.values())

    def note(self, prefix, event):
        name, printed = prefix + event["name"], event.get("stdout", "").strip()
        if event["event"] == "ok":
            self.passed.append((name, event["exec_time"]))
            # A test that expects a panic prints it.
            if "\n" in printed and "panicked at" not in printed:
                self.faults.append(f"{name} passed, but printed more than a line:\n{printed}")
            return
        self.failed.append(name)
        seed = re.search(r"SUKKAL_SEED=(\d+)", printed)
        variables = f"{seed[0]} " if seed else ""
        print(f"\n{name} {event['event']}:\n{printed}\nRun it alone:\n"
              f"  {variables}cargo test --workspace -- --exact {event['name']}\n", flush=True)

    def report(self):
        groups = collections.Counter()
        for name, _ in self.passed:
            groups[name.split("::")[0]] += 1
        print(", ".join(f"{group} {count}" for group, count in sorted(groups.items())))
        if self.part == "rest":
            self.check_campaigns()
        rows = sorted(((seconds, name) for name, seconds in self.passed), reverse=True)
        (TARGET / f"times-{self.part}.json").write_text(json.dumps(rows))
        for fault in self.faults:
            print(fault)
        print(f"{len(self.passed)} passed, {len(self.failed)} failed", flush=True)
        if self.failed or self.faults:
            sys.exit(1)

    def check_campaigns(self):
        """Prints what the campaigns have checked. A variant that has checked nothing is a fault."""
        checked = collections.Counter()
        for line in CHECKED.read_text().splitlines():
            campaign, variant, count, _details = line.split("\t", 3)
            checked[campaign, variant] += int(count)
        for campaign, variants in CAMPAIGNS.items():
            counts = [f"{variant} {count}" for (name, variant), count in checked.items() if name == campaign]
            print(f"checked by {campaign}: {'; '.join(counts)}")
            for variant in variants:
                if not checked[campaign, variant]:
                    self.faults.append(f"the campaign {campaign} has checked nothing over {variant}")


def lines_of(process, is_overdue):
    """Returns the lines that a process prints. Kills it and its children when it is overdue."""
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    os.set_blocking(process.stdout.fileno(), False)
    rest = b""
    while True:
        if is_overdue():
            os.killpg(process.pid, signal.SIGKILL)
            return
        if not selector.select(timeout=1):
            continue
        data = process.stdout.read1(1 << 20)
        if data == b"":
            return
        *lines, rest = (rest + (data or b"")).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def print_times():
    rows = []
    for path in sorted(TARGET.glob("times-*.json")):
        rows += json.loads(path.read_text())
    groups = collections.Counter()
    for seconds, name in rows:
        groups[name.split("::")[0]] += seconds
    print("The ten slowest groups, as the sum of their tests:")
    for group, seconds in groups.most_common(10):
        print(f"{seconds:9.1f} s  {group}")
    print("\nThe fifty slowest tests:")
    for seconds, name in sorted(rows, reverse=True)[:50]:
        print(f"{seconds:9.1f} s  {name}")
    print("\nThe thirty slowest compilations of the last build that compiled something, by `cargo build --timings`:")
    for unit in sorted(json.loads(COMPILATIONS.read_text()), key=lambda unit: -unit["duration"])[:30]:
        print(f"{unit['duration']:9.1f} s  {unit['name']} {unit['version']}{unit['target']}")
    print("\nThe last steps:")
    for line in STEPS.read_text().splitlines()[-20:]:
        name, seconds = line.split("\t")
        print(f"{float(seconds):9.1f} s  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
