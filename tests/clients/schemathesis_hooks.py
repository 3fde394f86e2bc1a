"""What schemathesis has to be told about the API that openapi.yaml cannot say."""

import collections
import itertools
import json

import schemathesis
from schemathesis import GenerationMode

schemathesis.serializer.alias("application/openstack-messaging-v2.0-json-patch", "application/json")

# The ids of the messages posted to each queue, by the queue's project and name.
posted = collections.defaultdict(list)
# The claims made in each queue, newest last: their ids and those of the messages under them.
claimed = collections.defaultdict(list)
# For each choice at each operation, whose turn it is: one counter for all would fall into step with them.
turns = collections.defaultdict(lambda: itertools.cycle([True, False]))
# For each idempotency key its number.
keys = itertools.count()


@schemathesis.deserializer("application/json-home")
def read_home(context, response):
    return json.loads(response.content)


@schemathesis.hook
def map_body(context, body):
    """Spells numbers as the API takes them: JSON Schema makes no difference between 60 and 60.0."""
    return with_numbers_respelled(body)


@schemathesis.hook
def filter_query(context, query):
    """Any text is a list of ids, so one that is no list cannot be sent to see it refused."""
    ids = (query or {}).get("ids", [])
    return isinstance(ids, list) or ids == ""


@schemathesis.hook
def after_call(context, case, response):
    if case.operation.path.endswith("/claims/{claim_id}") and case.method.upper() == "DELETE":
        gone = case.path_parameters["claim_id"]
        claimed[queue_of(case)] = [claim for claim in claimed[queue_of(case)] if claim[0] != gone]
    if case.method.upper() != "POST" or response.status_code != 201:
        return
    if case.operation.path.endswith("/claims"):
        messages = response.json()["messages"]
        claim = messages[0]["href"].rsplit("=", 1)[1]
        claimed[queue_of(case)].append((claim, [message["id"] for message in messages]))
    else:
        posted[queue_of(case)] += [href.rsplit("/", 1)[1] for href in response.json()["resources"]]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes valid requests meet what is there."""
    spare_the_full_queue(case)
    wait_for_nothing(case)
    is_valid = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_valid:
        let_queues_take_posts(case)
        give_tenants_shards_that_are_there(case)
        leave_room_between_delays(case)
        choose_what_to_delete(case)
        take_a_key_of_its_own(case)
        name_delays_and_tenants_that_any_queue_takes(case)
        name_a_message(case)
        name_a_claim(case)
        drop_filters(case)
        start_at_one_place(case)


def wait_for_nothing(case):
    """Half a minute for each of thousands of requests is too long."""
    if str((case.query or {}).get("wait")) in map(str, range(1, 31)):
        case.query["wait"] = 0


def start_at_one_place(case):
    """Not every text that looks like a time is one, and a marker is a place to start from already."""
    query = case.query or {}
    if query.get("since") and query.get("marker"):
        del query["since"]
    elif query.get("since"):
        query["since"] = "2026-11-22T12:00:00Z" if is_turn_of("since", case) else "now"


def spare_the_full_queue(case):
    """Only the other queue gets deleted or purged, so that there is something to claim and to pop."""
    path = case.path_parameters or {}
    emptying = ("DELETE /v2/queues/{queue_name}", "POST /v2/queues/{queue_name}/purge")
    if case.operation.label in emptying and path.get("queue_name") == "orders":
        path["queue_name"] = "a.b-c_d"


def let_queues_take_posts(case):
    """A queue that takes short requests only would refuse posts that are valid elsewhere."""
    limit = "_max_messages_post_size"
    if isinstance(case.body, dict) and limit in case.body:
        case.body[limit] = None


def give_tenants_shards_that_are_there(case):
    """A tenant has no more shards than the queue, and one has none to give that has not said how many it has."""
    if isinstance(case.body, dict) and case.body.get("_shards_per_tenant"):
        case.body["_shards_per_tenant"] = min(case.body["_shards_per_tenant"], case.body.get("_shards") or 1)


def leave_room_between_delays(case):
    """The delays of a retry policy have to be 10 seconds apart or more."""
    policy = case.body.get("_retry_policy") if isinstance(case.body, dict) else None
    if isinstance(policy, dict):
        policy["minimum_delay"] = min(policy.get("minimum_delay", 5), 2**62)
        policy["maximum_delay"] = policy["minimum_delay"] + 10


def choose_what_to_delete(case):
    """Of `ids` and `pop` there has to be one, not both."""
    query = case.query or {}
    if {"ids", "pop"} <= query.keys():
        del query["ids" if is_turn_of("ids", case) else "pop"]


def name_delays_and_tenants_that_any_queue_takes(case):
    """Most queues take anything there, but which of them delay messages or are fair is their business."""
    messages = case.body.get("messages") if isinstance(case.body, dict) else None
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("delay") not in range(901):
            message.pop("delay", None)
        if isinstance(message, dict) and not is_tenant(message.get("tenant")):
            message.pop("tenant", None)


def take_a_key_of_its_own(case):
    """An idempotency key that came with another request before is refused."""
    if "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = f"key-{next(keys)}"


def name_a_message(case):
    """Every other request for messages names some that are there, as nobody can guess an id."""
    ids = posted[queue_of(case)]
    if not ids or not is_turn_of("message", case):
        return
    path, query = case.path_parameters or {}, case.query or {}
    if "message_id" in path:
        path["message_id"] = ids[-1]
    if "marker" in query:
        # With ids there is no feed.
        query.pop("ids", None)
        query["marker"] = ids[0]
    elif "ids" in query:
        query["ids"] = ids[-2:]


def name_a_claim(case):
    """Every other request for a claim names one that was made, as nobody can guess an id."""
    claims = claimed[queue_of(case)]
    if not claims or not is_turn_of("claim", case):
        return
    path, query = case.path_parameters or {}, case.query or {}
    claim, messages = claims[-1]
    if "claim_id" in path:
        path["claim_id"] = claim
        if "message_id" in path:
            path["message_id"] = messages[-1]
    elif "message_id" in path and "claim_id" in query:
        path["message_id"], query["claim_id"] = messages[0], claim


def drop_filters(case):
    """Every other list of queues is one that no random text has emptied, and says all it can."""
    if case.operation.path == "/v2/queues" and is_turn_of("filters", case):
        case.query = {"detailed": "true", "with_count": "true"}


def is_tenant(value):
    return isinstance(value, str) and 1 <= len(value) <= 128


def is_turn_of(choice, case):
    return next(turns[choice, case.operation.label])


def queue_of(case):
    return (case.headers or {}).get("X-Project-ID"), (case.path_parameters or {}).get("queue_name")


def with_numbers_respelled(value):
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    if isinstance(value, list):
        return [with_numbers_respelled(item) for item in value]
    if isinstance(value, dict):
        return {key: with_numbers_respelled(item) for key, item in value.items()}
    return value
