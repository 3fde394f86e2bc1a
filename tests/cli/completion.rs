//! A shell completes the names of queues.

use std::process::Command;

use serde_json::json;

use support::sukkal::{self, Sukkal};

/// Returns what bash proposes for the last word of a command line.
fn proposed(sukkal: &Sukkal, words: &str) -> Vec<String> {
    let folder = sukkal::binary().parent().expect("the program is in a folder");
    let script = format!(
        "export PATH={}:$PATH; source <(sukkal completions bash); COMP_WORDS=({words}); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _clap_complete_sukkal sukkal \"${{COMP_WORDS[COMP_CWORD]}}\"; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        folder.display()
    );
    let output = Command::new("bash").args(["-c", &script]).env("SUKKAL_URL", sukkal.url("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_queues_are_completed() {
    let sukkal = Sukkal::start("memory:");
    for project in ["demo", "other"] {
        for queue in ["orders", "orders-eu", "mails"] {
            let path = format!("/v2/queues/{project}-{queue}");
            assert_eq!(sukkal.project(project).put(&path).send().await.unwrap().status(), 201);
        }
    }
    let topic = sukkal.project("demo").put("/v2/topics/demo-news").json(&json!({})).send().await.unwrap();
    assert_eq!(topic.status(), 201);

    for (words, expected) in [
        ("sukkal queue show demo-ord", vec!["demo-orders", "demo-orders-eu"]),
        ("sukkal queue rm demo-mails demo-", vec!["demo-mails", "demo-orders", "demo-orders-eu"]),
        ("sukkal message post demo-m", vec!["demo-mails"]),
        ("sukkal claim take demo-m", vec!["demo-mails"]),
        ("sukkal dead ls demo-m", vec!["demo-mails"]),
        ("sukkal subscription create demo-m", vec!["demo-mails"]),
        ("sukkal queue show --project other other-m", vec!["other-mails"]),
        ("sukkal queue show --topic demo-", vec!["demo-news"]),
        ("sukkal queue show no-such", vec![""]),
        ("sukkal que", vec!["queue"]),
    ] {
        assert_eq!(proposed(&sukkal, words), expected, "{words}");
    }
    // As bash splits `--url http://…` and `--project=other`, and passes quotes.
    for words in [
        "sukkal queue show --url http : //127.0.0.1 : 9 demo-m",
        "sukkal queue show --project = other demo-m",
        r"sukkal queue show --project \'demo\' demo-m",
    ] {
        assert_eq!(proposed(&sukkal, words), [""], "{words}");
    }
}
