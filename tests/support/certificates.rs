//! Certificates of a private authority, made with `openssl`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uuid::Uuid;

use super::installed::run;
use super::redis::child_command;

const CONFIG: &str = "\
[req]
distinguished_name = name
[name]
[ca]
default_ca = authority
[authority]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any_name
copy_extensions = copy
unique_subject = no
[any_name]
commonName = supplied
";
/// The names of a server on this machine.
pub(crate) const LOCAL: &str = "DNS:localhost,IP:127.0.0.1";

/// An authority with its files, which are removed on drop.
pub(crate) struct Authority {
    dir: TempDir,
}

/// A certificate and its key, in PEM format.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(dir.path().join("openssl.cnf"), CONFIG).expect("the directory is writable");
        fs::write(dir.path().join("index.txt"), "").expect("the directory is writable");
        let authority = Self { dir };
        // Authorities are told apart by their names.
        authority.openssl(&format!(
            "req -config openssl.cnf -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key \
             -out ca.pem -subj /CN={} -addext basicConstraints=critical,CA:TRUE -days 2",
            Uuid::new_v4()
        ));
        authority
    }

    /// Returns the file with the certificate of the authority.
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Issues a certificate for these subject alternative names. `name` is the name of its files.
    pub(crate) fn issue(&self, name: &str, alternative_names: &str) -> Certificate {
        self.issue_until(name, alternative_names, "20991231000000Z")
    }

    /// Issues a certificate that has expired.
    pub(crate) fn issue_expired(&self, name: &str, alternative_names: &str) -> Certificate {
        self.issue_until(name, alternative_names, "20200102000000Z")
    }

    fn issue_until(&self, name: &str, alternative_names: &str, end: &str) -> Certificate {
        self.openssl(&format!(
            "req -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -out \
             {name}.csr -subj /CN={name} -addext subjectAltName={alternative_names}"
        ));
        self.openssl(&format!(
            "ca -batch -notext -config openssl.cnf -cert ca.pem -keyfile ca.key -in {name}.csr -out {name}.pem -startdate \
             20200101000000Z -enddate {end}"
        ));
        let file = |ending: &str| self.dir.path().join(format!("{name}.{ending}"));
        Certificate { certificate: file("pem"), key: file("key") }
    }

    fn openssl(&self, arguments: &str) {
        let mut command = child_command("openssl");
        run(command.args(arguments.split(' ')).current_dir(&self.dir), "openssl makes certificates");
    }
}

/// Returns the path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}
