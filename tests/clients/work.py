"""A worker's day with python-zaqarclient: it claims messages, deletes them by the claim, renews, and gives back.

Usage: work.py URL PROJECT. Ends with 1 and one line that says what is wrong, or with 0.
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
    messages_are_deleted_by_their_claim(producer, worker)
    claim_is_renewed(worker)
    released_messages_are_claimed_again(producer, worker)
    work_gets_done(producer, worker)


def claimed_messages_are_hidden_from_others(producer, worker):
    queue = worker.queue(QUEUE)
    first, second = queue.claim(ttl=300, grace=60, limit=4), queue.claim(ttl=300, grace=60, limit=3)
    same("the first claim", tasks(first), [0, 1, 2, 3])
    same("the second claim", tasks(second), [4, 5, 6])
    same("the first claim, asked again", tasks(queue.claim(id=first.id)), [0, 1, 2, 3])
    same("its ttl", queue.claim(id=first.id).ttl, 300)
    same("the feed", tasks(queue.messages(limit=2)), [7, 8])
    same("the feed with claimed messages", tasks(queue.messages(limit=2, include_claimed=True)), [0, 1])
    same("the claimed messages", producer.queue(QUEUE).stats["messages"]["claimed"], 7)
    first.delete()
    second.delete()


def messages_are_deleted_by_their_claim(producer, worker):
    claim = worker.queue(QUEUE).claim(ttl=300, grace=60, limit=3)
    messages = list(claim)
    stranger = producer.queue(QUEUE).message(messages[0].id)
    same("the claim that a claimed message names", stranger.claim_id, claim.id)
    stranger.href = stranger.href.split("?")[0]
    refused("a message deleted without its claim", errors.ForbiddenError, stranger.delete)

    messages[0].delete()
    messages[1].delete()
    same("what the claim still holds", tasks(worker.queue(QUEUE).claim(id=claim.id)), [2])
    same("the messages that are left", producer.queue(QUEUE).stats["messages"]["total"], TASKS - 2)
    claim.delete()


def claim_is_renewed(worker):
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
    given_back = list(claim)
    claim.delete()
    again = producer.queue(QUEUE).claim(ttl=300, grace=60, limit=2)
    same("what is claimed after a release", [message.id for message in again], [message.id for message in given_back])
    refused("a message deleted by a claim that is over", errors.MalformedRequest, given_back[0].delete)
    again.delete()


def work_gets_done(producer, worker):
    done = []
    while claim := [*worker.queue(QUEUE).claim(ttl=300, grace=60)]:
        for message in claim:
            done.append(message.body["task"])
            message.delete()
    same("the work that was done", done, list(range(2, TASKS)))
    same("a claim where nothing is left", tasks(worker.queue(QUEUE).claim(ttl=300, grace=60)), [])
    same("what is left", producer.queue(QUEUE).stats["messages"], {"claimed": 0, "free": 0, "total": 0})


def tasks(messages):
    return [message.body["task"] for message in messages]


if __name__ == "__main__":
    main(*sys.argv[1:])
