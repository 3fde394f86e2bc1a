//! Projects are isolated: a project cannot find, read or change what another project has (fact
//! sheet 6.4), even if their ids are similar.

use serde_json::json;
use uuid::Uuid;

use super::{CONFLICT, NOT_FOUND, Project, Server, answered, new_project, pick, refused};

/// Row 6.4-3.
#[tokio::test]
async fn ids_and_markers_of_another_project_find_and_change_nothing() {
    let owner = new_project();
    let stranger = new_project();
    owner.create("q", &json!({"secret": 1})).await;
    let ids = owner.post_bodies("q", &[json!("a"), json!("b"), json!("c")]).await;
    stranger.post_bodies("q", &[json!("x"), json!("y")]).await;
    let before = [owner.snapshot().await, stranger.snapshot().await];

    let path = "/v2/queues/q/messages";
    refused(stranger.get(&format!("{path}/{}", ids[0])), 404, NOT_FOUND).await;
    refused(stranger.get(&format!("{path}?ids={}", ids.join(","))), 404, NOT_FOUND).await;
    answered(stranger.delete(&format!("{path}/{}", ids[0])), 204).await;
    answered(stranger.delete(&format!("{path}?ids={}", ids.join(","))), 204).await;
    let after = answered(stranger.get(&format!("{path}?echo=true&marker={}", ids[0])), 200).await.json();
    assert_eq!(after, json!({"messages": [], "links": []}));

    assert_eq!([owner.snapshot().await, stranger.snapshot().await], before);
}

#[tokio::test]
async fn names_of_another_project_find_and_change_nothing() {
    let owner = new_project();
    let stranger = new_project();
    owner.create("q", &json!({"secret": 1})).await;
    owner.post_bodies("q", &[json!("a")]).await;
    let before = owner.snapshot().await;

    let list = answered(stranger.get("/v2/queues?with_count=true"), 200).await.json();
    assert_eq!(list, json!({"queues": [], "links": []}));
    assert_eq!(answered(stranger.get("/v2/queues/q"), 200).await.json().get("secret"), None);
    let patch = json!([{"op": "add", "path": "/metadata/secret", "value": 2}]);
    refused(stranger.patch("q", &patch), 404, NOT_FOUND).await;
    let page = answered(stranger.get("/v2/queues/q/messages?echo=true"), 200).await.json();
    assert_eq!(page["messages"], json!([]));
    let stats = answered(stranger.get("/v2/queues/q/stats"), 200).await.json();
    assert_eq!(stats["messages"]["total"], 0);
    let popped = answered(stranger.delete("/v2/queues/q/messages?pop=20"), 200).await.json();
    assert_eq!(popped, json!({"messages": []}));
    answered(stranger.delete("/v2/queues/q"), 204).await;

    assert_eq!(owner.snapshot().await, before);
    assert_eq!(stranger.snapshot().await, json!([]));
    answered(stranger.put("/v2/queues/q"), 201).await;
    answered(stranger.delete("/v2/queues/q"), 204).await;
    assert_eq!(owner.snapshot().await, before);
}

#[tokio::test]
async fn projects_with_similar_ids_are_separate() {
    let server = Server::shared();
    let base = Uuid::new_v4().to_string();
    let projects: Vec<Project> = [
        "",
        ".",
        "/",
        "//",
        "/a",
        ".a",
        "{",
        "}",
        "{}",
        "{a}",
        "}a{",
        ":",
        ":a",
        "%2F",
        "%2f",
        "%",
        "*",
        "?",
        "[a]",
        " a",
        "é",
        "e\u{301}",
        "É",
        "漢字",
        "\u{1F600}",
        "a\tb",
        "\\",
        "\"",
        "'",
        "$",
        "|",
        "-",
        "_",
        "A",
        "a",
    ]
    .map(|end| Project::of(&server, &format!("{base}{end}")))
    .into();

    for (n, project) in projects.iter().enumerate() {
        project.create("q", &json!({"n": n})).await;
        project.create("a.q", &json!({"n": n})).await;
        project.post_bodies("q", &[json!(n)]).await;
    }
    // Every second queue is deleted, which must not affect the others.
    for project in projects.iter().step_by(2) {
        answered(project.delete("/v2/queues/q"), 204).await;
    }

    for (n, project) in projects.iter().enumerate() {
        let queues = project.snapshot().await;
        let names = if n % 2 == 0 { &["a.q"][..] } else { &["a.q", "q"] };
        assert_eq!(pick(&queues, "name"), names, "{n}");
        for queue in queues.as_array().unwrap() {
            assert_eq!(queue["metadata"]["n"], n);
        }
        if n % 2 == 1 {
            assert_eq!(pick(&queues[1]["messages"], "body"), [n], "{n}");
        }
    }
}

#[tokio::test]
async fn project_ids_and_queue_names_cannot_be_confused() {
    let server = Server::shared();
    let base = Uuid::new_v4().to_string();
    let outer = Project::of(&server, &base);
    let inner = Project::of(&server, &format!("{base}/a"));
    let dotted = Project::of(&server, &format!("{base}.a"));
    outer.create("a.b", &json!({"owner": "outer"})).await;
    inner.create("b", &json!({"owner": "inner"})).await;
    dotted.create("b", &json!({"owner": "dotted"})).await;

    for (project, queue, owner) in [(&outer, "a.b", "outer"), (&inner, "b", "inner"), (&dotted, "b", "dotted")] {
        let metadata = answered(project.get(&format!("/v2/queues/{queue}")), 200).await.json();
        assert_eq!(metadata["owner"], owner);
        assert_eq!(project.snapshot().await.as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_patch_stays_within_its_project() {
    let server = Server::shared();
    let base = Uuid::new_v4().to_string();
    let (one, two) = (Project::of(&server, &base), Project::of(&server, &format!("{base}.")));
    one.create("q", &json!({"k": 1})).await;
    two.create("q", &json!({"l": 1})).await;

    answered(one.patch("q", &json!([{"op": "replace", "path": "/metadata/k", "value": 2}])), 200).await;
    refused(two.patch("q", &json!([{"op": "remove", "path": "/metadata/k"}])), 409, CONFLICT).await;

    assert_eq!(answered(one.get("/v2/queues/q"), 200).await.json()["k"], 2);
    assert_eq!(answered(two.get("/v2/queues/q"), 200).await.json().get("k"), None);
}
