//! What the client does if a service misbehaves, or if many clients run at once.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::client::{command, run, run_on_terminal, text};
use super::stand_in::{Answer, StandIn};

#[test]
fn a_command_does_not_wait_longer_than_it_may_repeat_its_request() {
    let stand_in = StandIn::start(|_, _| Answer {
        status: 503,
        headers: "Retry-After: 18446744073709551615\r\n",
        ..Answer::default()
    });

    let output = run(stand_in.url(), "ping");

    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(text(&output.stderr), "sukkal: the service is unavailable (503): Service Unavailable\n");
}

/// Its document has no title, and its sentence does not say what to do.
#[test]
fn the_401_of_keystone_says_where_to_get_a_token() {
    let error = json!({ "code": 401, "title": "Unauthorized", "message": "The request you have made ..." });
    let document = json!({ "error": error }).to_string();
    let stand_in = StandIn::start(move |_, _| Answer {
        status: 401,
        headers: "WWW-Authenticate: Keystone uri=\"https://keystone.example/v3\"\r\n",
        body: document.clone(),
        ..Answer::default()
    });

    let output = run(stand_in.url(), "ping");

    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let expected = "sukkal: not allowed (401): the service wants a valid token of Keystone at https://keystone.example/v3; \
                    get one with `openstack token issue -f value -c id`, and send it as X-Auth-Token in a \
                    --credentials-file\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn durations_may_be_longer_than_any_clock() {
    let stand_in = StandIn::start(|_, _| Answer { status: 204, ..Answer::default() });

    let ping = run(stand_in.url(), "ping --retry 1e19");
    let claim = run(stand_in.url(), "claim take orders --wait 18446744073709551615");

    assert!(ping.status.success(), "{ping:?}");
    assert_eq!(claim.status.code(), Some(3), "{claim:?}");
    assert_eq!(text(&claim.stderr), "sukkal: queue orders has no available message\n");
}

#[test]
fn a_redrive_may_report_any_numbers() {
    let requests = Arc::new(AtomicU64::new(0));
    let stand_in = StandIn::start(move |method, _| {
        if method == "POST" {
            return Answer { status: 202, headers: "Location: /v2/queues/a/tasks/b\r\n", ..Answer::default() };
        }
        let state = if requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { "running" } else { "done" };
        let task = json!({ "state": state, "moved": u64::MAX, "skipped": u64::MAX, "remaining": u64::MAX });
        Answer { status: 200, body: task.to_string(), ..Answer::default() }
    });

    let piped = run(stand_in.url(), "dead redrive a");
    let (code, screen) = run_on_terminal(stand_in.url(), "dead redrive a", "", &[]);

    let number = "18,446,744,073,709,551,615";
    assert!(piped.status.success(), "{piped:?}");
    let why = "claimed, or without a queue to return to: --to names one";
    assert_eq!(text(&piped.stdout), format!("moved {number} messages, skipped {number} ({why})\n"));
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn a_task_that_was_stopped_is_not_removed_if_the_response_is_lost() {
    let deletions = Arc::new(AtomicU64::new(0));
    let counted = deletions.clone();
    let stand_in = StandIn::start(move |method, _| {
        if method == "DELETE" {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        let is_lost = method == "DELETE";
        Answer { status: 200, body: json!({ "state": "running" }).to_string(), is_lost, ..Answer::default() }
    });

    let output = run(stand_in.url(), "dead stop orders 1");

    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(text(&output.stderr).ends_with("; it is unknown whether the request had an effect\n"), "{output:?}");
    assert_eq!(deletions.load(Ordering::Relaxed), 1);
}

#[test]
fn a_message_that_cannot_be_read_can_be_deleted() {
    let stand_in = StandIn::start(|method, _| {
        let status = if method == "DELETE" { 204 } else { 403 };
        Answer { status, ..Answer::default() }
    });

    let output = run(stand_in.url(), "message rm orders 1");

    assert_eq!(text(&output.stdout), "deleted message 1\n", "{output:?}");
}

#[test]
fn an_endless_response_is_an_error() {
    let stand_in =
        StandIn::start(|_, _| Answer { status: 200, body: " ".repeat(1 << 20), is_endless: true, ..Answer::default() });

    let output = run(stand_in.url(), "ping");

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let url = stand_in.url();
    assert_eq!(text(&output.stderr), format!("sukkal: a response of {url} is longer than 134217728 bytes\n"));
}

#[test]
fn an_endless_event_is_an_error() {
    let stand_in = StandIn::start(|_, _| Answer {
        status: 200,
        headers: "Content-Type: text/event-stream\r\n",
        body: "x".repeat(1 << 20),
        is_endless: true,
        ..Answer::default()
    });

    let output = run(stand_in.url(), "message tail orders --all");

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let url = stand_in.url();
    assert_eq!(text(&output.stderr), format!("sukkal: an event of {url} is longer than 16777216 bytes\n"));
}

#[test]
fn no_text_of_the_service_controls_the_terminal() {
    let name = "a\u{9b}31m\u{7f}\u{202e}b\u{1b}[2J";
    let page = json!({ "queues": [{ "name": name }], "links": [] }).to_string();
    let stand_in = StandIn::start(move |_, _| Answer { status: 200, body: page.clone(), ..Answer::default() });

    for words in ["queue ls", "queue ls --json"] {
        let output = text(&run(stand_in.url(), words).stdout);

        let escaped = r#""a\u009b31m\u007f\u202eb\u001b[2J""#;
        assert!(output.contains(escaped), "{words}: {output:?}");
        let document = serde_json::from_str::<Value>(&output);
        assert!(document.map_or(words == "queue ls", |document| document["name"] == name), "{output:?}");
    }
}

#[test]
fn contexts_that_are_added_at_the_same_time_are_all_kept() {
    let home = tempfile::tempdir().unwrap();
    let context = |words: &str| {
        let mut command = command("", &format!("context {words}"));
        command.env("XDG_CONFIG_HOME", home.path()).stdout(Stdio::piped());
        command
    };
    let names: Vec<String> = (10..30).map(|number| format!("c{number}")).collect();

    let add = |name: &String| context(&format!("add {name} --url http://127.0.0.1:1")).spawn().unwrap();
    let started: Vec<_> = names.iter().map(add).collect();
    for child in started {
        assert!(child.wait_with_output().unwrap().status.success());
    }

    let listed = text(&context("ls --json").output().unwrap().stdout);
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
    assert_eq!(listed.lines().map(name).collect::<Vec<_>>(), names);
}
