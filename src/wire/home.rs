//! The discovery documents: versions at `/`, json-home at `/v2/`.

use serde_json::{Map, Value, json};

/// A resource in the json-home document: relation, path template, meaning of the variable `limit`
/// (the part after `param/`; empty without the variable), and methods.
type Resource = (&'static str, &'static str, &'static str, &'static [&'static str]);

const RESOURCES: [Resource; 22] = [
    ("rel/queues", "/v2/queues{?marker,limit,detailed}", "queue_limit", &["GET"]),
    ("rel/queue", "/v2/queues/{queue_name}", "", &["GET", "PUT", "DELETE", "PATCH"]),
    ("rel/queue_purge", "/v2/queues/{queue_name}/purge", "", &["POST"]),
    ("rel/queue_share", "/v2/queues/{queue_name}/share", "", &["POST"]),
    ("rel/queue_stats", "/v2/queues/{queue_name}/stats", "", &["GET"]),
    (
        "rel/messages",
        "/v2/queues/{queue_name}/messages{?marker,limit,echo,include_claimed}",
        "messages_limit",
        &["GET"],
    ),
    ("rel/post_messages", "/v2/queues/{queue_name}/messages", "", &["POST"]),
    ("rel/messages_delete", "/v2/queues/{queue_name}/messages{?ids,pop}", "", &["DELETE"]),
    ("rel/message_delete", "/v2/queues/{queue_name}/messages/{message_id}{?claim}", "", &["DELETE"]),
    ("rel/message_get", "/v2/queues/{queue_name}/messages/{message_id}", "", &["GET"]),
    ("rel/claim", "/v2/queues/{queue_name}/claims/{claim_id}", "", &["GET"]),
    ("rel/post_claim", "/v2/queues/{queue_name}/claims{?limit}", "claim_limit", &["POST"]),
    ("rel/patch_claim", "/v2/queues/{queue_name}/claims/{claim_id}", "", &["PATCH"]),
    ("rel/delete_claim", "/v2/queues/{queue_name}/claims/{claim_id}", "", &["DELETE"]),
    ("rel/subscriptions_get", "/v2/queues/{queue_name}/subscriptions{?marker,limit}", "subscription_limit", &["GET"]),
    // Zaqar names the variable although its template does not have it.
    ("rel/subscriptions_post", "/v2/queues/{queue_name}/subscriptions", "subscription_limit", &["POST"]),
    ("rel/subscription", "/v2/queues/{queue_name}/subscriptions/{subscriptions_id}", "", &["GET", "DELETE"]),
    ("rel/subscription_patch", "/v2/queues/{queue_name}/subscriptions/{subscriptions_id}", "", &["PATCH"]),
    ("rel/topics", "/v2/topics{?marker,limit,detailed}", "queue_limit", &["GET"]),
    ("rel/topic", "/v2/topics/{topic_name}", "", &["GET", "PUT", "DELETE", "PATCH"]),
    ("rel/ping", "/v2/ping", "", &["GET"]),
    ("rel/usage", "/v2/usage", "", &["GET"]),
];

/// The resources for operators.
const OPERATOR_RESOURCES: [Resource; 2] = [
    ("rel/projects", "/v2/projects{?marker,limit}", "queue_limit", &["GET"]),
    ("rel/quotas", "/v2/quotas{?project_id}", "", &["GET", "PUT", "DELETE"]),
];

/// The pools and flavors.
const POOLS: [Resource; 4] = [
    ("rel/pools", "/v2/pools{?detailed,limit,marker}", "pool_limit", &["GET"]),
    ("rel/pool", "/v2/pools/{pool_name}", "", &["GET", "PUT", "PATCH", "DELETE"]),
    ("rel/flavors", "/v2/flavors{?detailed,limit,marker}", "flavor_limit", &["GET"]),
    ("rel/flavor", "/v2/flavors/{flavor_name}", "", &["GET", "PUT", "PATCH", "DELETE"]),
];

/// The tokens, with which clients authenticate.
const TOKENS: [Resource; 2] = [
    ("rel/tokens", "/v2/tokens{?marker,limit,project_id}", "queue_limit", &["GET", "POST"]),
    ("rel/token", "/v2/tokens/{token_id}", "", &["GET", "DELETE"]),
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

fn entry((relation, template, limit, methods): &Resource) -> (String, Value) {
    let mut resource = json!({ "href-template": template, "hints": hints(methods) });
    let names =
        template.split(['{', '}']).skip(1).step_by(2).flat_map(|names| names.trim_start_matches('?').split(','));
    let unnamed = (!limit.is_empty() && !template.contains("limit")).then_some("limit");
    for name in names.chain(unnamed) {
        let meaning = match name {
            "limit" => *limit,
            "claim" => "claim_id",
            other => other,
        };
        resource["href-vars"][name] = json!(format!("param/{meaning}"));
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
