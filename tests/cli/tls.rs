//! The recipe of the guide for a self-signed certificate, and what commands say about others.

use std::path::Path;

use super::client::{command, text};
use support::certificates::Authority;
use support::redis::child_command;
use support::sukkal::Sukkal;

/// Serves every address of this machine.
fn serve(folder: &Path) -> Sukkal {
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let [certificate, key] = [file("certificate.pem"), file("key.pem")];
    let tls = [("SUKKAL_TLS__CERTIFICATE", certificate.as_str()), ("SUKKAL_TLS__KEY", &key)];
    let environment = [&tls[..], &[("SUKKAL_AUTH__STRATEGIES", "none")]].concat();
    Sukkal::launch(&["--bind", ":0", "--store", "memory:"], &environment)
}

/// Returns the command of the guide that makes a self-signed certificate.
fn recipe() -> String {
    let guide = std::fs::read_to_string(support::root().join("docs/operating.md")).unwrap();
    let (_, recipe) = guide.split_once("```sh\nopenssl req -x509").expect("the guide has the recipe");
    let lines: Vec<&str> = recipe.split_inclusive('\n').collect();
    let last = lines.iter().position(|line| !line.ends_with("\\\n")).unwrap();
    format!("openssl req -x509{}", lines[..=last].concat())
}

/// Makes a certificate with this command, and returns the service that uses it.
fn serve_with(folder: &Path, recipe: &str) -> Sukkal {
    let made = child_command("sh").args(["-c", recipe]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    serve(folder)
}

/// Runs `sukkal ping`, and returns the exit code and the error.
fn ping(url: &str, cacert: Option<&Path>) -> (Option<i32>, String) {
    let mut ping = command(url, "ping");
    if let Some(file) = cacert {
        ping.arg("--cacert").arg(file);
    }
    let output = ping.output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_self_signed_certificate_of_the_guide_is_trusted_if_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let service = serve_with(folder.path(), &recipe());
    let url = |host: &str| format!("https://{host}:{}", service.socket_address().port());
    let own = folder.path().join("certificate.pem");

    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(ping(&url(host), Some(&own)), (Some(0), String::new()), "{host}");
    }
    assert!(command(&url("localhost"), "ping").env("SUKKAL_CACERT", &own).output().unwrap().status.success());
    let marked = folder.path().join("marked.pem");
    std::fs::write(&marked, [b"\xef\xbb\xbf", &*std::fs::read(&own).unwrap()].concat()).unwrap();
    assert_eq!(ping(&url("localhost"), Some(&marked)), (Some(0), String::new()), "a byte order mark has no meaning");
    for (host, cacert, reason) in [
        ("localhost", None, "is not trusted, because its issuer is unknown; name the certificate of the issuer, or a"),
        ("127.0.0.2", Some(&*own), "is not valid for 127.0.0.2"),
    ] {
        let (code, error) = ping(&url(host), cacert);
        assert!(code == Some(5) && error.contains(reason), "{host}: {code:?} {error}");
    }
    let (code, error) = ping(&url("localhost"), Some(&folder.path().join("key.pem")));
    assert!(code == Some(2) && error.contains("key.pem has no certificates"), "{code:?} {error}");
}

#[test]
fn a_context_remembers_which_certificates_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let service = serve_with(folder.path(), &recipe());
    let add = format!("context add own --url https://localhost:{} --cacert", service.socket_address().port());
    let run = |words: &str, file: Option<&str>| {
        let mut command = command("", words);
        command.args(file).env("XDG_CONFIG_HOME", folder.path());
        command.current_dir(if file.is_some() { folder.path() } else { Path::new("/") }).output().unwrap()
    };

    let refused = run(&add, Some("key.pem"));
    assert!(text(&refused.stderr).contains("key.pem has no certificates"), "{refused:?}");
    assert!(run(&add, Some("certificate.pem")).status.success());
    let output = run("ping", None);

    assert!(output.status.success(), "{output:?}");
}

#[test]
fn other_certificates_and_services_without_tls_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let service = serve_with(folder.path(), &recipe().replace("CA:FALSE", "CA:TRUE"));
    let plain = Sukkal::start("memory:");
    let own = folder.path().join("certificate.pem");

    for (address, reason) in [
        (
            format!("localhost:{}", service.socket_address().port()),
            "is that of an authority (CA:TRUE), which services cannot use",
        ),
        (plain.address().to_owned(), "the service does not use TLS at this port"),
    ] {
        let (code, error) = ping(&format!("https://{address}"), Some(&own));
        assert!(code == Some(5) && error.contains(reason), "{code:?} {error}");
    }
}

#[test]
fn a_service_that_requires_client_certificates_is_used_with_one() {
    let authority = Authority::new();
    let [server, client] = [authority.issue("server", "/CN=server"), authority.issue("client", "/CN=client")];
    let path = |file: &Path| file.to_str().unwrap().to_owned();
    let [certificate, key, ca] = [path(&server.certificate), path(&server.key), path(&authority.file())];
    let environment = [
        ("SUKKAL_TLS__CERTIFICATE", certificate.as_str()),
        ("SUKKAL_TLS__KEY", &key),
        ("SUKKAL_TLS__CLIENT_CA", &ca),
        ("SUKKAL_TLS__CLIENT_CERTIFICATE", "required"),
    ];
    let service = Sukkal::launch(&["--bind", "127.0.0.1:0", "--store", "memory:"], &environment);
    let url = format!("https://localhost:{}", service.socket_address().port());
    let both = client.certificate.with_extension("both");
    let parts = [&client.certificate, &client.key].map(|file| std::fs::read(file).unwrap());
    std::fs::write(&both, parts.concat()).unwrap();
    let ping = |cert: Option<&Path>| {
        let mut ping = command(&url, "ping");
        ping.arg("--cacert").arg(authority.file());
        if let Some(file) = cert {
            ping.arg("--cert").arg(file);
        }
        let output = ping.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };

    assert_eq!(ping(Some(&both)), (Some(0), String::new()));
    for (cert, expected, reason) in [
        (None, 5, "the service requires a client certificate; name the file that has it and its key with --cert FILE"),
        (Some(&*client.certificate), 2, "client.pem has no private key without a passphrase"),
        (Some(&*client.key), 2, "client.key has no certificates"),
    ] {
        let (code, error) = ping(cert);
        assert!(code == Some(expected) && error.contains(reason), "{code:?} {error}");
    }
}
