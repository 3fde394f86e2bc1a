"""`make conformance`: the published conformance suite against this server, one process per profile.

Usage: conformance.py SUITE_DIR SUKKAL PASSED [--update]

Compares with the committed list PASSED: a test in it that does not pass fails the run, so the list
only grows. `--update` adds what passes now. What each profile of the suite asks of the server is in
PROFILES, and nowhere else.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Environment of the server for each profile that the server can serve today. Profiles with pools,
# Keystone or WebSockets are not among them.
PROFILES = {
    "nopool": {
        "SUKKAL_ADMIN_MODE": "true",
        "SUKKAL_SIGNED_URL__SECRET_KEY": "secret",
        "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY": "conformance",
    },
    "validation": {
        "SUKKAL_TRANSPORT__MAX_QUEUE_METADATA": "64",
        "SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE": "256",
    },
    "clientid_off": {"SUKKAL_TRANSPORT__CLIENT_ID_UUID_SAFE": "off"},
    "claim_delete": {"SUKKAL_TRANSPORT__MESSAGE_DELETE_WITH_CLAIM_ID": "true"},
    "faulty": {},
}
SUITES = ["wsgi", "client", "flow"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_listening(port, process):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"a server ended at once with status {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def start(stack, command, port, environment=None):
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_until_listening(port, process)
    return process


def start_redis(stack):
    port = free_port()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    command = ["redis-server", "--port", str(port), "--dir", folder, "--save", "", "--bind", "127.0.0.1"]
    return start(stack, command, port), f"redis://127.0.0.1:{port}"


def start_sukkal(stack, sukkal, store, environment):
    port = free_port()
    command = [sukkal, "--bind", f"127.0.0.1:{port}", "--store", store]
    start(stack, command, port, environment)
    return f"http://127.0.0.1:{port}"


def run_suite(suite_folder, urls, suite):
    profiles = [part for name, url in urls.items() for part in ("--profile-url", f"{name}={url}")]
    with tempfile.TemporaryDirectory() as folder:
        # The suite's folder may be read-only, and Python leaves caches beside what it runs.
        script = shutil.copy(pathlib.Path(suite_folder) / "conform.py", folder)
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, script, "--suite", suite, "--no-slow", "--json", report]
        command += ["--url", urls["nopool"], "--profile", "nopool", *profiles]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())["results"]


def name_of(row):
    return " ".join((row["suite"], row["profile"], row["id"]))


def main():
    suite_folder, sukkal, list_file, *flags = sys.argv[1:]
    list_file = pathlib.Path(list_file)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        _, store = start_redis(stack)
        urls = {}
        for name, environment in PROFILES.items():
            own_redis, own_store = start_redis(stack) if name == "faulty" else (None, store)
            urls[name] = start_sukkal(stack, sukkal, own_store, environment)
            if own_redis:
                own_redis.kill()
        rows = [row for suite in SUITES for row in run_suite(suite_folder, urls, suite)]

    passed = {name_of(row) for row in rows if row["status"] == "PASS"}
    failed = {name_of(row): row for row in rows if row["status"] == "FAIL"}
    expected = set(list_file.read_text().splitlines()) if list_file.exists() else set()
    lost = sorted(expected - passed)
    for name in lost:
        print(f"no longer passes: {name}  {failed.get(name, {}).get('reason', 'did not run')}")
    if "--update" in flags:
        list_file.write_text("".join(f"{name}\n" for name in sorted(expected | passed)))
    elif passed - expected:
        print(f"{len(passed - expected)} tests pass that are not in {list_file} yet: run with --update")
    print(f"of {len(expected)} tests that must pass, {len(expected) - len(lost)} do")
    print(f"{len(passed)} passed, {len(lost)} failed")
    sys.exit(1 if lost or not passed else 0)


if __name__ == "__main__":
    main()
