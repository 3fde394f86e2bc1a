//! The discovery documents: versions at `/`, json-home at `/v2/`.

use serde_json::{Map, Value, json};

/// A resource in the json-home document: relation, path template, variables with their meanings
/// (the part after `param/`), and methods.
type Resource = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const QUEUE: (&str, &str) = ("queue_name", "queue_name");
const MESSAGE: (&str, &str) = ("message_id", "message_id");
const CLAIM: (&str, &str) = ("claim_id", "claim_id");

const SUBSCRIPTION: (&str, &str) = ("subscriptions_id", "subscriptions_id");
const SUBSCRIPTION_LIMIT: (&str, &str) = ("limit", "subscription_limit");

const RESOURCES: [Resource; 22] = [
    (
        "rel/queues",
        "/v2/queues{?marker,limit,detailed}",
        &[("marker", "marker"), ("limit", "queue_limit"), ("detailed", "detailed")],
        &["GET"],
    ),
    ("rel/queue", "/v2/queues/{queue_name}", &[QUEUE], &["GET", "PUT", "DELETE", "PATCH"]),
    ("rel/queue_purge", "/v2/queues/{queue_name}/purge", &[QUEUE], &["POST"]),
    ("rel/queue_share", "/v2/queues/{queue_name}/share", &[QUEUE], &["POST"]),
    ("rel/queue_stats", "/v2/queues/{queue_name}/stats", &[QUEUE], &["GET"]),
    (
        "rel/messages",
        "/v2/queues/{queue_name}/messages{?marker,limit,echo,include_claimed}",
        &[
            QUEUE,
            ("marker", "marker"),
            ("limit", "messages_limit"),
            ("echo", "echo"),
            ("include_claimed", "include_claimed"),
        ],
        &["GET"],
    ),
    ("rel/post_messages", "/v2/queues/{queue_name}/messages", &[QUEUE], &["POST"]),
    (
        "rel/messages_delete",
        "/v2/queues/{queue_name}/messages{?ids,pop}",
        &[QUEUE, ("ids", "ids"), ("pop", "pop")],
        &["DELETE"],
    ),
    (
        "rel/message_delete",
        "/v2/queues/{queue_name}/messages/{message_id}{?claim}",
        &[QUEUE, MESSAGE, ("claim", "claim_id")],
        &["DELETE"],
    ),
    ("rel/message_get", "/v2/queues/{queue_name}/messages/{message_id}", &[QUEUE, MESSAGE], &["GET"]),
    ("rel/claim", "/v2/queues/{queue_name}/claims/{claim_id}", &[QUEUE, CLAIM], &["GET"]),
    ("rel/post_claim", "/v2/queues/{queue_name}/claims{?limit}", &[QUEUE, ("limit", "claim_limit")], &["POST"]),
    ("rel/patch_claim", "/v2/queues/{queue_name}/claims/{claim_id}", &[QUEUE, CLAIM], &["PATCH"]),
    ("rel/delete_claim", "/v2/queues/{queue_name}/claims/{claim_id}", &[QUEUE, CLAIM], &["DELETE"]),
    (
        "rel/subscriptions_get",
        "/v2/queues/{queue_name}/subscriptions{?marker,limit}",
        &[QUEUE, ("marker", "marker"), SUBSCRIPTION_LIMIT],
        &["GET"],
    ),
    ("rel/subscriptions_post", "/v2/queues/{queue_name}/subscriptions", &[QUEUE, SUBSCRIPTION_LIMIT], &["POST"]),
    (
        "rel/subscription",
        "/v2/queues/{queue_name}/subscriptions/{subscriptions_id}",
        &[QUEUE, SUBSCRIPTION],
        &["GET", "DELETE"],
    ),
    (
        "rel/subscription_patch",
        "/v2/queues/{queue_name}/subscriptions/{subscriptions_id}",
        &[QUEUE, SUBSCRIPTION],
        &["PATCH"],
    ),
    (
        "rel/topics",
        "/v2/topics{?marker,limit,detailed}",
        &[("marker", "marker"), ("limit", "queue_limit"), ("detailed", "detailed")],
        &["GET"],
    ),
    ("rel/topic", "/v2/topics/{topic_name}", &[("topic_name", "topic_name")], &["GET", "PUT", "DELETE", "PATCH"]),
    ("rel/ping", "/v2/ping", &[], &["GET"]),
    ("rel/usage", "/v2/usage", &[], &["GET"]),
];

/// The resources for operators.
const OPERATOR_RESOURCES: [Resource; 2] = [
    ("rel/projects", "/v2/projects{?marker,limit}", &[("marker", "marker"), ("limit", "queue_limit")], &["GET"]),
    ("rel/quotas", "/v2/quotas{?project_id}", &[("project_id", "project_id")], &["GET", "PUT", "DELETE"]),
];

/// The pools and flavors.
const POOLS: [Resource; 4] = [
    (
        "rel/pools",
        "/v2/pools{?detailed,limit,marker}",
        &[("detailed", "detailed"), ("limit", "pool_limit"), ("marker", "marker")],
        &["GET"],
    ),
    ("rel/pool", "/v2/pools/{pool_name}", &[("pool_name", "pool_name")], &["GET", "PUT", "PATCH", "DELETE"]),
    (
        "rel/flavors",
        "/v2/flavors{?detailed,limit,marker}",
        &[("detailed", "detailed"), ("limit", "flavor_limit"), ("marker", "marker")],
        &["GET"],
    ),
    ("rel/flavor", "/v2/flavors/{flavor_name}", &[("flavor_name", "flavor_name")], &["GET", "PUT", "PATCH", "DELETE"]),
];

/// The tokens, with which clients authenticate.
const TOKENS: [Resource; 2] = [
    (
        "rel/tokens",
        "/v2/tokens{?marker,limit,project_id}",
        &[("marker", "marker"), ("limit", "queue_limit"), ("project_id", "project_id")],
        &["GET", "POST"],
    ),
    ("rel/token", "/v2/tokens/{token_id}", &[("token_id", "token_id")], &["GET", "DELETE"]),
];

/// Returns the document with the versions of the API, of which there is one. Clients reach the API
/// at this path of their server.
#[must_use]
pub fn versions(public_path: &str) -> Value {
    json!({"versions": [{
        "id": "2",
        "status": "CURRENT",
        "updated": "2014-9-24T04:06:47Z",
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.messaging-v2+json",
        }],
        "links": [{"href": format!("{public_path}/v2/"), "rel": "self"}],
    }]})
}

/// Returns the json-home document. With `admin_mode`, it includes the routes for operators, and
/// with `has_pools` and `has_tokens` those of pools and of tokens.
#[must_use]
pub fn home(admin_mode: bool, has_pools: bool, has_tokens: bool) -> Value {
    let mut resources: Map<String, Value> = RESOURCES.iter().map(entry).collect();
    if admin_mode {
        for (relation, path) in [("rel/health", "/v2/health"), ("rel/backup", "/v2/backup")] {
            resources.insert(relation.to_owned(), json!({ "href": path, "hints": hints(&["GET"]) }));
        }
        resources.extend(OPERATOR_RESOURCES.iter().map(entry));
    }
    resources.extend(POOLS.iter().filter(|_| has_pools).map(entry));
    resources.extend(TOKENS.iter().filter(|_| has_tokens).map(entry));
    json!({ "resources": resources })
}

fn entry((relation, template, variables, methods): &Resource) -> (String, Value) {
    let mut resource = json!({ "href-template": template, "hints": hints(methods) });
    if !variables.is_empty() {
        resource["href-vars"] =
            variables.iter().map(|(name, meaning)| ((*name).to_owned(), json!(format!("param/{meaning}")))).collect();
    }
    ((*relation).to_owned(), resource)
}

fn hints(methods: &[&str]) -> Value {
    let mut hints = json!({ "allow": methods, "formats": { "application/json": {} } });
    if methods == ["POST"] || methods == ["PATCH"] {
        hints["accept-post"] = json!(["application/json"]);
    }
    hints
}
