//! Certificates of a private authority, made with `openssl`.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uuid::Uuid;

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
organizationName = optional
organizationalUnitName = optional
commonName = supplied
";
/// The names of a server on this machine.
pub const LOCAL: &str = "DNS:localhost,IP:127.0.0.1";

/// An authority with its files, which are removed on drop.
pub struct Authority {
    dir: TempDir,
}

/// A certificate and its key, in PEM format.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(dir.path().join("openssl.cnf"), CONFIG).expect("the directory is writable");
        fs::write(dir.path().join("index.txt"), "").expect("the directory is writable");
        let authority = Self { dir };
        // Authorities are told apart by their names.
        let request = "req -config openssl.cnf -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout \
                       ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE -days 2";
        authority.openssl(request, &["-subj", &format!("/CN={}", Uuid::new_v4())]);
        authority
    }

    /// Returns the file with the certificate of the authority.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Issues a certificate with this subject, for clients and for servers on this machine. `name`
    /// is the name of its files.
    pub fn issue(&self, name: &str, subject: &str) -> Certificate {
        self.issue_until(name, subject, LOCAL, "20991231000000Z")
    }

    /// Issues a certificate for these subject alternative names.
    pub fn issue_for(&self, name: &str, alternative_names: &str) -> Certificate {
        self.issue_until(name, &format!("/CN={name}"), alternative_names, "20991231000000Z")
    }

    /// Issues a certificate that has expired.
    pub fn issue_expired(&self, name: &str, alternative_names: &str) -> Certificate {
        self.issue_until(name, &format!("/CN={name}"), alternative_names, "20200102000000Z")
    }

    fn issue_until(&self, name: &str, subject: &str, alternative_names: &str, end: &str) -> Certificate {
        let request = format!(
            "req -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -out \
             {name}.csr -addext subjectAltName={alternative_names}"
        );
        self.openssl(&request, &["-subj", subject]);
        let signature = format!(
            "ca -batch -notext -preserveDN -config openssl.cnf -cert ca.pem -keyfile ca.key -in {name}.csr -out {name}.pem \
             -startdate 20200101000000Z -enddate {end}"
        );
        self.openssl(&signature, &[]);
        let file = |ending: &str| self.dir.path().join(format!("{name}.{ending}"));
        Certificate { certificate: file("pem"), key: file("key") }
    }

    fn openssl(&self, arguments: &str, more: &[&str]) {
        let mut command = child_command("openssl");
        let arguments = command.args(arguments.split(' ')).args(more);
        let output = arguments.current_dir(&self.dir).output().expect("openssl is installed: `make tools`");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Certificate {
    /// Replaces the files of this certificate with those of another one.
    pub fn replace_with(&self, other: &Self) {
        for (old, new) in [(&self.certificate, &other.certificate), (&self.key, &other.key)] {
            let copy = old.with_extension("new");
            fs::copy(new, &copy).expect("the file can be copied");
            fs::rename(&copy, old).expect("the file can be replaced");
        }
    }
}

/// Returns the path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is UTF-8")
}
