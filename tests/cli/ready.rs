//! `sukkal ready`: what a container's health check runs.

use std::net::TcpListener;
use std::process::{Command, Output};

use crate::support::redis::{RedisServer, tethered};
use crate::support::sukkal::Sukkal;

fn ready(bind: &str) -> Output {
    let mut command: Command = tethered(env!("CARGO_BIN_EXE_sukkal"));
    command.arg("ready").env("SUKKAL_BIND", bind).output().expect("the binary under test starts")
}

/// Exit code, and what it says on stderr.
fn refusal(bind: &str) -> (Option<i32>, String) {
    let output = ready(bind);
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_service_that_can_reach_its_store_is_ready() {
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
}

#[test]
fn a_service_that_does_not_run_is_not_ready() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

    let (code, reason) = refusal(&free.to_string());

    assert_eq!(code, Some(1));
    assert!(reason.contains("does not answer: Connection refused"), "{reason}");
}

#[test]
fn an_address_that_is_none_is_a_bad_option() {
    let (code, reason) = refusal("nowhere");

    assert_eq!(code, Some(2));
    assert!(reason.contains("SUKKAL_BIND is \"nowhere\""), "{reason}");
}
