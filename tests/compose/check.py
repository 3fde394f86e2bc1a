"""`make compose`: checks that the unchanged Dockerfile and docker-compose.yml work as documented.

Usage: check.py SUKKAL, as root. The checks cover everything but the compilation: the image contains
the binary SUKKAL. Exits with 0, or with 1 and one line that describes the failure.
"""

import http.client
import json
import pathlib
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import sandbox
from sandbox import PROJECT, run, until

HEALTHY_WITHIN_S = 15
PORTS = [8888, 8889, 8890]
MESSAGES = "/v2/queues/hello/messages"
HEADERS = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": "demo", "Content-Type": "application/json"}


def main(sukkal):
    sandbox.copy_project()
    with sandbox.daemon():
        sandbox.import_images(sukkal)
        for check in [
            nothing_starts_without_a_password,
            the_recommended_command_chooses_a_password,
            the_image_is_built,
            a_change_in_src_does_not_compile_the_dependencies_again,
            all_containers_become_healthy,
            sukkal_does_not_run_as_root,
            redis_requires_the_password,
            a_message_survives_a_killed_redis_and_its_container,
            a_message_survives_a_restart_of_sukkal,
            requests_in_flight_are_answered_while_sukkal_stops,
            three_processes_share_a_range_of_ports,
            the_password_is_not_shown,
        ]:
            start = time.monotonic()
            try:
                check()
            except BaseException:
                logs = compose("logs", "--tail=20", check=False)
                print(f"{check.__name__} ... failed; the last lines of the logs:\n{logs}", flush=True)
                raise
            print(f"{check.__name__} ... ok ({time.monotonic() - start:.1f} s)", flush=True)
        compose("down", "--volumes")


def nothing_starts_without_a_password():
    refusal = compose("up", "--detach", check=False)
    same("the refusal gives the reason", "REDIS_PASSWORD" in refusal and "choose one first" in refusal, True)
    same("the running containers", run("docker", "ps", "--quiet"), "")


def the_recommended_command_chooses_a_password():
    command = re.search(r"echo \"REDIS_PASSWORD=.* > \.env", (PROJECT / "docker-compose.yml").read_text())
    same("README.md recommends it too", command.group() in (sandbox.REPOSITORY / "README.md").read_text(), True)
    run("sh", "-c", command.group(), cwd=PROJECT)
    same("the length of the password", len(password()), 48)


def the_image_is_built():
    compose("build")


def a_change_in_src_does_not_compile_the_dependencies_again():
    before = compilations()
    with (PROJECT / "src/main.rs").open("a") as source:
        source.write("// Changed.\n")
    after = compilations()

    same("the number of calls of cargo", (len(before), len(after)), (2, 2))
    same("the dependencies are reused", before[0] == after[0], True)
    same("the rest is reused", before[1] == after[1], False)
    same("the first program is empty, the second is not", [" 1 line," in call for call in before], [True, False])
    same("the arguments", {call.split(", ")[1] for call in before}, {"build --release --locked --bin sukkal"})


def compilations():
    """Returns one line for each call of cargo by the Dockerfile."""
    image = run("docker", "build", "--quiet", "--target", "build", PROJECT).split()[-1]
    return run("docker", "run", "--rm", image, "cat", "target/calls").splitlines()


def all_containers_become_healthy():
    start = time.monotonic()
    compose("up", "--detach")
    until_healthy()
    seconds = time.monotonic() - start
    same(f"healthy within {HEALTHY_WITHIN_S} s (took {seconds:.1f} s)", seconds < HEALTHY_WITHIN_S, True)
    same("a post", request("POST", MESSAGES, {"messages": [{"body": 0}]})[0], 201)


def sukkal_does_not_run_as_root():
    (container,) = containers("sukkal")
    user = inspect(container, "{{.Config.User}}")
    same("the user is a number other than that of root", re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) is not None, True)


def redis_requires_the_password():
    without = compose("exec", "-T", "redis", "sh", "-c", "unset REDISCLI_AUTH; redis-cli dbsize")
    same("a client without the password", without.strip(), "NOAUTH Authentication required.")
    same("redis-cli in the container", compose("exec", "-T", "redis", "redis-cli", "ping").strip(), "PONG")


def a_message_survives_a_killed_redis_and_its_container():
    same("a post", request("POST", MESSAGES, {"messages": [{"body": "before Redis"}]})[0], 201)
    compose("kill", "redis")
    health = compose("exec", "-T", "sukkal", "sukkal", "ready", check=False)
    same("the health check without Redis says why", "/readyz answers 503" in health, True)
    compose("rm", "--force", "redis")
    compose("up", "--detach")
    until("an answer", lambda: request("GET", MESSAGES + "?echo=true")[0] == 200, 15)
    same("the messages", bodies(), [0, "before Redis"])


def a_message_survives_a_restart_of_sukkal():
    same("a post", request("POST", MESSAGES, {"messages": [{"body": "before Sukkal"}]})[0], 201)
    compose("restart", "sukkal")
    until("an answer", lambda: status_if_any("/readyz") == 204, 15)
    same("the messages", bodies(), [0, "before Redis", "before Sukkal"])


def requests_in_flight_are_answered_while_sukkal_stops():
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(request, "POST", "/v2/queues/quiet/claims?wait=30")
        waiters = ["exec", "-T", "redis", "redis-cli", "pubsub", "shardchannels"]
        until("the long poll waits", lambda: "quiet" in compose(*waiters), 15)
        post = HalfSent(MESSAGES, json.dumps({"messages": [{"body": "while it stops"}]}).encode())

        stop = threads.submit(compose, "stop", "sukkal")
        same("the long poll", poll.result()[0], 204)
        # By default, Docker kills a container after 10 s.
        time.sleep(11)
        same("the post", post.finish(), 201)
        stop.result()

    (container,) = containers("sukkal", "--all")
    same("the exit code", inspect(container, "{{.State.ExitCode}}"), "0")
    compose("start", "sukkal")
    until("an answer", lambda: status_if_any("/readyz") == 204, 15)
    same("the last message", bodies()[-1], "while it stops")


def three_processes_share_a_range_of_ports():
    with (PROJECT / ".env").open("a") as settings:
        settings.write(f"SUKKAL_PORTS={PORTS[0]}-{PORTS[-1]}\n")
    compose("up", "--detach", "--scale", f"sukkal={len(PORTS)}")
    same("the number of processes", len(containers("sukkal")), len(PORTS))
    until_healthy()
    for port in PORTS:
        same("a post", request("POST", MESSAGES, {"messages": [{"body": port}]}, port)[0], 201)
    for port in PORTS:
        same(f"the messages by port {port}", bodies(port)[-3:], PORTS)


def the_password_is_not_shown():
    for place, text in {
        "docker ps": run("docker", "ps", "--all", "--no-trunc"),
        "the logs": compose("logs"),
        "the processes": "".join(path.read_text() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")),
    }.items():
        same(f"{place} mention redis", "redis" in text, True)
        same(f"{place} show the password", password() in text, False)


class HalfSent:
    """A post whose head was sent and whose body the service is waiting for."""

    def __init__(self, path, body):
        self.body = body
        self.connection = http.client.HTTPConnection("127.0.0.1", PORTS[0], timeout=40)
        self.connection.putrequest("POST", path)
        for name, value in {**HEADERS, "Content-Length": len(body), "Expect": "100-continue"}.items():
            self.connection.putheader(name, value)
        self.connection.endheaders()
        same("the response to the head of a request", self.connection.sock.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")

    def finish(self):
        self.connection.send(self.body)
        return self.connection.getresponse().status


def password():
    return re.search(r"^REDIS_PASSWORD=(.*)", (PROJECT / ".env").read_text(), re.MULTILINE).group(1)


def compose(*arguments, check=True):
    return run("docker-compose", *arguments, check=check, cwd=PROJECT)


def containers(service, *options):
    return compose("ps", "--quiet", *options, service).split()


def inspect(*arguments):
    *containers, template = arguments
    return run("docker", "inspect", "--format", template, *containers).strip()


def until_healthy():
    found = containers("sukkal") + containers("redis")
    states = lambda: inspect(*found, "{{.State.Health.Status}}").split()
    until("all containers are healthy", lambda: set(states()) == {"healthy"}, 60)


def request(method, path, body=None, port=PORTS[0]):
    """Returns the status and the document of a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    connection.request(method, path, body and json.dumps(body), HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None


def status_if_any(path):
    try:
        return request("GET", path)[0]
    except OSError:
        return None
    except http.client.HTTPException:
        return None


def bodies(port=PORTS[0]):
    _, page = request("GET", MESSAGES + "?echo=true", port=port)
    return [message["body"] for message in page["messages"]]


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


if __name__ == "__main__":
    sandbox.isolate()
    main(pathlib.Path(sys.argv[1]).resolve())
