"""`openstack messaging` without Keystone: directly, and through a proxy that adds the project.

Usage: command_line.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import concurrent.futures
import contextlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
import urllib.request

from feed import same
from openstackclient import shell


def main(url, project):
    os.environ["OS_MESSAGE_CLIENT_ID"] = "3381af92-2b9e-11e3-b191-71861300734c"
    options = {"auth-type": "aodh-noauth", "aodh-endpoint": url, "user-id": "any", "roles": "any"}
    directly = command(**options, **{"project-id": project})
    queues_are_created_listed_and_deleted(directly)
    messages_are_posted_and_claimed(directly)

    with proxy(url, project) as address, concurrent.futures.ThreadPoolExecutor() as pool:
        through_a_proxy, without_a_project = pool.map(list_queues_at, [address, url])
    same("the queues through a proxy", through_a_proxy, (0, "tasks\n"))
    same("the queues without a project", without_a_project, (1, ""))


def queues_are_created_listed_and_deleted(openstack):
    openstack("ping", shown=False)
    for name in ("tasks", "spare"):
        openstack(f"queue create {name}", shown=False)
    same("the queues", openstack("queue list"), [{"Name": "spare"}, {"Name": "tasks"}])
    openstack("queue set metadata tasks", '{"team": "billing"}', shown=False)
    same("the metadata", openstack("queue get metadata tasks")["Metadata"]["team"], "billing")
    openstack("queue delete spare", shown=False)
    same("the queues after the deletion", openstack("queue list"), [{"Name": "tasks"}])


def messages_are_posted_and_claimed(openstack):
    messages = [{"body": {"number": number}, "ttl": 300} for number in range(3)]
    openstack("message post tasks", json.dumps(messages), shown=False)
    same("the messages", [found["Body"]["number"] for found in openstack("message list tasks --echo")], [0, 1, 2])
    claimed = openstack("claim create tasks --ttl 60 --grace 60 --limit 2")
    same("the claimed messages", [found["Messages"]["number"] for found in claimed], [0, 1])
    claim = claimed[0]["Claim_ID"]
    openstack(f"claim renew tasks {claim} --ttl 120 --grace 60", shown=False)
    same("the claim", len(openstack(f"claim query tasks {claim}")), 2)
    openstack(f"claim release tasks {claim}", shown=False)
    same("the available messages", openstack("queue stats tasks")["Stats"]["messages"]["free"], 3)
    openstack("queue purge tasks", shown=False)
    same("the messages after the purge", openstack("queue stats tasks")["Stats"]["messages"]["total"], 0)


def command(**options):
    """Returns a function that runs `openstack messaging` with these options and parses its JSON."""
    words = [word for name, value in options.items() for word in (f"--os-{name}", value)]

    def run(line, *rest, shown=True):
        form = ["-f", "json"] if shown else []
        code, output = call([*words, "messaging", *line.split(), *rest, *form])
        same(f"the exit code of {line}", code, 0)
        return json.loads(output) if shown else None

    return run


def call(words):
    """Runs the program `openstack` with these words, inside this process.

    All calls must have the same options, because the process keeps those of the first call.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = shell.main(words)
    return code, output.getvalue()


def list_queues_at(endpoint):
    """Returns the exit code and output of the program without a project."""
    program = os.path.join(os.path.dirname(sys.executable), "openstack")
    options = ["--os-auth-type", "none", "--os-endpoint", endpoint]
    run = subprocess.run([program, *options, "messaging", "queue", "list", "-f", "value"], capture_output=True, text=True)
    return run.returncode, run.stdout


@contextlib.contextmanager
def proxy(url, project):
    """Starts a proxy that adds the project to each GET, like a proxy that authenticates callers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            headers = {**self.headers, "X-Project-ID": project}
            with urllib.request.urlopen(urllib.request.Request(url + self.path, headers=headers)) as answer:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.end_headers()
                self.wfile.write(answer.read())

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
