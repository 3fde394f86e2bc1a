//! A client certificate says who sends a request: a trusted proxy, or the client itself.

use serde_json::Value;

use super::{Server, last_line};
use crate::faults::process::refused;
use support::certificates::{Authority, Certificate};
use support::waiting::block_until;

/// Starts a server that asks for client certificates, with these strategies.
fn start(authority: Authority, environment: &[(&str, &str)]) -> Server {
    let authorities = authority.file().display().to_string();
    let tls = [("SUKKAL_TLS__CLIENT_CA", authorities.as_str()), ("SUKKAL_TLS__CLIENT_CERTIFICATE", "optional")];
    Server::start_with(authority, &[&tls[..], &[("SUKKAL_ADMIN_MODE", "true")], environment].concat())
}

/// Returns the status of a request of an operator for another project, with this certificate.
fn status(server: &Server, certificate: Option<&Certificate>, protocol: &str) -> String {
    let files = certificate.map(|files| [&files.certificate, &files.key].map(|path| path.display().to_string()));
    let files = files.iter().flat_map(|[certificate, key]| ["--cert", certificate, "--key", key]);
    let arguments: Vec<&str> = [protocol, "-H", "X-Roles: admin"].into_iter().chain(files).collect();
    let output = server.curl("/v2/queues?project_id=other", &arguments);
    last_line(&output).rsplit(' ').next().unwrap_or_default().to_owned()
}

/// Waits for the log of this number of requests of operators, and returns their senders as it names
/// them.
fn logged_subjects(server: &Server, count: usize) -> Vec<String> {
    let mut subjects = Vec::new();
    block_until("the requests are logged", || {
        let events = server.sukkal.log().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let events = events.filter(|event| event["fields"]["message"] == "an operator acts on a project");
        subjects = events.map(|event| event["fields"]["subject"].as_str().unwrap_or("nobody").to_owned()).collect();
        subjects.len() >= count
    });
    subjects
}

#[test]
fn a_proxy_is_trusted_by_its_certificate() {
    let authority = Authority::new();
    let [proxy, other] = [("proxy", "/CN=proxy"), ("other", "/O=Acme/CN=proxy")]
        .map(|(name, subject)| Some(authority.issue(name, subject)));
    let proxies = ("SUKKAL_AUTH__TRUSTED_PROXIES", "192.0.2.1, certificate:CN=proxy");
    let server = start(authority, &[("SUKKAL_AUTH__STRATEGIES", "proxy"), proxies]);

    for protocol in ["--http1.1", "--http2"] {
        for (certificate, expected) in [(&proxy, "200"), (&other, "401"), (&None, "401")] {
            assert_eq!(status(&server, certificate.as_ref(), protocol), expected, "{protocol} {certificate:?}");
        }
    }
    assert_eq!(logged_subjects(&server, 2), ["a client of the proxy CN=proxy"; 2]);
}

#[test]
fn with_the_strategy_none_the_certificate_names_the_sender() {
    let authority = Authority::new();
    let client = authority.issue("client", "/O=Acme/CN=billing");
    let server = start(authority, &[("SUKKAL_AUTH__STRATEGIES", "none")]);

    for certificate in [Some(&client), None] {
        assert_eq!(status(&server, certificate, "--http2"), "200");
    }
    assert_eq!(logged_subjects(&server, 2), ["CN=billing,O=Acme", "nobody"]);
}

#[test]
fn a_certificate_that_no_client_can_have_is_refused_at_start() {
    let environment = [("SUKKAL_AUTH__STRATEGIES", "proxy"), ("SUKKAL_AUTH__TRUSTED_PROXIES", "certificate:CN=proxy")];

    let (code, stderr) = refused(&["--store", "memory:"], &environment);

    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("auth.trusted_proxies names a client certificate, but tls.client_ca is empty"), "{stderr}");
}
