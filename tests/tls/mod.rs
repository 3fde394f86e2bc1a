//! TLS and HTTP/2 on the listeners, with real clients: openssl, curl, and the HTTP/2 client of h2.

pub(crate) mod client;
mod disconnects;
mod handshakes;
mod http2_limits;
mod identity;
mod reload;
mod resets;
mod shutdown;
mod subject;

use std::process::Output;

use support::certificates::{Authority, Certificate};
use support::redis::child_command;
use support::sukkal::{CLIENT, Sukkal};

const PROJECT: &str = "p";

/// A server with TLS over an embedded store.
struct Server {
    sukkal: Sukkal,
    authority: Authority,
    certificate: Certificate,
}

impl Server {
    fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_with(Authority::new(), environment)
    }

    fn start_with(authority: Authority, environment: &[(&str, &str)]) -> Self {
        let certificate = authority.issue("server", "/CN=first");
        let file = |path: &std::path::Path| path.to_str().expect("the path is text").to_owned();
        let (certificate_file, key) = (file(&certificate.certificate), file(&certificate.key));
        let tls = [("SUKKAL_TLS__CERTIFICATE", certificate_file.as_str()), ("SUKKAL_TLS__KEY", &key)];
        let sukkal = Sukkal::start_with("memory:", &[&tls, environment].concat());
        Self { sukkal, authority, certificate }
    }

    /// Runs curl with a path of the server and more arguments. It prints the body, and then the
    /// version of HTTP and the status.
    fn curl(&self, path: &str, arguments: &[&str]) -> Output {
        let url = format!("https://{}{path}", self.sukkal.address());
        let mut curl = child_command("curl");
        curl.args(["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_version} %{http_code}"]);
        curl.arg("--cacert").arg(self.authority.file()).arg(url);
        curl.args(["-H", &format!("Client-ID: {CLIENT}"), "-H", &format!("X-Project-ID: {PROJECT}")]);
        curl.args(arguments).output().expect("curl is installed")
    }
}

/// Returns the last line that a command printed.
fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().unwrap_or_default().to_owned()
}
