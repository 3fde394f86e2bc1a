"""The feed with python-zaqarclient: a queue, its metadata, 1,000 messages, and their deletion.

Usage: feed.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import itertools
import sys

from zaqarclient.queues import client
from zaqarclient.transport import errors

MESSAGES = 1000
BATCH = 50
PAGE = 7  # Divides neither number, so that pages end within batches and span them.


def main(url, project):
    producer = connect(url, project, "3381af922b9e11e3b19171861300734c")
    observer = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    queues_are_created_and_listed(producer)
    metadata_is_set_changed_and_removed(producer)
    the_feed_is_complete_and_in_order(producer, observer)
    messages_are_fetched_and_deleted(producer, observer)
    a_deleted_queue_has_no_messages(producer, observer)


def connect(url, project, uuid):
    auth = {"backend": "noauth", "options": {"os_project_id": project}}
    return client.Client(url, version=2, conf={"auth_opts": auth, "client_uuid": uuid})


def queues_are_created_and_listed(producer):
    for name in ("feed", "a-queue", "z_queue"):
        producer.queue(name, force_create=True)
    queues, count = producer.queues(limit=2, with_count=True)
    names = [queue.name for queue in queues.stream()]
    same("the queues of the project", names, ["a-queue", "feed", "z_queue"])
    same("their count", count, 3)


def metadata_is_set_changed_and_removed(producer):
    queue = producer.queue("feed", force_create=True)
    queue.metadata({"team": "billing", "ratio": 0.5, "_default_message_ttl": 7200})
    queue.metadata({"team": "orders", "tags": ["a", "b"], "_default_message_ttl": 7200})
    kept = producer.queue("feed").metadata(force_reload=True)
    own = {key: value for key, value in kept.items() if not key.startswith("_")}
    same("the metadata", own, {"team": "orders", "tags": ["a", "b"]})
    same("the queue's default ttl", kept["_default_message_ttl"], 7200)
    same("the default of an unset key", kept["_max_messages_post_size"], 262144)


def the_feed_is_complete_and_in_order(producer, observer):
    queue = producer.queue("feed")
    posted = []
    for start in range(0, MESSAGES, BATCH):
        batch = [{"ttl": 300, "body": {"number": number}} for number in range(start, start + BATCH)]
        posted += [href.rsplit("/", 1)[1] for href in queue.post(batch)["resources"]]
    wanted = list(enumerate(posted))

    same("the feed of another client", read(observer), wanted)
    same("the producer's feed with echo", read(producer, echo=True), wanted)
    same("the producer's feed without echo", read(producer), [])
    middle = MESSAGES // 2
    same("the feed after a marker", read(observer, marker=posted[middle - 1]), wanted[middle:])
    same("the stats", queue.stats["messages"]["total"], MESSAGES)


def messages_are_fetched_and_deleted(producer, observer):
    queue = observer.queue("feed")
    first, second, third, fourth, fifth = list(queue.messages(limit=5))
    same("a message by id", queue.message(first.id).body, {"number": 0})
    same("messages by id", [found.id for found in queue.messages(third.id, second.id)], [third.id, second.id])

    first.delete()
    queue.delete_messages(second.id, third.id)
    refused("a deleted message", errors.ResourceNotFound, lambda: queue.message(first.id))
    same("the feed after a deleted marker", number_of(queue.messages(marker=second.id, limit=1)), 3)
    same("the popped messages", [popped.id for popped in queue.pop(2)], [fourth.id, fifth.id])
    left = [number for number, _ in read(producer, echo=True)]
    same("the rest of the feed", left, list(range(5, MESSAGES)))


def a_deleted_queue_has_no_messages(producer, observer):
    producer.queue("feed").delete()
    same("the feed of a deleted queue", read(observer), [])
    same("the queues after the deletion", [queue.name for queue in producer.queues()[0]], ["a-queue", "z_queue"])


def read(reader, **parameters):
    """Returns the numbers and ids of a whole feed, page by page. An endless feed is cut off."""
    stream = reader.queue("feed").messages(limit=PAGE, **parameters).stream()
    return [(message.body["number"], message.id) for message in itertools.islice(stream, 2 * MESSAGES)]


def number_of(messages):
    return next(messages).body["number"]


def same(what, found, wanted):
    if found == wanted:
        return
    if isinstance(found, list) and isinstance(wanted, list):
        pairs = zip(found, wanted)
        at = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(found), len(wanted)))
        found = f"{found[at:at + 3]} at {at} of {len(found)}"
        wanted = f"{wanted[at:at + 3]} of {len(wanted)}"
    sys.exit(f"{what}: found {found}, wanted {wanted}")


def refused(what, error, act):
    try:
        act()
    except error:
        return
    sys.exit(f"{what}: {error.__name__} was expected, but the call succeeded")


if __name__ == "__main__":
    main(*sys.argv[1:])
