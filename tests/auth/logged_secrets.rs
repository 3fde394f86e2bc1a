//! The search for secrets in the logs of servers finds them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::secrets::{find, note, note_environment, note_store};
use support::sukkal::Sukkal;

fn is_found(line: &str) -> bool {
    find(&[line.to_owned()]).is_some()
}

#[test]
fn secrets_of_each_kind_are_found() {
    note_environment(&[("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret of this test"), ("SUKKAL_TLS__KEY", "/a/file")]);
    note_environment(&[("SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS", "first of two, second of two")]);
    note_store("redis://user:password-of-this-test@127.0.0.1:6379");

    for line in [
        r#"{"fields":{"message":"a secret of this test"}}"#,
        "x second of two",
        "AUTH password-of-this-test",
        r#""secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#,
        "Bearer skt_4f1b2c3d-5e6f-4a7b-8c9d-0e1f2a3b4c5d_J0VZkqmcHgWbTs3yQhFZ1nB8xkq2m9LrDz6uE4aPwXo",
        "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJtZSJ9.c2ln",
        "signature=6a63b2f5c2d3a4918f7e6d5c4b3a29181706f5e4d3c2b1a0998877665544332f",
    ] {
        assert!(is_found(line), "{line}");
    }
    for line in ["/a/file", "token skt_4f1b2c3d-5e6f-4a7b-8c9d-0e1f2a3b4c5d was deleted", "user 127.0.0.1:6379"] {
        assert!(!is_found(line), "{line}");
    }
}

#[tokio::test]
async fn a_server_that_logs_a_secret_fails_its_test() {
    let secret = "a-secret-of-this-test-only";
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_LOG__FILTER", "sukkal=debug")]);
    let path = format!("/v2/queues/{secret}");
    assert_eq!(sukkal.project("p").put(&path).send().await.unwrap().status(), 201);
    note(secret);

    let outcome = catch_unwind(AssertUnwindSafe(|| drop(sukkal)));

    assert!(outcome.is_err(), "the path is in the log");
}
