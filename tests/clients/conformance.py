"""`make conformance`: the published conformance suite against this server, one process per profile.

Usage: conformance.py SUITE_DIR SUKKAL PASSED [--update]

Runs the suite over each kind of store and compares the results with the committed list PASSED. A
test of the list that does not pass fails the run, so the list only grows. `--update` adds the tests
that pass over Redis. COMMON and PROFILES have all server options that the profiles need.
"""

import collections
import concurrent.futures
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

# Environment of every server. Admin mode enables the health route, the key enables encryption, and
# the secret enables signed URLs. Subscribers of the suite listen on this machine, or are called
# http://0, http://1 and so on.
COMMON = {
    "SUKKAL_ADMIN_MODE": "true",
    "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY": "a key for tests that nobody else knows",
    "SUKKAL_SIGNED_URL__SECRET_KEY": "a secret for tests that nobody else knows",
    "SUKKAL_PUSH__ALLOWED_NETWORKS": "0.0.0.0/8,127.0.0.0/8",
    "SUKKAL_PUSH__ALLOWED_PORTS": "1-65535",
}
# Environment of a server with pools.
POOLED = {"SUKKAL_POOLING__ENABLED": "true", "SUKKAL_POOLING__VIRTUAL_POOL": "true"}
# The suite itself has the Keystone, which accepts any password.
KEYSTONE = {
    "SUKKAL_AUTH__STRATEGIES": "keystone",
    "SUKKAL_KEYSTONE__AUTH_URL": "http://127.0.0.1:{keystone_port}/v3",
    "SUKKAL_KEYSTONE__USERNAME": "sukkal",
    "SUKKAL_KEYSTONE__PASSWORD": "any",
}
# Additional environment for each profile.
PROFILES = {
    "default": POOLED,
    "nopool": {},
    "validation": {
        "SUKKAL_TRANSPORT__MAX_QUEUE_METADATA": "64",
        "SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE": "256",
    },
    "clientid_off": {"SUKKAL_TRANSPORT__CLIENT_ID_UUID_SAFE": "off"},
    "claim_delete": {"SUKKAL_TRANSPORT__MESSAGE_DELETE_WITH_CLAIM_ID": "true"},
    "claim_delete_pooled": POOLED | {"SUKKAL_TRANSPORT__MESSAGE_DELETE_WITH_CLAIM_ID": "true"},
    "keystone": KEYSTONE,
    # Its store is stopped after the server has started.
    "faulty": {},
    "websocket": {"SUKKAL_WEBSOCKET__BIND": "{websocket_port}"},
    "ws_keystone": KEYSTONE | {"SUKKAL_SIGNED_URL__SECRET_KEY": "secret"},
}
# The profiles for WebSockets: one on the separate listener, one on the port of the HTTP API.
WEBSOCKETS = {"websocket": "ws://127.0.0.1:{websocket_port}", "ws_keystone": "{ws_url}/v2/websocket"}
SUITES = ["wsgi", "client", "flow", "websocket"]
STORES = ["redis", "embedded", "memory"]


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


def start_keystone(stack, suite_folder):
    """Starts the Keystone of the suite, and returns its port."""
    port = free_port()
    script = pathlib.Path(suite_folder) / "conform.py"
    start(stack, [sys.executable, "-B", script, "--fake-keystone", str(port)], port)
    return port


def start_store(stack, kind):
    """Returns a function that gives each server a store: a shared one if that is possible."""
    if kind == "redis":
        _, store = start_redis(stack)
        return lambda: store
    if kind == "embedded":
        return lambda: "embedded:" + stack.enter_context(tempfile.TemporaryDirectory())
    return lambda: "memory:"


def start_sukkal(stack, sukkal, store, environment):
    port = free_port()
    command = [sukkal, "--bind", f"127.0.0.1:{port}", "--store", store]
    start(stack, command, port, environment)
    return f"http://127.0.0.1:{port}"


def run_suite(suite_folder, urls, pool_uri, suite):
    (first, url), *others = urls.items()
    profiles = [part for name, url in others for part in ("--profile-url", f"{name}={url}")]
    with tempfile.TemporaryDirectory() as folder:
        # The folder of the suite may be read-only, and Python writes caches next to scripts.
        script = shutil.copy(pathlib.Path(suite_folder) / "conform.py", folder)
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, script, "--suite", suite, "--no-slow", "--json", report]
        command += ["--url", url, "--profile", first, *profiles, "--pool-uri", pool_uri]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())["results"]


def name_of(row):
    return " ".join((row["suite"], row["profile"], row["id"]))


def totals_of(rows, suite_folder):
    """Returns a table of the totals per suite and profile, and how many of the required tests pass."""
    baseline = json.loads((pathlib.Path(suite_folder) / "baseline.json").read_text())
    must_pass = set(baseline["must_pass"])
    totals = collections.defaultdict(collections.Counter)
    for row in rows:
        total = totals[row["suite"], row["profile"]]
        total[row["status"]] += 1
        if name_of(row) in must_pass:
            total["must"] += 1
            total["does"] += row["status"] == "PASS"
    yield "suite     profile       passed failed skipped   must pass"
    for (suite, profile), total in totals.items():
        counts = f"{total['PASS']:6} {total['FAIL']:6} {total['SKIP']:7}"
        yield f"{suite:9} {profile:13} {counts}   {total['does']} of {total['must']}"


def main():
    suite_folder, sukkal, list_file, *flags = sys.argv[1:]
    list_file = pathlib.Path(list_file)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Creates the virtual environment of the suite, before several processes would do it.
    script, nowhere = pathlib.Path(suite_folder) / "conform.py", "http://127.0.0.1:1"
    subprocess.run([sys.executable, "-B", script, "--url", nowhere, "--profile", "nopool", "--list"], check=True,
                   stdout=subprocess.DEVNULL)
    # The suite waits for most of its time, so the stores take turns at the processor.
    with concurrent.futures.ThreadPoolExecutor() as threads:
        runs = threads.map(lambda kind: run(suite_folder, sukkal, list_file, flags, kind), STORES)
        totals = dict(zip(STORES, runs))
    for kind, (passed, lost, text) in totals.items():
        print(f"store: {kind}\n{text}", end="")
    for kind, (passed, lost, _text) in totals.items():
        print(f"over {kind}: {passed} passed, {lost} failed")
    sys.exit(0 if all(passed and not lost for passed, lost, _text in totals.values()) else 1)


def run(suite_folder, sukkal, list_file, flags, kind):
    """Runs the suite over one kind of store.

    Returns how many tests passed, how many tests of the list did not pass, and a report.
    """
    with contextlib.ExitStack() as stack:
        store = start_store(stack, kind)
        _, pool_uri = start_redis(stack)
        ports = {"keystone_port": start_keystone(stack, suite_folder), "websocket_port": free_port()}
        urls = {}
        for name, environment in PROFILES.items():
            environment = {key: value.format(**ports) for key, value in environment.items()}
            # The faulty profile always uses Redis, because other stores cannot be stopped.
            own_redis, own_store = start_redis(stack) if name == "faulty" else (None, store())
            url = start_sukkal(stack, sukkal, own_store, COMMON | environment)
            ws_url = url.replace("http://", "ws://")
            urls[name] = WEBSOCKETS[name].format(ws_url=ws_url, **ports) if name in WEBSOCKETS else url
            if own_redis:
                own_redis.kill()
        rows = [row for suite in SUITES for row in run_suite(suite_folder, urls, pool_uri, suite)]

    passed = {name_of(row) for row in rows if row["status"] == "PASS"}
    failed = {name_of(row): row for row in rows if row["status"] == "FAIL"}
    expected = set(list_file.read_text().splitlines()) if list_file.exists() else set()
    lost = sorted(expected - passed)
    report = [f"no longer passes: {name}  {failed.get(name, {}).get('reason', 'did not run')}" for name in lost]
    if "--update" in flags and kind == "redis":
        list_file.write_text("".join(f"{name}\n" for name in sorted(expected | passed)))
    elif passed - expected:
        report.append(f"{len(passed - expected)} tests pass that are not in {list_file}: run with --update")
    report += totals_of(rows, suite_folder)
    report.append(f"{len(expected) - len(lost)} of the {len(expected)} tests in the list pass")
    return len(passed), len(lost), "".join(f"{line}\n" for line in report)


if __name__ == "__main__":
    main()
