//! `openapi.yaml` and the service have the same paths, methods and limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use sukkal::api::{Settings, routes};
use sukkal::app;
use sukkal::config::Config;
use sukkal::wire::claims::TERM_FIELDS;
use sukkal::wire::messages::{MESSAGE_FIELDS, MESSAGES};
use sukkal::wire::metadata_patch::OPERATION_FIELDS;
use sukkal::wire::subscriptions::{CHANGED_FIELDS, FIELDS};
use sukkal_domain::AuthStrategy;
use sukkal_domain::limits::{CLAIM_TERM_S_MIN, MESSAGE_TTL_S_MIN, SUBSCRIPTION_TTL_S_MIN, page_default};
use sukkal_domain::sharding::SHARDS_MAX;
use sukkal_storage::embedded::EmbeddedStore;

use crate::auth::matrix::ENVIRONMENT;
use support::sukkal::Sukkal;

pub(super) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.yaml");

/// The operation that opens a WebSocket, which is not in the table of routes. Other tests open
/// some.
pub(super) const WEBSOCKET: &str = "GET /v2/websocket";

/// Keys of a path item in the contract that are not methods.
const NO_METHODS: [&str; 4] = ["parameters", "summary", "description", "servers"];

/// Settings with which the service has all its routes.
pub(crate) fn with_all_routes() -> Arc<Settings> {
    settings(&ENVIRONMENT)
}

/// Settings with these variables.
pub(crate) fn settings(environment: &[(&str, &str)]) -> Arc<Settings> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::load(None, environment, &[]).unwrap();
    app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap().settings
}

#[test]
fn the_contract_lists_exactly_the_routes_of_the_service() {
    let served: BTreeSet<String> = routes(&with_all_routes())
        .into_iter()
        // `/v2/` serves the same as `/v2`, which the contract lists.
        .filter(|(path, _)| *path != "/v2/")
        .flat_map(|(path, methods)| methods.into_iter().map(move |(method, _)| format!("{method} {path}")))
        .filter(|operation| !operation.starts_with("OPTIONS "))
        .chain([WEBSOCKET.to_owned()])
        .collect();
    let documented: BTreeSet<String> = operations(&contract()).into_iter().map(|operation| operation.name).collect();

    assert_eq!(served.difference(&documented).collect::<Vec<_>>(), [""; 0], "served, but not in openapi.yaml");
    assert_eq!(documented.difference(&served).collect::<Vec<_>>(), [""; 0], "in openapi.yaml, but not served");
}

#[test]
fn the_contract_lists_exactly_the_query_parameters_of_each_route() {
    let contract = contract();
    let served = routes(&with_all_routes());
    let methods = served.iter().flat_map(|(path, methods)| methods.iter().map(move |method| (path, method)));
    for (path, (method, parameters)) in methods.filter(|(path, _)| **path != "/v2/") {
        let item = &contract["paths"][path];
        let listed = [&item["parameters"], &item[method.as_str().to_lowercase()]["parameters"]];
        let listed = listed.into_iter().flat_map(|list| list.as_array().into_iter().flatten());
        let listed = listed.map(|parameter| match parameter["$ref"].as_str() {
            Some(reference) => contract.pointer(reference.trim_start_matches('#')).unwrap(),
            None => parameter,
        });
        // One parameter of the contract stands for all filters by metadata.
        let in_query = listed.filter(|parameter| parameter["in"] == "query" && parameter["name"] != "metadata");
        let documented: BTreeSet<&str> = in_query.map(|parameter| parameter["name"].as_str().unwrap()).collect();

        assert_eq!(documented, parameters.names.iter().copied().collect(), "{method} {path}");
    }
}

#[test]
fn the_contract_lists_exactly_the_fields_of_bodies() {
    let contract = contract();
    for (schema, fields) in [
        ("NewMessages", &[MESSAGES][..]),
        ("NewMessages/properties/messages/items", &MESSAGE_FIELDS),
        ("NewClaim", &TERM_FIELDS),
        ("ClaimRenewal", &TERM_FIELDS),
        ("NewSubscription", &FIELDS),
        ("SubscriptionChange", &CHANGED_FIELDS),
        ("SetKey", &OPERATION_FIELDS),
    ] {
        let properties = contract.pointer(&format!("/components/schemas/{schema}/properties")).unwrap();
        let documented: BTreeSet<&str> = properties.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(documented, fields.iter().copied().collect(), "{schema}");
    }
}

#[test]
fn the_contract_states_the_default_limits() {
    let limits = Config::load(None, [], &[]).unwrap().transport.limits;
    let contract = contract();
    let of = |pointer: &str| contract.pointer(pointer).cloned().unwrap_or_default();

    let schemas = "/components/schemas";
    assert_eq!(of("/components/parameters/Limit/schema/maximum"), json!(limits.max_messages_per_page));
    assert_eq!(of("/components/parameters/Limit/schema/maximum"), json!(limits.max_queues_per_page));
    assert_eq!(of("/components/parameters/Limit/schema/maximum"), json!(limits.max_subscriptions_per_page));
    assert_eq!(of("/components/parameters/Limit/schema/default"), json!(page_default(limits.max_messages_per_page)));
    assert_eq!(of(&format!("{schemas}/MessageIds/maxItems")), json!(limits.max_messages_per_page));
    assert_eq!(of(&format!("{schemas}/NewMessages/properties/messages/maxItems")), json!(limits.max_messages_per_post));
    assert_eq!(of(&format!("{schemas}/PopCount/maximum")), json!(limits.max_messages_per_claim_or_pop));
    assert_eq!(of(&format!("{schemas}/ClaimSize/maximum")), json!(limits.max_messages_per_claim_or_pop));
    assert_eq!(of(&format!("{schemas}/ClaimSize/default")), json!(page_default(limits.max_messages_per_claim_or_pop)));
    let (ttl_max, grace_max) = (limits.max_claim_ttl, limits.max_claim_grace);
    for (schema, minimum, default, maximum) in [
        ("ClaimTtl", CLAIM_TERM_S_MIN, limits.default_claim_ttl, ttl_max),
        ("ClaimGrace", CLAIM_TERM_S_MIN, limits.default_claim_grace, grace_max),
        ("RenewalGrace", 0, limits.default_claim_grace, grace_max),
    ] {
        assert_eq!(of(&format!("{schemas}/{schema}/minimum")), json!(minimum), "{schema}");
        assert_eq!(of(&format!("{schemas}/{schema}/default")), json!(default), "{schema}");
        assert_eq!(of(&format!("{schemas}/{schema}/maximum")), json!(maximum), "{schema}");
    }
    assert_eq!(of(&format!("{schemas}/Wait/maximum")), json!(limits.max_wait));
    assert_eq!(of(&format!("{schemas}/Ttl/minimum")), json!(MESSAGE_TTL_S_MIN));
    assert_eq!(of(&format!("{schemas}/Ttl/maximum")), json!(limits.max_message_ttl));
    assert_eq!(of(&format!("{schemas}/SubscriptionTtl/minimum")), json!(SUBSCRIPTION_TTL_S_MIN));
    assert_eq!(of(&format!("{schemas}/Delay/maximum")), json!(limits.max_message_delay));
    assert_eq!(of(&format!("{schemas}/ShardCount/maximum")), json!(SHARDS_MAX));
    assert_eq!(of(&format!("{schemas}/PostSize/maximum")), json!(limits.max_messages_post_size));
}

#[tokio::test]
async fn a_page_of_another_origin_can_read_every_documented_header() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_TRANSPORT__CORS_ORIGINS", "*")]);
    let answer = support::plain_http::get(sukkal.url("/")).await.unwrap();
    let exposed = answer.headers()["access-control-expose-headers"].to_str().unwrap().to_lowercase();
    // Browsers show the first two headers to every page, and `Vary` is for caches.
    let exposed: BTreeSet<&str> = exposed.split(", ").chain(["cache-control", "content-type", "vary"]).collect();

    let documented = response_headers(&contract());

    assert!(documented.contains("location") && documented.contains("retry-after"), "{documented:?}");
    let hidden: Vec<_> = documented.iter().filter(|name| !exposed.contains(name.as_str())).collect();
    assert_eq!(hidden, [""; 0], "in openapi.yaml, but not exposed");
}

/// The service looks for each credential where the contract says: it refuses a wrong one.
#[tokio::test]
async fn wrong_credentials_are_refused_where_the_contract_has_them() {
    let options = [("SUKKAL_AUTH__STRATEGIES", "none,tokens"), ("SUKKAL_SIGNED_URL__SECRET_KEY", "any")];
    let sukkal = Sukkal::start_with("memory:", &options);
    let contract = contract();
    let schemes = &contract["components"]["securitySchemes"];
    let request = || sukkal.project("p").get("/v2/queues");
    let text = |name: &str, key: &str| schemes[name][key].as_str().unwrap_or_default().to_owned();

    let refused = [
        (401, request().header("Authorization", format!("{} wrong", text("bearer", "scheme")))),
        (401, request().header(text("authToken", "name"), "wrong")),
        (404, request().header(text("signedUrl", "name"), "wrong")),
        (404, sukkal.project("p").get(&format!("/v2/queues?{}=wrong", text("signedQuery", "name")))),
    ];

    for (status, request) in refused {
        assert_eq!(request.send().await.unwrap().status(), status);
    }
    assert_eq!(request().send().await.unwrap().status(), 200);
    let known: BTreeSet<&String> = schemes.as_object().unwrap().keys().collect();
    let alternatives = contract["security"].as_array().unwrap().iter().flat_map(|one| one.as_object().unwrap().keys());
    assert_eq!(alternatives.collect::<BTreeSet<_>>(), known);
    let strategies = AuthStrategy::NAMES.iter().filter(|name| **name != "none");
    for strategy in strategies {
        assert!(schemes.to_string().contains(&format!("strategy `{strategy}`")), "{strategy}");
    }
}

/// A cache between a client and the service may not know that `X-Auth-Token` and `X-Project-ID`
/// decide what a response contains.
#[tokio::test]
async fn caches_store_no_response_but_the_home_document() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_ADMIN_MODE", "true")]);
    let api = sukkal.project("p");
    let mut operations: Vec<String> = operations(&contract()).into_iter().map(|operation| operation.name).collect();
    operations.extend(["GET /v2/", "GET /none", "GET /console", "GET /docs", "OPTIONS /v2/queues"].map(str::to_owned));
    for operation in operations {
        let (method, path) = operation.split_once(' ').unwrap();
        let path = path.replace(['{', '}'], "");
        let method: Method = method.parse().unwrap();
        let expected = match &*path {
            "/v2" | "/v2/" => "max-age=86400",
            "/console" | "/docs" => "no-cache",
            _ => "no-store",
        };

        let response = api.request(method.clone(), &path).send().await.unwrap();
        let refused = api.bare(method, &path).send().await.unwrap();

        let status = response.status();
        assert_eq!(response.headers()["cache-control"], expected, "{operation}: {status}");
        let expected = if path.starts_with("/v2") { "no-store" } else { expected };
        assert_eq!(refused.headers()["cache-control"], expected, "{operation} without headers");
        if let Some(tag) = response.headers().get("etag") {
            let again = api.get(&path).header("If-None-Match", tag).send().await.unwrap();
            assert_eq!(
                (again.status().as_u16(), &again.headers()["cache-control"]),
                (304, &"no-cache".parse().unwrap())
            );
        }
    }
}

/// Returns the names of all response headers in a part of the contract, in lower case.
fn response_headers(part: &Value) -> BTreeSet<String> {
    let parts: Vec<&Value> = match part {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    let own = part["headers"].as_object().filter(|_| part["description"].is_string());
    let own = own.into_iter().flat_map(|headers| headers.keys().map(|name| name.to_lowercase()));
    own.chain(parts.into_iter().flat_map(response_headers)).collect()
}

/// A path with a method, and the statuses of its responses.
pub(crate) struct Operation {
    /// `GET /v2/queues`.
    pub(crate) name: String,
    /// `200`, `404`, …
    pub(super) statuses: Vec<String>,
}

/// Returns `openapi.yaml` as a tree.
pub(crate) fn contract() -> Value {
    let text = std::fs::read_to_string(PATH).expect("openapi.yaml can be read");
    serde_saphyr::from_str(&text).expect("openapi.yaml is YAML")
}

/// Returns all operations of the contract.
pub(crate) fn operations(contract: &Value) -> Vec<Operation> {
    let paths = contract["paths"].as_object().expect("the contract has paths");
    let methods = |(path, item): (&String, &Value)| {
        let item = item.as_object().expect("a path has methods").clone();
        let path = path.clone();
        item.into_iter().filter(|(method, _)| !NO_METHODS.contains(&method.as_str())).map(move |(method, operation)| {
            let responses = operation["responses"].as_object().expect("an operation has responses");
            let name = format!("{} {path}", method.to_uppercase());
            Operation { name, statuses: responses.keys().cloned().collect() }
        })
    };
    paths.iter().flat_map(methods).collect()
}
