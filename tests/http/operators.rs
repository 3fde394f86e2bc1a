//! What operators may do with `admin_mode` and the role `admin`: list projects, and act on them.

use std::sync::{Mutex, Weak};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    INVALID_PARAMETER, INVALID_REQUEST, NO_ROUTE, Project, Server, answered, follow, new_project, pick, refused,
};
use support::events::Events;
use support::redis::shared_instance;
use support::sukkal::CLIENT;
use support::waiting::block_until;

/// Returns two new projects on a server with `admin_mode`: that of an operator and another one.
fn operator_and_owner() -> (Project, Project) {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

    let server = shared_instance(&SHARED, || Server::start(&[("SUKKAL_ADMIN_MODE", "true")]));
    let project = |kind: &str| Project::of(&server, &format!("{kind}-{}", Uuid::new_v4()));
    (project("operator"), project("owner"))
}

/// Returns a request of an operator that acts on a project.
fn acting(operator: &Project, method: Method, path: &str, project: &str) -> RequestBuilder {
    let separator = if path.contains('?') { '&' } else { '?' };
    operator.request(method, &format!("{path}{separator}project_id={project}")).header("X-Roles", "member, admin")
}

#[tokio::test]
async fn projects_are_listed_with_their_number_of_queues() {
    let (operator, owner) = operator_and_owner();
    let ids = ["a", "b", "é", "c,d&e"].map(|end| format!("{}{end}", owner.id));
    for (number, id) in ids.iter().enumerate() {
        for copy in 0..=number {
            Project::of(&owner.server, id).create(&format!("q{copy}"), &json!({})).await;
        }
    }

    let list = |query: &str| operator.get(&format!("/v2/projects?{query}")).header("X-Roles", "admin");
    let mut listed: Vec<Value> = Vec::new();
    let mut path = format!("/v2/projects?limit=2&marker={}", owner.id);
    while listed.len() < ids.len() {
        let page = answered(operator.get(&path).header("X-Roles", "admin"), 200).await.json();
        let projects = page["projects"].as_array().unwrap().clone();
        assert!((1..=2).contains(&projects.len()), "{page}");
        listed.extend(projects.into_iter().filter(|project| super::text(&project["id"]).starts_with(&owner.id)));
        path = page["links"][0]["href"].as_str().unwrap_or_default().to_owned();
    }

    listed.sort_by_key(|project| project["queues"].as_u64());
    let expected: Vec<_> = ids.iter().zip(1..).map(|(id, queues)| json!({"id": id, "queues": queues})).collect();
    assert_eq!(listed, expected);
    assert_eq!(answered(list("marker=zzzzzzzz"), 200).await.json(), json!({"projects": [], "links": []}));
    refused(list("limit=0"), 400, INVALID_REQUEST).await;
    refused(list("limit=x"), 400, INVALID_PARAMETER).await;
    let home = answered(operator.get("/v2/"), 200).await.json();
    assert_eq!(home["resources"]["rel/projects"]["href-template"], "/v2/projects{?marker,limit}");
}

#[tokio::test]
async fn the_list_of_projects_is_for_operators_only() {
    let (operator, _) = operator_and_owner();

    refused(new_project().get("/v2/projects").header("X-Roles", "admin"), 404, NO_ROUTE).await;
    refused(operator.get("/v2/projects"), 403, "Not authorized").await;
    refused(operator.get("/v2/projects").header("X-Roles", "member"), 403, "Not authorized").await;
}

#[tokio::test]
async fn an_operator_acts_on_another_project_on_any_route() {
    let (operator, owner) = operator_and_owner();
    operator.create("q", &json!({"kind": "own"})).await;
    owner.create("q", &json!({"kind": "other"})).await;
    let before = operator.snapshot().await;
    let act = |method, path: &str| acting(&operator, method, path, &owner.id);

    let page = answered(act(Method::GET, "/v2/queues?detailed=true&kind=other"), 200).await.json();
    assert_eq!(pick(&page["queues"], "metadata")[0]["kind"], "other");
    assert_eq!(page["links"][0]["href"], "/v2/queues?detailed=true&kind=other&marker=q");
    let messages = json!({"messages": [{"body": 1}, {"body": 2}]});
    answered(act(Method::POST, "/v2/queues/q/messages").json(&messages), 201).await;
    answered(act(Method::POST, "/v2/queues/q/claims?limit=1").json(&json!({})), 201).await;
    answered(act(Method::PUT, "/v2/queues/new"), 201).await;
    let stream = acting(&operator, Method::GET, "/v2/queues/q/messages?echo=true", &owner.id);
    assert_eq!(Events::open(stream).await.bodies(1).await, [2]);

    assert_eq!(operator.snapshot().await, before);
    assert_eq!(owner.feed("q", "&include_claimed=true").await, [1, 2]);
    assert_eq!(follow(&owner, "/v2/queues", "queues").await.len(), 2);
    let is_logged = |line: &String| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let (fields, claims) = (&event["fields"], "/v2/queues/q/claims");
        fields["project"] == owner.id
            && fields["own_project"] == operator.id
            && fields["path"] == claims
            && fields["client"] == CLIENT
            && event["request_id"].is_string()
    };
    block_until("the claim is logged", || operator.server.sukkal.log().iter().any(is_logged));
}

#[tokio::test]
async fn any_spelling_of_a_project_id_can_be_named() {
    let (operator, owner) = operator_and_owner();
    for (end, spelling) in [("é, /&", "%C3%A9%2C+%2F%26"), ("a,b", "a,b"), ("漢", "%E6%BC%A2"), ("%", "%25")] {
        let project = Project::of(&owner.server, &format!("{}{end}", owner.id));
        project.create("q", &json!({"end": end})).await;

        let metadata = acting(&operator, Method::GET, "/v2/queues/q", &format!("{}{spelling}", owner.id));
        assert_eq!(answered(metadata, 200).await.json()["end"], end);
    }
}

#[tokio::test]
async fn a_bad_project_id_is_reported_under_its_name() {
    let (operator, _) = operator_and_owner();
    for bad in ["", "a%0Ab", "%00", "%FF", &"p".repeat(257)] {
        for path in ["/v2/queues", "/v2/queues/q/messages?limit=0", "/v2/ping"] {
            let description = refused(acting(&operator, Method::GET, path, bad), 400, INVALID_PARAMETER).await;
            assert!(description.starts_with("The \"project_id\" parameter is invalid."), "{description}");
        }
    }
    answered(acting(&operator, Method::GET, "/v2/queues", &"p".repeat(256)), 200).await;
}

/// Otherwise the service could act on another project than a proxy has checked.
#[tokio::test]
async fn a_project_is_named_only_once() {
    let (operator, owner) = operator_and_owner();
    for path in ["/v2/queues", "/v2/ping"] {
        for first in [&owner.id, "", "%FF"] {
            let repeated = acting(&operator, Method::GET, &format!("{path}?project_id={first}"), &owner.id);
            let description = refused(repeated, 400, "Ambiguous identification").await;
            assert_eq!(description, "The parameter project_id is repeated; it must appear only once.");
        }
    }
}

#[tokio::test]
async fn nobody_else_acts_on_another_project() {
    let (operator, owner) = operator_and_owner();
    owner.create("q", &json!({"secret": 1})).await;
    let without_admin_mode = new_project();
    operator.create("named", &json!({"project_id": owner.id})).await;
    let requests = |path: &str| {
        let path = format!("{path}?project_id={}", owner.id);
        [
            operator.get(&path),
            operator.get(&path).header("X-Roles", "member, administrator"),
            without_admin_mode.get(&path).header("X-Roles", "admin"),
        ]
    };

    for request in requests("/v2/queues/q") {
        assert_eq!(answered(request, 200).await.json().get("secret"), None);
    }
    // It is a metadata filter, as every unknown parameter.
    for (request, names) in requests("/v2/queues").into_iter().zip([&["named"][..], &["named"], &[]]) {
        assert_eq!(pick(&answered(request, 200).await.json()["queues"], "name"), names);
    }
    // A bad id is not reported to those who cannot use it.
    answered(operator.get("/v2/ping?project_id=%00"), 204).await;
    let without_own_project = operator.bare(Method::GET, &format!("/v2/queues?project_id={}", owner.id));
    let without_own_project = without_own_project.header("Client-ID", CLIENT).header("X-Roles", "admin");
    refused(without_own_project, 400, "Project-Id Missing").await;
}
