//! Which clients get a connection: versions of TLS, protocols, and mutual TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::{Server, last_line};
use support::certificates::{Authority, Certificate, text as path};
use support::redis::child_command;
use support::waiting::{POLL_TIMEOUT, block_until};

/// Connects with openssl and these options.
fn handshake(server: &Server, options: &str) -> Output {
    let mut openssl = child_command("openssl");
    openssl.args(["s_client", "-connect", server.sukkal.address(), "-verify_return_error", "-CAfile"]);
    openssl.arg(server.authority.file()).args(options.split(' '));
    openssl.stdin(Stdio::null()).output().expect("openssl is installed")
}

/// Sends a request with openssl and these options, and returns whether a session was resumed.
fn is_resumed(server: &Server, options: &[&str]) -> bool {
    let mut openssl = child_command("openssl");
    openssl.args(["s_client", "-connect", server.sukkal.address(), "-ign_eof", "-CAfile"]);
    openssl.arg(server.authority.file()).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut openssl = openssl.stderr(Stdio::piped()).spawn().expect("openssl is installed");
    // Tickets arrive before the response, after which the server closes the connection.
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    openssl.stdin.take().expect("it is piped").write_all(request).unwrap();
    let text = text(&openssl.wait_with_output().unwrap());
    assert!(text.contains("HTTP/1.1 204"), "{text}");
    text.contains("Reused, TLSv1")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the address of the listener for health checks.
fn operations_address(server: &Server) -> String {
    let mut address = None;
    block_until("the listener for health checks is there", || {
        let events = server.sukkal.log().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let mut found = events.filter(|event| event["fields"]["message"] == "listening for health checks and metrics");
        address = found.next().map(|event| event["fields"]["address"].as_str().unwrap().to_owned());
        address.is_some()
    });
    address.unwrap()
}

#[test]
fn only_tls_1_2_and_1_3_are_accepted() {
    let server = Server::start(&[]);

    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let output = handshake(&server, &format!("{option} -alpn h2"));
        let text = text(&output);
        assert!(output.status.success() && text.contains(version) && text.contains("ALPN protocol: h2"), "{text}");
    }
    for option in ["-tls1", "-tls1_1"] {
        let output = handshake(&server, &format!("{option} -cipher DEFAULT@SECLEVEL=0"));
        assert!(!output.status.success() && text(&output).contains("SSL alert number"), "{}", text(&output));
    }
}

#[test]
fn a_client_chooses_between_http_1_and_http_2() {
    let server = Server::start(&[("SUKKAL_LOG__FILTER", "debug")]);

    for (option, expected) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let output = server.curl("/v2/queues", &[option]);
        assert_eq!(last_line(&output), expected, "{output:?}");
    }
    // The log has each request, but not each frame.
    let log = server.sukkal.log();
    assert!(!log.iter().any(|line| line.contains("h2::") || line.contains("rustls::")), "{log:#?}");
}

#[test]
fn http_without_tls_gets_an_explanation() {
    let server = Server::start(&[]);
    let url = server.sukkal.url("/v2/queues/q/messages");

    for body in ["", &"x".repeat(100_000)] {
        let mut curl = child_command("curl");
        curl.args(["--silent", "--http1.1", "--data", body, "--write-out", "\n%{http_code}", &url]);
        let output = curl.output().expect("curl is installed");
        assert_eq!(last_line(&output), "400");
        assert!(text(&output).contains("This port uses TLS"), "{}", text(&output));
    }
}

#[test]
fn bytes_that_are_no_handshake_end_the_connection() {
    let server = Server::start(&[]);
    let long = vec![0xff; 70_000];

    for bytes in [&b"\0\0\0\0\0\0\0\0"[..], b"\x80\x2e\x01\0\x02\0\0\0\0", b"hello\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(server.sukkal.address()).unwrap();
        // The server may close the connection before it has read everything.
        let _closed = stream.write_all(bytes);
        stream.set_read_timeout(Some(POLL_TIMEOUT)).unwrap();
        let end = stream.read_to_end(&mut Vec::new());
        assert!(!end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "the connection stays open");
    }
    assert_eq!(last_line(&server.curl("/healthz", &[])), "2 204");
}

#[test]
fn clients_need_a_certificate_of_the_right_authority() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let own = authority.issue("client", "/CN=client");
    let foreign = foreign.issue("client", "/CN=client");
    let ca = authority.file().to_str().unwrap().to_owned();
    let environment = [("SUKKAL_TLS__CLIENT_CA", ca.as_str()), ("SUKKAL_OPERATIONS__BIND", "127.0.0.1:0")];
    let server = Server::start_with(authority, &environment);
    let status = |server: &Server, certificate: Option<&Certificate>, protocol: &str| {
        let mut arguments = vec![protocol];
        if let Some(certificate) = certificate {
            arguments.extend(["--cert", certificate.certificate.to_str().unwrap()]);
            arguments.extend(["--key", certificate.key.to_str().unwrap()]);
        }
        last_line(&server.curl("/v2/queues", &arguments))
    };

    for protocol in ["--http1.1", "--http2"] {
        assert!(status(&server, Some(&own), protocol).ends_with(" 200"));
        assert!(status(&server, Some(&foreign), protocol).ends_with(" 000"));
        assert!(status(&server, None, protocol).ends_with(" 000"));
    }
    // Health checks have no certificate.
    let operations = operations_address(&server);
    let mut curl = child_command("curl");
    curl.args(["--silent", "--write-out", "%{http_code}", &format!("https://{operations}/readyz"), "--cacert", &ca]);
    assert_eq!(last_line(&curl.output().unwrap()), "204");
    drop(server);

    let authority = Authority::new();
    let own = authority.issue("client", "/CN=client");
    let ca = authority.file().to_str().unwrap().to_owned();
    let optional = [("SUKKAL_TLS__CLIENT_CA", ca.as_str()), ("SUKKAL_TLS__CLIENT_CERTIFICATE", "optional")];
    let server = Server::start_with(authority, &optional);
    assert!(status(&server, Some(&own), "--http2").ends_with(" 200"));
    assert!(status(&server, None, "--http2").ends_with(" 200"));
    assert!(status(&server, Some(&foreign), "--http2").ends_with(" 000"));
}

/// The certificate of a client is verified in full handshakes only, and may expire.
#[test]
fn a_session_is_resumed_only_if_clients_are_not_asked_for_certificates() {
    for (mode, expected) in [(None, true), (Some("required"), false), (Some("optional"), false)] {
        let authority = Authority::new();
        let own = authority.issue("client", "/CN=client");
        let [ca, certificate, key] = [&authority.file(), &own.certificate, &own.key].map(|file| path(file).to_owned());
        let environment = mode.map(|mode| [("SUKKAL_TLS__CLIENT_CA", &*ca), ("SUKKAL_TLS__CLIENT_CERTIFICATE", mode)]);
        let server = Server::start_with(authority, environment.as_ref().map_or(&[], |options| &options[..]));
        for version in ["-tls1_2", "-tls1_3"] {
            let directory = tempfile::tempdir().unwrap();
            let session = directory.path().join("session");
            let options = [version, "-cert", &certificate, "-key", &key];
            assert!(!is_resumed(&server, &[&options[..], &["-sess_out", path(&session)]].concat()));
            // Without a ticket, there is no file.
            let resumed =
                session.exists() && is_resumed(&server, &[&options[..], &["-sess_in", path(&session)]].concat());
            assert_eq!(resumed, expected, "{mode:?} {version}");
        }
    }
}

#[test]
fn the_commands_of_sukkal_use_tls() {
    let server = Server::start(&[]);
    let url = format!("https://{}", server.sukkal.address());
    let sukkal = |arguments: &str| {
        let mut command = child_command(support::sukkal::binary());
        command.args(arguments.split(' ')).env("SSL_CERT_FILE", server.authority.file());
        command.env("SUKKAL_TLS__CERTIFICATE", &server.certificate.certificate);
        command.env("SUKKAL_TLS__KEY", &server.certificate.key).env("SUKKAL_BIND", server.sukkal.address());
        command.output().expect("the binary under test starts")
    };

    for arguments in [
        "ready".to_owned(),
        format!("ping --url {url}"),
        format!("bench {url} --json --produce 1 --duration 1 --warmup 0 --threads 1"),
    ] {
        let output = sukkal(&arguments);
        assert!(output.status.success(), "{arguments}: {output:?}");
    }
}
