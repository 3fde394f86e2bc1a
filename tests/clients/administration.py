"""An operator with python-zaqarclient: checks the service, creates and purges queues, reads claims.

Usage: administration.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import sys

from feed import connect, refused, same
from zaqarclient.transport import errors


def main(url, project):
    operator = connect(url, project, "3381af922b9e11e3b19171861300734c")
    worker = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    the_service_responds(operator)
    queues_are_created_and_listed_with_their_metadata(operator)
    reserved_metadata_is_checked(operator)
    a_single_message_needs_no_list(operator, worker)
    claims_have_an_age_and_a_ttl(operator, worker)
    queues_are_purged(operator, worker)
    subscriptions_are_created_listed_and_changed(operator)


def the_service_responds(operator):
    same("the answer to a ping", operator.ping(), True)
    same("a resource of the home document", "rel/queues" in operator.homedoc()["resources"], True)


def queues_are_created_and_listed_with_their_metadata(operator):
    queue = operator.queue("tasks", force_create=True)
    queue.metadata({"team": "billing"})
    operator.queue("spare").ensure_exists(force_create=True)
    same("whether a queue exists", queue.exists(), True)
    same("the metadata as a dictionary", queue.metadata_dict["team"], "billing")

    listed, count = operator.queues(detailed=True, limit=1)
    queues = list(listed.stream())
    same("the queues", [(queue.name, queue.href) for queue in queues],
         [("spare", "/v2/queues/spare"), ("tasks", "/v2/queues/tasks")])
    same("the count without with_count", count, None)
    same("the metadata in the list", [queue.metadata().get("team") for queue in queues], [None, "billing"])
    same("the queues after a marker", [queue.name for queue in operator.queues(marker="spare")[0]], ["tasks"])

    queue.metadata({})
    same("the metadata after it was cleared", queue.metadata(force_reload=True).get("team"), None)


def reserved_metadata_is_checked(operator):
    queue = operator.queue("tasks")
    for key, value in [("_default_message_ttl", 59), ("_default_message_delay", 901), ("_retry_policy", [1])]:
        refused(f"{key} {value}", errors.MalformedRequest, lambda: queue.metadata({key: value}))
    queue.metadata({"_default_message_ttl": 120, "_max_messages_post_size": 1000})


def a_single_message_needs_no_list(operator, worker):
    queue = operator.queue("tasks")
    href = queue.post({"body": {"task": 0}})["resources"][0]
    message = queue.message(href.rsplit("/", 1)[1])
    same("a message without a ttl", (message.href, message.ttl, message.claim_id), (href, 120, None))
    same("the claim count of a message", message.claim_count, 0)
    refused("a post that is too large", errors.MalformedRequest, lambda: queue.post({"body": "x" * 1000}))

    popped = list(worker.queue("tasks").pop())
    same("the messages of a pop", [message.body for message in popped], [{"task": 0}])
    same("its claim count", popped[0].claim_count, 0)


def claims_have_an_age_and_a_ttl(operator, worker):
    operator.queue("tasks").post([{"body": task} for task in range(12)])
    queue = worker.queue("tasks")
    claim = queue.claim(ttl=90, grace=60)
    same("the number of messages in a claim without a limit", len(list(claim)), 10)
    found = queue.claim(id=claim.id)
    same("the ttl of a claim found by its id", found.ttl, 90)
    same("the age of a claim", found.age in (0, 1, 2, 3), True)
    claim.update(ttl=120)
    same("the ttl of a renewed claim", queue.claim(id=claim.id).ttl, 120)
    # Without a ttl the client sends null, which the service refuses.
    refused("a claim without ttl and grace", errors.MalformedRequest, queue.claim)
    same("a claim of an empty queue", list(worker.queue("spare").claim(ttl=60, grace=60)), [])
    claim.delete()
    refused("the age of a released claim", errors.ResourceNotFound, lambda: found.age)


def queues_are_purged(operator, worker):
    queue = operator.queue("tasks")
    worker.queue("tasks").claim(ttl=90, grace=60, limit=3)
    same("the messages before the purge", queue.stats["messages"]["total"], 12)
    queue.purge(resource_types=["subscriptions"])
    same("the messages after a purge of subscriptions", queue.stats["messages"]["total"], 12)
    queue.purge(resource_types=["messages"])
    same("the messages after a purge of messages", queue.stats["messages"]["total"], 0)
    queue.post({"body": 1})
    queue.purge()
    same("the messages after a purge of everything", queue.stats["messages"]["total"], 0)
    refused("a purge of an unknown resource type", errors.MalformedRequest, lambda: queue.purge(resource_types=["dust"]))


def subscriptions_are_created_listed_and_changed(operator):
    queue = operator.queue("tasks")
    new = {"subscriber": "https://hooks.example.com", "ttl": 600, "options": {"ordered": True}}
    created = operator.subscription("tasks", **new)
    again = operator.subscription("tasks", **new)
    same("the id of an unconfirmed subscription", again.id, created.id)
    listed = [(one.id, one.subscriber, one.ttl, one.options) for one in queue.subscriptions()]
    same("the subscriptions", listed, [(created.id, new["subscriber"], 600, {"ordered": True})])
    created.update({"ttl": 1000})
    same("the TTL after an update", operator.subscription("tasks", id=created.id).ttl, 1000)
    created.delete()
    same("the subscriptions after a deletion", list(queue.subscriptions()), [])


if __name__ == "__main__":
    main(*sys.argv[1:])
