//! Policies, tested over the API. `matrix.rs` tests the role of the preset `roles` for each route.

use std::collections::BTreeSet;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::matrix::{Bench, ENVIRONMENT, EndedTokens, Row, read_table};
use crate::http::{PATCH_TYPE, answered, send};
use crate::push::LOCAL;
use crate::push::endpoint::{Answer, Endpoint};
use support::sukkal::Sukkal;

const ROLES: (&str, &str) = ("SUKKAL_POLICY__PRESET", "roles");
const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");
const RULES: &str = "SUKKAL_POLICY__RULES";

/// All roles of a test, for preparations.
const ALL: &str = "admin,all";

/// Checks that a request is refused, and returns the description.
async fn refused(request: RequestBuilder) -> String {
    crate::http::refused(request, 403, "Not authorized").await
}

#[tokio::test]
async fn a_role_is_a_whole_name_in_any_case() {
    let sukkal = Sukkal::start_with("memory:", &[ROLES]);
    let list = |roles: &str| sukkal.project("p").get("/v2/queues").header("X-Roles", roles);

    for roles in ["none", "readers", "manager reader"] {
        refused(list(roles)).await;
    }
    answered(list("READER"), 200).await;
}

/// The part of a queue that a URL can be signed for, if the path is there or below it.
fn shared_part(path: &str) -> Option<&str> {
    let part = path.strip_prefix("/v2/queues/{queue_name}/")?.split(['/', '?']).next()?;
    ["messages", "claims", "subscriptions"].contains(&part).then_some(part)
}

/// Each rule has a role of its own. A client with all roles but one can do and share everything but
/// what this role is for.
#[tokio::test]
async fn share_refuses_what_the_caller_may_not_do() {
    // No URL can be signed for the list of claims.
    let rows = read_table();
    let shared: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row, shared_part(row.target)?, row.rule?)))
        .filter(|(.., rule)| *rule != "claims:get_all")
        .collect();
    let rules: BTreeSet<&str> = shared.iter().map(|(.., rule)| *rule).collect();
    let own_roles = rules.iter().map(|rule| format!("{rule} = role:all or role:{rule}")).collect::<Vec<_>>().join(",");
    let sukkal = Sukkal::start_with("memory:", &[&ENVIRONMENT[..], &[(RULES, &own_roles)]].concat());
    let ended = EndedTokens { expired: String::new(), revoked: String::new() };
    let bench = Bench::prepare(&sukkal, &ended, false).await;
    let api = &bench.owner;
    let request = |row: &Row, roles: &str| row.request(api, |text| bench.filled(text)).header("X-Roles", roles);
    let share = |method: &str, part: &str, roles: &str| {
        let body = json!({"methods": [method], "paths": [part]});
        api.post("/v2/queues/q/share", &body).header("X-Roles", roles)
    };

    for (row, part, rule) in shared {
        let method = row.method.as_str();
        let others = rules.iter().filter(|other| **other != rule).copied().collect::<Vec<_>>().join(",");
        refused(request(row, &others)).await;
        assert_eq!(
            refused(share(method, part, &others)).await,
            format!(
                "You cannot share {method} on /v2/queues/q/{part}, because you are not authorized to do all that it \
                 allows. The rule {rule} requires role:all or role:{rule}."
            ),
        );
        answered(share(method, part, ALL), 200).await;
        assert_ne!(send(request(row, rule)).await.status, 403, "{row}");
    }
    let several = json!({"methods": ["GET", "POST"], "paths": ["messages", "claims"]});
    let several = |roles: &str| api.post("/v2/queues/q/share", &several).header("X-Roles", roles);
    let needed = ["messages:get_all", "messages:get", "messages:create", "claims:get", "claims:create"];
    answered(several(&needed.join(",")), 200).await;
    refused(several(&needed[..4].join(","))).await;
    // The method does what `GET` does.
    refused(share("HEAD", "messages", "messages:get")).await;
    answered(share("HEAD", "messages", "messages:get, messages:get_all"), 200).await;
}

#[tokio::test]
async fn a_rule_can_be_replaced() {
    let rules = "queues:purge = !, queues:create = role:creator and not project:frozen,queues:delete=,topics:delete=";
    let sukkal = Sukkal::start_with("memory:", &[ROLES, (RULES, rules)]);
    let create = |project: &str, role: &str| sukkal.project(project).put("/v2/queues/q").header("X-Roles", role);
    let api = sukkal.project("p");

    answered(create("p", "creator"), 201).await;
    refused(create("p", "manager")).await;
    refused(create("frozen", "creator")).await;
    refused(api.request(Method::POST, "/v2/queues/q/purge").header("X-Roles", "admin")).await;
    answered(api.delete("/v2/queues/q"), 204).await;
    answered(api.delete("/v2/topics/q"), 204).await;
    answered(api.put("/v2/topics/q").header("X-Roles", "manager"), 201).await;
    refused(api.put("/v2/topics/q").header("X-Roles", "creator")).await;
    answered(api.get("/v2/queues/q/stats").header("X-Roles", "reader"), 200).await;
}

/// A role that is not ASCII must not hide the others.
#[tokio::test]
async fn a_rule_can_refuse_a_role_beside_roles_of_any_script() {
    let rules = "queues:get_all = not role:guest,queues:stats = role:käufer";
    let sukkal = Sukkal::start_with("memory:", &[(RULES, rules)]);
    let api = sukkal.project("p");
    let with = |path: &str, roles: &str| api.get(path).header("X-Roles", roles);

    answered(with("/v2/queues", "käufer"), 200).await;
    for roles in ["guest", "guest,käufer", "käufer, guest", "guest,\u{200b}"] {
        refused(with("/v2/queues", roles)).await;
    }
    answered(with("/v2/queues/q/stats", "guest, käufer"), 200).await;
    refused(with("/v2/queues/q/stats", "guest")).await;
}

/// It uses operations that its caller may not use.
#[tokio::test]
async fn the_health_check_needs_only_its_own_rule() {
    let sukkal = Sukkal::start_with("memory:", &[ROLES, ADMIN_MODE, (RULES, "health:get = role:monitor")]);
    let api = sukkal.project("p");

    let health = answered(api.get("/v2/health").header("X-Roles", "monitor"), 200).await.json();

    let operations = health["operation_status"].as_object().unwrap();
    assert!(operations.len() > 5 && operations.values().all(|one| one["succeeded"] == true), "{health}");
    refused(api.get("/v2/health").header("X-Roles", "admin")).await;
}

/// Otherwise, a subscription whose endpoint fails could write to any queue of the project.
#[tokio::test]
async fn a_queue_that_the_service_posts_to_can_be_named_only_by_a_client_that_may_post() {
    let rules = (RULES, "messages:create = role:producer");
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &[rules]].concat());
    let api = sukkal.project("p");
    let queues = async || answered(api.get("/v2/queues"), 200).await.json()["queues"].clone();
    let as_producer = |request: RequestBuilder| request.header("X-Roles", "producer");
    let subscriptions = "/v2/queues/q/subscriptions";
    let subscribe = |options: &Value| {
        api.post(subscriptions, &json!({"subscriber": "http://127.0.0.1:1025/", "ttl": 600, "options": options}))
    };
    let change = |path: &str, options: &Value| api.request(Method::PATCH, path).json(&json!({ "options": options }));
    let dead = json!({"_dead_letter_queue": "payroll"});
    let set = |path: &str, value: &str| {
        let request = api.request(Method::PATCH, "/v2/queues/q").header("Content-Type", PATCH_TYPE);
        request.body(json!([{"op": "add", "path": path, "value": value}]).to_string())
    };

    for option in ["dead_letter_queue", "notify_queue"] {
        refused(subscribe(&json!({option: "payroll"}))).await;
    }
    refused(api.put("/v2/queues/q").json(&dead)).await;
    assert_eq!(queues().await, json!([]), "a refused request changes nothing");

    let created = answered(subscribe(&json!({})), 201).await.json();
    let path = format!("{subscriptions}/{}", created["subscription_id"].as_str().unwrap());
    for option in ["dead_letter_queue", "notify_queue"] {
        let options = json!({option: "payroll"});
        refused(change(&path, &options)).await;
        answered(as_producer(change(&path, &options)), 204).await;
    }
    refused(set("/metadata/_dead_letter_queue", "payroll")).await;
    answered(as_producer(set("/metadata/_dead_letter_queue", "payroll")), 200).await;
    // It is not a change of the dead-letter queue.
    answered(set("/metadata/team", "billing"), 200).await;
    refused(set("/metadata/_dead_letter_queue", "other")).await;
    answered(as_producer(api.put("/v2/queues/other").json(&dead)), 201).await;

    answered(api.put("/v2/queues/payroll"), 201).await;
    let redrive = || api.post("/v2/queues/q/redrive", &json!({"to": "payroll"}));
    refused(redrive()).await;
    answered(as_producer(redrive()), 202).await;
}

/// The service posts it in the name of the client that has named the queue, with the roles that the
/// client had then.
#[tokio::test]
async fn dead_letters_of_push_are_posted_with_the_roles_of_the_author() {
    let sukkal = Sukkal::start_with("memory:", &[&LOCAL[..], &[ROLES]].concat());
    let api = sukkal.project("p");
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    // Negative delays count as 0, so both are equal, and there are no retries with delays between
    // them.
    let retry_policy = json!({
        "retries_with_no_delay": 3, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "minimum_delay": -10,
        "maximum_delay": 0,
    });
    let options = json!({"_retry_policy": retry_policy, "dead_letter_queue": "dead"});
    let subscription = json!({"subscriber": endpoint.url("/"), "ttl": 3_600, "options": options});
    answered(api.post("/v2/queues/q/subscriptions", &subscription).header("X-Roles", "manager"), 201).await;

    let posted = api.post("/v2/queues/q/messages", &json!({"messages": [{"body": 5, "ttl": 600}]}));
    answered(posted.header("X-Roles", "producer"), 201).await;

    let dead = api.get("/v2/queues/dead/messages?echo=true&wait=30").header("X-Roles", "reader");
    assert_eq!(answered(dead, 200).await.json()["messages"][0]["body"], 5);
}

/// A stream and a wait begin with the same check as other requests.
#[tokio::test]
async fn a_refused_client_gets_no_stream_and_does_not_wait() {
    let sukkal = Sukkal::start_with("memory:", &[ROLES]);
    let api = sukkal.project("p");

    refused(api.get("/v2/queues/q/messages").header("Accept", "text/event-stream")).await;
    refused(api.get("/v2/queues/q/messages?wait=30")).await;
    refused(api.post("/v2/queues/q/claims?wait=30", &json!({})).header("X-Roles", "producer")).await;
}
