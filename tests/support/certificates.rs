//! A certificate authority for tests, made with openssl.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::redis::child_command;

const NEW_KEY: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";

/// An authority with a folder for its certificates, which is removed on drop.
pub(crate) struct Authority {
    folder: TempDir,
}

/// The files of a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { folder: tempfile::tempdir().expect("a folder can be made") };
        authority.run("ca", "/CN=Test authority", &[]);
        authority
    }

    /// Returns the file with the certificate of the authority.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Returns a new certificate for servers on 127.0.0.1 with this name, and for clients.
    pub(crate) fn issue(&self, name: &str, subject: &str) -> Certificate {
        let folder = self.folder.path();
        let (ca, key) = (folder.join("ca.pem"), folder.join("ca.key"));
        let extensions = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];
        let signed_by = [Path::new("-CA"), &ca, Path::new("-CAkey"), &key];
        let arguments: Vec<&Path> = signed_by.into_iter().chain(extensions.map(Path::new)).collect();
        self.run(name, subject, &arguments);
        Certificate { certificate: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) }
    }

    fn run(&self, name: &str, subject: &str, arguments: &[&Path]) {
        let mut openssl = child_command("openssl");
        openssl.args(NEW_KEY.split(' ')).args(["-subj", subject]).args(arguments);
        openssl.arg("-keyout").arg(self.folder.path().join(format!("{name}.key")));
        openssl.arg("-out").arg(self.folder.path().join(format!("{name}.pem")));
        let output = openssl.output().expect("openssl is installed");
        assert!(output.status.success(), "{output:?}");
    }
}

impl Certificate {
    /// Replaces the files of this certificate with those of another one.
    pub(crate) fn replace_with(&self, other: &Self) {
        for (old, new) in [(&self.certificate, &other.certificate), (&self.key, &other.key)] {
            let copy = old.with_extension("new");
            fs::copy(new, &copy).expect("the file can be copied");
            fs::rename(&copy, old).expect("the file can be replaced");
        }
    }
}
