//! `sukkal ready`, the command that the health check of the container runs.

use std::net::TcpListener;
use std::process::{Command, Output};

use support::redis::{RedisServer, child_command};
use support::sukkal::Sukkal;

fn ready(bind: &str) -> Output {
    let mut command: Command = child_command(support::sukkal::binary());
    command.arg("ready").env("SUKKAL_BIND", bind).output().expect("the binary under test starts")
}

/// Returns the exit code and the text on stderr.
fn refusal(bind: &str) -> (Option<i32>, String) {
    let output = ready(bind);
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_service_with_a_reachable_store_is_ready() {
    let sukkal = Sukkal::start("memory:");
    let address = sukkal.address().to_owned();
    let everywhere = format!("0.0.0.0:{}", address.rsplit_once(':').unwrap().1);

    for bind in [address, everywhere] {
        let output = ready(&bind);

        assert!(output.status.success(), "{bind}: {output:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{bind}: {output:?}");
    }
}

#[test]
fn a_service_without_its_store_is_not_ready() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    redis.kill();

    let (code, reason) = refusal(sukkal.address());

    assert_eq!(code, Some(1));
    assert!(reason.starts_with("sukkal: http://127.0.0.1:") && reason.contains("answers 503: "), "{reason}");
    assert!(reason.ends_with("; the log of the service says more\n"), "{reason}");
}

#[test]
fn a_stopped_service_is_not_ready() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

    let (code, reason) = refusal(&free.to_string());

    assert_eq!(code, Some(1));
    assert!(reason.contains("does not answer: Connection refused"), "{reason}");
    assert!(reason.contains("; start the service, or give this command the options"), "{reason}");
}

#[test]
fn an_invalid_address_is_refused() {
    let (code, reason) = refusal("nowhere");

    assert_eq!(code, Some(2));
    assert!(reason.contains("SUKKAL_BIND is \"nowhere\""), "{reason}");
}
