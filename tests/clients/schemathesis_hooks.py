"""Adapts the requests of schemathesis to rules of the API that openapi.yaml cannot express."""

import collections
import itertools
import json
import os

import schemathesis
from schemathesis import GenerationMode

schemathesis.serializer.alias("application/openstack-messaging-v2.0-json-patch", "application/json")

# The ids of the messages posted to each queue, by project and queue name.
posted = collections.defaultdict(list)
# The claims created in each queue, newest last: the claim id and the ids of its messages.
claimed = collections.defaultdict(list)
# The last task of each queue, which may have been removed.
tasks = {}
# The last subscription of each queue, which may have been deleted.
subscriptions = {}
# The ids of tokens, newest last, which may have been deleted.
tokens = []
# Alternates between two options, separately for each choice and operation. One common counter could
# give an operation the same option each time.
turns = collections.defaultdict(lambda: itertools.cycle([True, False]))
# Numbers the idempotency keys.
keys = itertools.count()
# A client of schemathesis.toml.
CLIENT = "3381af92-2b9e-11e3-b191-71861300734c"
# The pool of the examples in openapi.yaml.
EXAMPLE_POOL = "redis://10.0.0.5:6379"
# Maximum length of the options of a pool in JSON.
POOL_OPTIONS_MAX = 1000


@schemathesis.deserializer("application/json-home")
def read_home(context, response):
    return json.loads(response.content)


@schemathesis.hook
def map_body(context, body):
    """Writes numbers as the API accepts them: JSON Schema does not distinguish 60 and 60.0."""
    return with_normalized_numbers(body)


@schemathesis.hook
def filter_query(context, query):
    """Drops malformed `ids`: every text is a valid list of ids, so none would be refused."""
    ids = (query or {}).get("ids", [])
    return isinstance(ids, list) or ids == ""


@schemathesis.hook
def after_call(context, case, response):
    if case.operation.path.endswith("/claims/{claim_id}") and case.method.upper() == "DELETE":
        released = case.path_parameters["claim_id"]
        claimed[queue_of(case)] = [claim for claim in claimed[queue_of(case)] if claim[0] != released]
    if case.operation.path.endswith("/tokens/{token_id}") and case.method.upper() == "DELETE":
        tokens[:] = [token for token in tokens if token != case.path_parameters["token_id"]]
    if case.operation.path.endswith("/redrive") and response.status_code == 202:
        tasks[queue_of(case)] = response.json()["id"]
    if case.method.upper() != "POST" or response.status_code != 201:
        return
    if case.operation.path.endswith("/claims"):
        messages = response.json()["messages"]
        claim = messages[0]["href"].rsplit("=", 1)[1]
        claimed[queue_of(case)].append((claim, [message["id"] for message in messages]))
    elif case.operation.path.endswith("/subscriptions"):
        subscriptions[queue_of(case)] = response.json()["subscription_id"]
    elif case.operation.path.endswith("/tokens"):
        tokens.append(response.json()["id"])
    else:
        posted[queue_of(case)] += [href.rsplit("/", 1)[1] for href in response.json()["resources"]]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Changes valid requests so that they refer to existing data."""
    keep_the_main_queue(case)
    keep_a_pool(case)
    replace_the_example_pool(case)
    remove_waits(case)
    is_valid = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    if is_valid:
        remove_post_size_limits(case)
        limit_shards_per_tenant(case)
        separate_retry_delays(case)
        choose_ids_or_pop(case)
        remove_durability(case)
        use_a_new_idempotency_key(case)
        remove_invalid_delays_and_tenants(case)
        use_existing_messages(case)
        use_an_existing_claim(case)
        use_an_existing_task(case)
        limit_redrives(case)
        use_an_existing_token(case)
        use_an_existing_subscription(case)
        use_valid_subscribers_and_options(case)
        use_an_existing_pool(case)
        remove_long_pool_options(case)
        remove_filters(case)
        choose_since_or_marker(case)


def remove_waits(case):
    """Sets `wait` to 0, because thousands of requests that wait up to 30 s would take too long."""
    if str((case.query or {}).get("wait")) in map(str, range(1, 31)):
        case.query["wait"] = 0


def choose_since_or_marker(case):
    """Sets `since` to a valid time, and removes it if a marker or the order excludes it."""
    query = case.query or {}
    if query.get("since") and (query.get("marker") or query.get("order") == "desc"):
        del query["since"]
    elif query.get("since"):
        query["since"] = "2026-11-22T12:00:00Z" if is_turn_of("since", case) else "now"


def keep_the_main_queue(case):
    """Deletes and purges only the other queue and topic, so that the main ones have messages."""
    path = case.path_parameters or {}
    for kind, main in (("queue", "orders"), ("topic", "prices")):
        item = f"/v2/{kind}s/{{{kind}_name}}"
        if case.operation.label in (f"DELETE {item}", f"POST {item}/purge") and path.get(f"{kind}_name") == main:
            path[f"{kind}_name"] = "a.b-c_d"


def keep_a_pool(case):
    """Deletes only other pools and flavors than those that the test has created."""
    path = case.path_parameters or {}
    for name in ("pool_name", "flavor_name"):
        if case.method.upper() == "DELETE" and path.get(name) == "kept":
            path[name] = "other"


def replace_the_example_pool(case):
    """Replaces the pool of the examples, because an attempt to connect to it takes seconds."""
    if isinstance(case.body, dict) and case.body.get("uri") == EXAMPLE_POOL:
        case.body["uri"] = uri_of_pool(case)


def uri_of_pool(case):
    return f"{os.environ['POOLS']}/{case.path_parameters['pool_name']}"


def remove_long_pool_options(case):
    """Removes the options of a pool whose JSON is too long."""
    body = case.body
    if "/pools/" in case.operation.path and isinstance(body, dict):
        if len(json.dumps(body.get("options"))) > POOL_OPTIONS_MAX:
            body["options"] = {}


def use_an_existing_pool(case):
    """Replaces the addresses of pools, which must be reachable, and the pools of flavors and moves."""
    path, body = case.path_parameters or {}, case.body
    if "pool_name" in path and isinstance(body, dict) and "uri" in body:
        body["uri"] = uri_of_pool(case)
    if "flavor_name" in path and isinstance(body, dict) and "pool_list" in body:
        body["pool_list"] = ["kept"]
    if case.operation.path.endswith("/move") and isinstance(body, dict) and "pool" in body:
        body["pool"] = "kept"


def remove_post_size_limits(case):
    """Removes size limits of queues, because such a queue would refuse valid posts."""
    limit = "_max_messages_post_size"
    if isinstance(case.body, dict) and limit in case.body:
        case.body[limit] = None


def limit_shards_per_tenant(case):
    """Limits the shards per tenant to the shards of the queue, which has one by default."""
    if isinstance(case.body, dict) and case.body.get("_shards_per_tenant"):
        case.body["_shards_per_tenant"] = min(case.body["_shards_per_tenant"], case.body.get("_shards") or 1)


def separate_retry_delays(case):
    """Makes the delays of a retry policy differ by 10 s, which is the minimum."""
    policy = case.body.get("_retry_policy") if isinstance(case.body, dict) else None
    if isinstance(policy, dict):
        policy["minimum_delay"] = min(policy.get("minimum_delay", 5), 10**7)
        policy["maximum_delay"] = policy["minimum_delay"] + 10


def choose_ids_or_pop(case):
    """Removes `ids` or `pop` if both are present, because they exclude each other."""
    query = case.query or {}
    if {"ids", "pop"} <= query.keys():
        del query["ids" if is_turn_of("ids", case) else "pop"]


def remove_invalid_delays_and_tenants(case):
    """Removes delays and tenants that are invalid in queues that delay messages or are fair."""
    messages = case.body.get("messages") if isinstance(case.body, dict) else None
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("delay") not in range(901):
            message.pop("delay", None)
        if isinstance(message, dict) and not is_tenant(message.get("tenant")):
            message.pop("tenant", None)


def remove_durability(case):
    """The store decides which levels of durability it can confirm, and in what time."""
    for name in [name for name in case.headers or {} if name.lower() == "durability"]:
        del case.headers[name]
    if isinstance(case.body, dict):
        case.body.pop("_durability", None)
    elif isinstance(case.body, list):
        for change in case.body:
            if isinstance(change, dict) and change.get("path") == "/metadata/_durability":
                change["path"] = "/metadata/durability"


def use_a_new_idempotency_key(case):
    """Replaces the idempotency key, because a key of an earlier request would be refused.

    A key belongs to a client, so the request must name one.
    """
    if "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = f"key-{next(keys)}"
        case.headers.setdefault("Client-ID", CLIENT)


def use_existing_messages(case):
    """Makes every other request for messages name existing ones, because ids cannot be guessed."""
    ids = posted[queue_of(case)]
    if not ids or not is_turn_of("message", case):
        return
    path, query = case.path_parameters or {}, case.query or {}
    if "message_id" in path:
        path["message_id"] = ids[-1]
    if "marker" in query:
        # A request with ids ignores the marker.
        query.pop("ids", None)
        query["marker"] = ids[0]
    elif "ids" in query:
        query["ids"] = ids[-2:]


def use_an_existing_claim(case):
    """Makes every other request for a claim name an existing one, because ids cannot be guessed."""
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


def use_an_existing_task(case):
    """Makes every other request for a task name an existing one, because ids cannot be guessed."""
    path = case.path_parameters or {}
    if "task_id" in path and queue_of(case) in tasks and is_turn_of("task", case):
        path["task_id"] = tasks[queue_of(case)]


def use_an_existing_token(case):
    """Makes every other request for a token name an existing one. New tokens outlast the next requests."""
    path = case.path_parameters or {}
    if "token_id" in path and tokens and is_turn_of("token", case):
        path["token_id"] = tokens[-1]
    if case.operation.path.endswith("/tokens") and isinstance(case.body, dict) and case.body.get("ttl"):
        case.body["ttl"] = max(case.body["ttl"], 3600)


def use_an_existing_subscription(case):
    """Makes every other request for a subscription name an existing one."""
    path = case.path_parameters or {}
    if "subscription_id" in path and queue_of(case) in subscriptions and is_turn_of("subscription", case):
        path["subscription_id"] = subscriptions[queue_of(case)]


def use_valid_subscribers_and_options(case):
    """Replaces what the contract cannot express: URLs, keys, times, headers and retry delays.

    The subscribers are on this machine, because the search for an unknown name takes seconds.
    """
    body = case.body
    if "/subscriptions" not in case.operation.path or not isinstance(body, dict):
        return
    if "subscriber" in body:
        body["subscriber"] = f"{os.environ['SUBSCRIBERS']}/{next(keys) % 3}"
    if isinstance(body.get("ttl"), int):
        body["ttl"] = min(body["ttl"], 10**11)
    body.pop("secret", None)
    if "ids" in body or "since" in body:
        body.pop("ids", None)
        body["since"] = "2026-11-22T12:00:00Z" if is_turn_of("since", case) else "now"
    options = body.get("options")
    if isinstance(options, dict):
        options.pop("signature", None)
        options.pop("post_headers", None)
        policy = options.get("_retry_policy")
        if isinstance(policy, dict):
            policy["minimum_delay"] = min(policy.get("minimum_delay", 5), 10**7)
            policy["maximum_delay"] = policy["minimum_delay"] + 10
    if case.operation.label.startswith("PATCH") and body.keys() <= {"secret"}:
        body["ttl"] = 600


def limit_redrives(case):
    """Makes every other redrive possible. All are short, so that the main queue has messages."""
    if case.operation.path.endswith("/redrive") and isinstance(case.body, dict):
        case.body.pop("per_second", None)
        if is_turn_of("redrive", case):
            case.body.pop("ids", None)
            case.body.pop("to", None)
        if "ids" not in case.body:
            case.body["limit"] = 1


def remove_filters(case):
    """Replaces the filters of every other list of queues, so that it is not empty."""
    if case.operation.path == "/v2/queues" and is_turn_of("filters", case):
        case.query = {"detailed": "true", "with_count": "true"}


def is_tenant(value):
    return isinstance(value, str) and 1 <= len(value) <= 128


def is_turn_of(choice, case):
    return next(turns[choice, case.operation.label])


def queue_of(case):
    """Returns the project and the queue or the topic of a request."""
    path = case.path_parameters or {}
    return (case.headers or {}).get("X-Project-ID"), path.get("queue_name"), path.get("topic_name")


def with_normalized_numbers(value):
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    if isinstance(value, list):
        return [with_normalized_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_normalized_numbers(item) for key, item in value.items()}
    return value
