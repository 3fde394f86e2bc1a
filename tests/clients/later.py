"""What comes later with python-zaqarclient: messages that are delayed, and those that nobody could deal with.

Usage: later.py URL PROJECT. Ends with 1 and one line that says what is wrong, or with 0.
"""

import sys
import time

from feed import connect, same
from zaqarclient.queues.v2 import core

WAIT = 30  # What a busy machine may need, in seconds.
GIVEN_OUT = 2


def main(url, project):
    producer = connect(url, project, "3381af922b9e11e3b19171861300734c")
    worker = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    messages_come_when_they_are_due(producer, worker)
    what_nobody_can_do_goes_to_the_dead_letters(producer, worker)


def messages_come_when_they_are_due(producer, worker):
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
    peek = tasks(queue.messages(include_delayed=True, limit=3))
    same("a peek", peek, ["at once", "soon", "much later"])

    deadline = time.monotonic() + WAIT
    while (due := tasks(queue.messages().stream())) == ["at once"] and time.monotonic() < deadline:
        time.sleep(0.05)
    same("the feed a second later", due, ["at once", "soon"])
    claim = queue.claim(ttl=300, grace=60)
    same("the claim", tasks(claim), ["at once", "soon"])
    same("a claim of what is not due", tasks(queue.claim(ttl=300, grace=60)), [])
    same("a pop of what is not due", tasks(queue.pop(5)), [])


def what_nobody_can_do_goes_to_the_dead_letters(producer, worker):
    create(producer, "work", {"_max_claim_count": GIVEN_OUT, "_dead_letter_queue": "dead"})
    producer.queue("work").post([{"ttl": 300, "body": {"task": task}} for task in ("hard", "harder")])
    queue, dead = worker.queue("work"), worker.queue("dead")

    for _ in range(GIVEN_OUT):
        claim = queue.claim(ttl=300, grace=60)
        same("what is given out", tasks(claim), ["hard", "harder"])
        claim.delete()
        same("the dead letters until then", tasks(dead.messages(echo=True)), [])
    same("what is given out too often", tasks(queue.claim(ttl=300, grace=60)), [])
    same("what is left", queue.stats["messages"]["total"], 0)

    same("the dead letters", tasks(dead.messages(echo=True)), ["hard", "harder"])
    same("the queues", [found.name for found in producer.queues()[0]], ["dead", "delayed", "work"])
    letters = [*dead.claim(ttl=300, grace=60)]
    same("a claim of dead letters", tasks(letters), ["hard", "harder"])
    for letter in letters:
        letter.delete()
    same("the dead letters in the end", dead.stats["messages"]["total"], 0)


def create(producer, name, metadata):
    """Queue.metadata() would not do: what it adds where null was shown it removes in the same patch."""
    request, transport = producer._request_and_transport()
    core.queue_create(transport, request, name, metadata=metadata)


def tasks(messages):
    return [message.body["task"] for message in messages]


if __name__ == "__main__":
    main(*sys.argv[1:])
