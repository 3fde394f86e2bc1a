"""Pre-signed URLs with python-zaqarclient: a guest can do what its URL allows, and nothing else.

Usage: shared.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import sys

from feed import connect, refused, same
from zaqarclient.queues import client
from zaqarclient.transport import errors

QUEUE = "shared"


def main(url, project):
    owner = connect(url, project, "3381af922b9e11e3b19171861300734c")
    owner.queue(QUEUE).post([{"ttl": 300, "body": {"number": number}} for number in range(3)])
    owner.queue("private").post([{"ttl": 300, "body": "private"}])

    a_reader_can_only_read(url, owner)
    a_writer_can_only_post(url, owner)
    a_worker_claims_and_deletes(url, owner)
    changed_urls_are_refused(url, owner)


def a_reader_can_only_read(url, owner):
    reader = guest(url, owner.queue(QUEUE).signed_url())
    queue = reader.queue(QUEUE)
    messages = list(queue.messages(limit=2).stream())
    same("the messages that a reader lists", [message.body["number"] for message in messages], [0, 1, 2])
    same("a message by id", queue.message(messages[1].id).body, {"number": 1})

    refused("a reader's post", errors.ResourceNotFound, lambda: queue.post([{"ttl": 300, "body": 1}]))
    refused("a reader's delete", errors.ResourceNotFound, messages[0].delete)
    refused("a reader's claim", errors.ResourceNotFound, lambda: queue.claim(ttl=300, grace=60))
    refused("stats for a reader", errors.ResourceNotFound, lambda: queue.stats)
    refused("another queue", errors.ResourceNotFound, lambda: list(reader.queue("private").messages()))
    refused("the list of queues", errors.ResourceNotFound, reader.queues)
    refused("a reader's own share", errors.ResourceNotFound, queue.signed_url)


def a_writer_can_only_post(url, owner):
    document = owner.queue(QUEUE).signed_url(paths=["messages"], ttl_seconds=600, methods=["POST"])
    same("the paths", document["paths"], [f"/v2/queues/{QUEUE}/messages"])
    queue = guest(url, document).queue(QUEUE)
    queue.post([{"ttl": 300, "body": {"number": 3}}])
    same("the messages with that of the guest", owner.queue(QUEUE).stats["messages"]["total"], 4)
    refused("the list of a writer", errors.ResourceNotFound, lambda: list(queue.messages()))


def a_worker_claims_and_deletes(url, owner):
    paths, methods = ["messages", "claims"], ["GET", "POST", "PATCH", "DELETE"]
    queue = guest(url, owner.queue(QUEUE).signed_url(paths=paths, ttl_seconds=600, methods=methods)).queue(QUEUE)
    claim = queue.claim(ttl=300, grace=60, limit=4)
    claim.update(ttl=600, grace=60)
    for message in claim:
        message.delete()
    claim.delete()
    same("the messages after the worker", owner.queue(QUEUE).stats["messages"]["total"], 0)


def changed_urls_are_refused(url, owner):
    document = owner.queue(QUEUE).signed_url()
    for key, value in [
        ("methods", ["GET", "POST"]),
        ("paths", ["/v2/queues/private/messages"]),
        ("project", "another"),
        ("expires", "2999-01-01T00:00:00"),
        ("signature", document["signature"][::-1]),
    ]:
        for queue in (QUEUE, "private"):
            changed = guest(url, {**document, key: value}).queue(queue)
            refused(f"{key} changed, {queue}", errors.ResourceNotFound, lambda: list(changed.messages()))


def guest(url, document):
    options = {key: document[key] for key in ("expires", "methods", "paths", "signature")}
    options["os_project_id"] = document["project"]
    auth = {"backend": "signed-url", "options": options}
    return client.Client(url, version=2, conf={"auth_opts": auth, "client_uuid": "7c3b8a0e2b9e11e3b19171861300734c"})


if __name__ == "__main__":
    main(*sys.argv[1:])
