"""Delayed messages and dead letters with python-zaqarclient.

Usage: delayed_and_dead_letters.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import sys
import time

from feed import connect, same
from zaqarclient.queues.v2 import core

WAIT = 30  # How long to poll on a busy machine, in seconds.
MAX_CLAIM_COUNT = 2


def main(url, project):
    producer = connect(url, project, "3381af922b9e11e3b19171861300734c")
    worker = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    delayed_messages_arrive_when_they_are_due(producer, worker)
    messages_claimed_too_often_become_dead_letters(producer, worker)


def delayed_messages_arrive_when_they_are_due(producer, worker):
    create(producer, "delayed", {"_default_message_delay": 900})
    posted = producer.queue("delayed").post([
        {"ttl": 300, "body": {"task": "soon"}, "delay": 1},
        {"ttl": 300, "body": {"task": "at once"}, "delay": 0},
        {"ttl": 300, "body": {"task": "much later"}},
    ])
    ids = [href.rsplit("/", 1)[1] for href in posted["resources"]]
    queue = worker.queue("delayed")
    same("the first message of the feed", tasks(queue.messages())[0], "at once")
    same("the stats", queue.stats["messages"]["total"], 3)
    same("a delayed message by its id", queue.message(ids[2]).body, {"task": "much later"})
    all_tasks = tasks(queue.messages(include_delayed=True, limit=3))
    same("the feed with delayed messages", all_tasks, ["at once", "soon", "much later"])

    deadline = time.monotonic() + WAIT
    while (due := tasks(queue.messages().stream())) == ["at once"] and time.monotonic() < deadline:
        time.sleep(0.05)
    same("the feed a second later", due, ["at once", "soon"])
    claim = queue.claim(ttl=300, grace=60)
    same("the claim", tasks(claim), ["at once", "soon"])
    same("a claim of delayed messages", tasks(queue.claim(ttl=300, grace=60)), [])
    same("a pop of delayed messages", tasks(queue.pop(5)), [])


def messages_claimed_too_often_become_dead_letters(producer, worker):
    create(producer, "work", {"_max_claim_count": MAX_CLAIM_COUNT, "_dead_letter_queue": "dead"})
    producer.queue("work").post([{"ttl": 300, "body": {"task": task}} for task in ("hard", "harder")])
    queue, dead = worker.queue("work"), worker.queue("dead")

    for _ in range(MAX_CLAIM_COUNT):
        claim = queue.claim(ttl=300, grace=60)
        same("the claimed messages", tasks(claim), ["hard", "harder"])
        claim.delete()
        same("the dead letters before the limit is reached", tasks(dead.messages(echo=True)), [])
    same("the claim after the last allowed one", tasks(queue.claim(ttl=300, grace=60)), [])
    same("the messages in the queue", queue.stats["messages"]["total"], 0)

    same("the dead letters", tasks(dead.messages(echo=True)), ["hard", "harder"])
    same("the queues", [found.name for found in producer.queues()[0]], ["dead", "delayed", "work"])
    dead_letters = [*dead.claim(ttl=300, grace=60)]
    same("a claim of dead letters", tasks(dead_letters), ["hard", "harder"])
    for dead_letter in dead_letters:
        dead_letter.delete()
    same("the dead letters after their deletion", dead.stats["messages"]["total"], 0)


def create(producer, name, metadata):
    """Creates a queue with metadata.

    Queue.metadata() cannot do it: a key whose value was null is added and removed in one patch.
    """
    request, transport = producer._request_and_transport()
    core.queue_create(transport, request, name, metadata=metadata)


def tasks(messages):
    return [message.body["task"] for message in messages]


if __name__ == "__main__":
    main(*sys.argv[1:])
