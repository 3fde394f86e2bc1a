"""An operator's chores with python-zaqarclient: looks around, sets up queues, checks claims, clears out.

Usage: chores.py URL PROJECT. Ends with 1 and one line that says what is wrong, or with 0.
"""

import sys

from feed import connect, refused, same
from zaqarclient.transport import errors


def main(url, project):
    operator = connect(url, project, "3381af922b9e11e3b19171861300734c")
    worker = connect(url, project, "7c3b8a0e2b9e11e3b19171861300734c")

    service_is_there(operator)
    queues_are_set_up_and_listed_with_their_metadata(operator)
    reserved_metadata_is_checked(operator)
    one_message_needs_no_list(operator, worker)
    claims_tell_their_age_and_ttl(operator, worker)
    queues_are_purged(operator, worker)


def service_is_there(operator):
    same("the answer to a ping", operator.ping(), True)
    same("a resource of the home document", "rel/queues" in operator.homedoc()["resources"], True)


def queues_are_set_up_and_listed_with_their_metadata(operator):
    queue = operator.queue("tasks", force_create=True)
    queue.metadata({"team": "billing"})
    operator.queue("spare").ensure_exists(force_create=True)
    same("whether a queue exists", queue.exists(), True)
    same("the metadata as a dictionary", queue.metadata_dict["team"], "billing")

    listed, count = operator.queues(detailed=True, limit=1)
    queues = list(listed.stream())
    same("the queues", [(queue.name, queue.href) for queue in queues],
         [("spare", "/v2/queues/spare"), ("tasks", "/v2/queues/tasks")])
    same("the count that nobody asked for", count, None)
    same("the metadata in the list", [queue.metadata().get("team") for queue in queues], [None, "billing"])
    same("the queues behind one of them", [queue.name for queue in operator.queues(marker="spare")[0]], ["tasks"])

    queue.metadata({})
    same("the metadata that was cleared", queue.metadata(force_reload=True).get("team"), None)


def reserved_metadata_is_checked(operator):
    queue = operator.queue("tasks")
    for key, value in [("_default_message_ttl", 59), ("_default_message_delay", 901), ("_retry_policy", [1])]:
        refused(f"{key} {value}", errors.MalformedRequest, lambda: queue.metadata({key: value}))
    queue.metadata({"_default_message_ttl": 120, "_max_messages_post_size": 1000})


def one_message_needs_no_list(operator, worker):
    queue = operator.queue("tasks")
    href = queue.post({"body": {"task": 0}})["resources"][0]
    message = queue.message(href.rsplit("/", 1)[1])
    same("a message without a ttl", (message.href, message.ttl, message.claim_id), (href, 120, None))
    same("how often a message was claimed", message.claim_count, 0)
    refused("a post that is too large", errors.MalformedRequest, lambda: queue.post({"body": "x" * 1000}))

    popped = list(worker.queue("tasks").pop())
    same("the one message that a pop takes", [message.body for message in popped], [{"task": 0}])
    same("how often it was claimed", popped[0].claim_count, 0)


def claims_tell_their_age_and_ttl(operator, worker):
    operator.queue("tasks").post([{"body": task} for task in range(12)])
    queue = worker.queue("tasks")
    claim = queue.claim(ttl=90, grace=60)
    same("what a claim without a limit takes", len(list(claim)), 10)
    found = queue.claim(id=claim.id)
    same("the ttl of a claim that was found", found.ttl, 90)
    same("the age of a claim", found.age in (0, 1, 2, 3), True)
    claim.update(ttl=120)
    same("the ttl of a claim that was renewed", queue.claim(id=claim.id).ttl, 120)
    # The client sends null where it is told nothing, and null is no time.
    refused("a claim without ttl and grace", errors.MalformedRequest, queue.claim)
    same("a claim where nothing is", list(worker.queue("spare").claim(ttl=60, grace=60)), [])
    claim.delete()
    refused("the age of a claim that is over", errors.ResourceNotFound, lambda: found.age)


def queues_are_purged(operator, worker):
    queue = operator.queue("tasks")
    worker.queue("tasks").claim(ttl=90, grace=60, limit=3)
    same("what there is to purge", queue.stats["messages"]["total"], 12)
    queue.purge(resource_types=["subscriptions"])
    same("what is there without subscriptions", queue.stats["messages"]["total"], 12)
    queue.purge(resource_types=["messages"])
    same("what is there without messages", queue.stats["messages"]["total"], 0)
    queue.post({"body": 1})
    queue.purge()
    same("what is there without anything", queue.stats["messages"]["total"], 0)
    refused("a purge of what there is not", errors.MalformedRequest, lambda: queue.purge(resource_types=["dust"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
