"""A worker with python-zaqarclient: claims messages, deletes them, and renews and releases claims.

Usage: work.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import sys

from feed import connect, refused, same
from zaqarclient.transport import errors

TASKS = 25
QUEUE = "work"


def main(url, project):
    producer = connect(url, project, "3381af922b9e11e3b19171861300734c")
    worker = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    producer.queue(QUEUE).post([{"ttl": 300, "body": {"task": task}} for task in range(TASKS)])
    claimed_messages_are_hidden_from_others(producer, worker)
    claimed_messages_are_deleted_with_their_claim(producer, worker)
    a_claim_is_renewed(worker)
    released_messages_are_claimed_again(producer, worker)
    all_messages_are_processed(producer, worker)


def claimed_messages_are_hidden_from_others(producer, worker):
    queue = worker.queue(QUEUE)
    first, second = queue.claim(ttl=300, grace=60, limit=4), queue.claim(ttl=300, grace=60, limit=3)
    same("the first claim", tasks(first), [0, 1, 2, 3])
    same("the second claim", tasks(second), [4, 5, 6])
    same("the first claim, read again", tasks(queue.claim(id=first.id)), [0, 1, 2, 3])
    same("its ttl", queue.claim(id=first.id).ttl, 300)
    same("the feed", tasks(queue.messages(limit=2)), [7, 8])
    same("the feed with claimed messages", tasks(queue.messages(limit=2, include_claimed=True)), [0, 1])
    same("the claimed messages", producer.queue(QUEUE).stats["messages"]["claimed"], 7)
    first.delete()
    second.delete()


def claimed_messages_are_deleted_with_their_claim(producer, worker):
    claim = worker.queue(QUEUE).claim(ttl=300, grace=60, limit=3)
    messages = list(claim)
    stranger = producer.queue(QUEUE).message(messages[0].id)
    same("the claim id of a claimed message", stranger.claim_id, claim.id)
    stranger.href = stranger.href.split("?")[0]
    refused("a message deleted without its claim", errors.ForbiddenError, stranger.delete)

    messages[0].delete()
    messages[1].delete()
    same("the messages that the claim still holds", tasks(worker.queue(QUEUE).claim(id=claim.id)), [2])
    same("the messages in the queue", producer.queue(QUEUE).stats["messages"]["total"], TASKS - 2)
    claim.delete()


def a_claim_is_renewed(worker):
    queue = worker.queue(QUEUE)
    claim = queue.claim(ttl=60, grace=60, limit=1)
    claim.update(ttl=600, grace=60)
    renewed = queue.claim(id=claim.id)
    same("the messages of a renewed claim", tasks(renewed), [2])
    same("the ttl of a renewed claim", renewed.ttl, 600)
    claim.delete()
    refused("a released claim", errors.ResourceNotFound, lambda: claim.update(ttl=600, grace=60))


def released_messages_are_claimed_again(producer, worker):
    claim = worker.queue(QUEUE).claim(ttl=300, grace=60, limit=2)
    released = list(claim)
    claim.delete()
    again = producer.queue(QUEUE).claim(ttl=300, grace=60, limit=2)
    same("the messages claimed after a release", [message.id for message in again], [message.id for message in released])
    refused("a message deleted with a released claim", errors.MalformedRequest, released[0].delete)
    again.delete()


def all_messages_are_processed(producer, worker):
    done = []
    while claim := [*worker.queue(QUEUE).claim(ttl=300, grace=60)]:
        for message in claim:
            done.append(message.body["task"])
            message.delete()
    same("the processed tasks", done, list(range(2, TASKS)))
    same("a claim of an empty queue", tasks(worker.queue(QUEUE).claim(ttl=300, grace=60)), [])
    same("the stats at the end", producer.queue(QUEUE).stats["messages"], {"claimed": 0, "free": 0, "total": 0})


def tasks(messages):
    return [message.body["task"] for message in messages]


if __name__ == "__main__":
    main(*sys.argv[1:])
