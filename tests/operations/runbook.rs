//! Runs the commands of `docs/runbook.md` against a real service, and compares what they print with
//! what the page shows.
//!
//! A section of the page is one test: its blocks run in one shell, in their order. Blocks that a
//! reader does not see, because they are in a comment, prepare the situation. `systemctl` is
//! replaced by a program that makes this process start and stop the service, with the same files
//! that the systemd unit names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use sukkal_domain::Token;
use tempfile::TempDir;

use super::read;
use support::certificates::{Authority, Certificate};
use support::ports::free_port;
use support::redis::{RedisServer, child_command, limit_files, spawn};
use support::waiting::block_until;

const PAGE: &str = "docs/runbook.md";
const INTRODUCTION: &str = "";
/// Size in bytes by which the file of a store may grow until the disk counts as full.
const SPARE_BYTES: u64 = 300_000;

/// Passes its argument to the test, and waits until that has done it.
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$1\" > \"$CONTROL/request\"\nread -r answer < \"$CONTROL/answer\"\n\
                         [ \"$answer\" = done ]\n";
/// Limits the file of the store, and posts until a post is refused.
const FILL_DISK: &str = r#"#!/bin/bash
set -eu
systemctl limit
body=$(head -c 50000 /dev/zero | tr '\0' x)
while curl -sf -o /dev/null -H "@$SUKKAL_CREDENTIALS_FILE" -H 'X-Project-ID: demo' -H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' \
    -H 'Content-Type: application/json' "$SUKKAL_URL/v2/queues/old-logs/messages" \
    -d "{\"messages\": [{\"body\": \"$body\"}]}"; do :; done
"#;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Store {
    Embedded,
    /// A Redis with these options.
    Redis(&'static [(&'static str, &'static str)]),
}

/// What the service requires of its clients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    /// Nothing.
    Open,
    /// TLS, and a token.
    Secured,
}

/// A block of code on the page, and what it shall print if the page shows that.
#[derive(Debug)]
struct Block {
    commands: String,
    expected: Option<String>,
}

/// Returns the blocks of the section with this heading.
fn blocks(section: &str) -> Vec<Block> {
    let (mut blocks, mut heading, mut open) = (Vec::<Block>::new(), String::new(), None::<(String, String)>);
    for line in read(PAGE).lines() {
        match &mut open {
            Some((language, text)) if line == "```" => {
                match language.as_str() {
                    _ if heading != section => {}
                    "sh" => blocks.push(Block { commands: text.clone(), expected: None }),
                    "text" => {
                        let block = blocks.last_mut().expect("output follows commands");
                        assert_eq!(block.expected.replace(text.clone()), None, "two outputs of {}", block.commands);
                    }
                    other => panic!("a block of {other:?}"),
                }
                open = None;
            }
            Some((_, text)) => writeln!(text, "{line}").unwrap(),
            None => {
                if let Some(language) = line.strip_prefix("```") {
                    open = Some((language.to_owned(), String::new()));
                } else if let Some(title) = line.strip_prefix("## ") {
                    title.clone_into(&mut heading);
                }
            }
        }
    }
    blocks
}

/// Returns whether an output is as expected. In the expected text, `…` stands for anything.
fn matches(output: &str, expected: &str) -> bool {
    let (output, expected) = (output.trim(), expected.trim());
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = output.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

/// A machine with the service: its files, and its process.
struct Machine {
    folder: TempDir,
    port: u16,
    redis: Option<RedisServer>,
    /// The authority of its certificate, if it requires TLS and a token.
    authority: Option<Authority>,
}

impl Machine {
    fn new(store: Store, access: Access) -> Self {
        let redis = match store {
            Store::Embedded => None,
            Store::Redis(options) => Some(RedisServer::start_with(options)),
        };
        let authority = (access == Access::Secured).then(Authority::new);
        let machine = Self { folder: tempfile::tempdir().unwrap(), port: free_port(), redis, authority };
        for folder in ["bin", "control", "etc", "lib", "backups", "work"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        let store = machine.redis.as_ref().map(|redis| format!("store = \"{}\"\n", redis.url())).unwrap_or_default();
        let secured = machine.authority.as_ref().map(|authority| machine.secure(authority)).unwrap_or_default();
        let options =
            format!("bind = \"127.0.0.1:{}\"\nadmin_mode = true\n{store}[janitor]\npause = 1\n{secured}", machine.port);
        fs::write(machine.path("etc/sukkal.toml"), options).unwrap();
        fs::write(machine.path("etc/secrets"), "").unwrap();
        for (name, text) in [("systemctl", SYSTEMCTL), ("fill-disk", FILL_DISK)] {
            let program = machine.path("bin").join(name);
            fs::write(&program, machine.localize(text)).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // A copy could not be executed while a process that another test starts has inherited its
        // file.
        symlink(support::sukkal::binary(), machine.path("bin/sukkal")).unwrap();
        machine
    }

    /// Writes the token of an administrator for the commands. Returns the options that require TLS
    /// and tokens.
    fn secure(&self, authority: &Authority) -> String {
        let token = Token::random().reveal();
        let Certificate { certificate, key } = authority.issue("server", "/CN=sukkal");
        fs::write(self.path("etc/credentials"), format!("Authorization: Bearer {}\n", *token)).unwrap();
        format!(
            "[auth]\nstrategies = [\"tokens\"]\n[policy]\npreset = \"roles\"\n[tokens]\nadmin_token = \"{}\"\n\
             [tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
            *token,
            certificate.display(),
            key.display()
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the paths and the addresses in commands by those of this machine.
    fn localize(&self, text: &str) -> String {
        let folder = |name: &str| self.path(name).display().to_string();
        let redis = self.redis.as_ref().map_or(0, RedisServer::port);
        let text = match &self.authority {
            None => text.to_owned(),
            Some(_) => text
                .replace("API=http:", "API=https:")
                .replace("CREDENTIALS=/dev/null", "CREDENTIALS=/etc/sukkal/credentials"),
        };
        text.replace("6390", &free_port().to_string())
            .replace("/etc/sukkal", &folder("etc"))
            .replace("/var/lib/sukkal", &folder("lib"))
            .replace("/var/backups", &folder("backups"))
            .replace("/usr/local/bin", &folder("bin"))
            .replace("127.0.0.1:8888", &format!("127.0.0.1:{}", self.port))
            .replace("127.0.0.1:6379", &format!("127.0.0.1:{redis}"))
    }

    /// Starts the service as the systemd unit does, and waits until it listens.
    fn start_service(&self) -> Child {
        let mut command = child_command(self.path("bin/sukkal"));
        command.args(["serve", "--config"]).arg(self.path("etc/sukkal.toml")).current_dir(self.path("lib"));
        for line in fs::read_to_string(self.path("etc/secrets")).unwrap().lines() {
            command.envs(line.split_once('='));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(self.path("log")).unwrap());
        let mut service = spawn(command).unwrap();
        block_until("the service listens", || {
            assert_eq!(service.try_wait().unwrap(), None, "{}", fs::read_to_string(self.path("log")).unwrap());
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        service
    }

    fn stop_service(service: &mut Child) {
        let kill = format!("kill -TERM {}", service.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        assert!(service.wait().unwrap().success());
    }

    /// Does what `systemctl` is asked for, one request at a time, until it is asked to end.
    fn serve_requests(&self) {
        let mut service = self.start_service();
        loop {
            let request = fs::read_to_string(self.path("control/request")).unwrap();
            match request.trim() {
                "start" => service = self.start_service(),
                "stop" => Self::stop_service(&mut service),
                "restart" => {
                    Self::stop_service(&mut service);
                    service = self.start_service();
                }
                "limit" => {
                    let length = fs::metadata(self.path("lib/sukkal-data/sukkal.redb")).unwrap().len();
                    limit_files(service.id(), Some(length + SPARE_BYTES));
                }
                "end" => break,
                other => panic!("systemctl {other}"),
            }
            fs::write(self.path("control/answer"), "done\n").unwrap();
        }
        let _dead_already = service.kill();
        let _reaped = service.wait();
    }

    /// Runs blocks in one shell. Returns what each printed; fewer if one failed.
    fn run(&self, blocks: &[Block]) -> (bool, Vec<String>) {
        let mut script = "set -euo pipefail\n".to_owned();
        for (number, block) in blocks.iter().enumerate() {
            let commands = self.localize(&block.commands);
            writeln!(script, "{{\n{commands}\n}} > {}/{number} 2>&1", self.path("control").display()).unwrap();
        }
        let script_path = self.path("control/script");
        fs::write(&script_path, script).unwrap();
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut shell = child_command("bash");
        shell.arg(&script_path).current_dir(self.path("work")).env("PATH", path).env("CONTROL", self.path("control"));
        if let Some(authority) = &self.authority {
            shell.env("CURL_CA_BUNDLE", authority.file()).env("SUKKAL_CACERT", authority.file());
        }
        let status = spawn(shell).unwrap().wait().unwrap();
        let output = |number: usize| fs::read_to_string(self.path("control").join(number.to_string())).ok();
        (status.success(), (0..blocks.len()).map_while(output).collect())
    }
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs a section of the page on a machine with this store.
fn run_section(section: &str, store: Store, access: Access) {
    let mut all = blocks(INTRODUCTION);
    assert_eq!(all.len(), 1, "the introduction defines variables");
    all.extend(blocks(section));
    assert!(all.len() > 1, "there is no section {section:?} with commands");
    let machine = Machine::new(store, access);
    for name in ["request", "answer"] {
        make_fifo(&machine.path("control").join(name));
    }

    let (succeeded, outputs) = thread::scope(|scope| {
        scope.spawn(|| machine.serve_requests());
        block_until("the service listens", || TcpStream::connect(("127.0.0.1", machine.port)).is_ok());
        let outcome = machine.run(&all);
        fs::write(machine.path("control/request"), "end").unwrap();
        outcome
    });

    for (block, output) in all.iter().zip(&outputs) {
        if let Some(expected) = block.expected.as_ref().filter(|expected| !matches(output, expected)) {
            panic!("{}prints\n{output}\nand not\n{expected}", block.commands);
        }
    }
    let failed = &all[outputs.len() - 1].commands;
    let log = fs::read_to_string(machine.path("log")).unwrap();
    assert!(succeeded, "{failed}fails:\n{}\nThe log:\n{log}", outputs[outputs.len() - 1]);
}

macro_rules! sections {
    ($($name:ident: $section:literal, $store:expr;)+) => {
        $(#[test]
        fn $name() {
            for access in [Access::Open, Access::Secured] {
                run_section($section, $store, access);
            }
        })+

        #[test]
        fn every_section_of_the_runbook_is_run() {
            let tested = BTreeSet::from([$($section.to_owned()),+]);
            let page = read(PAGE);
            let sections: BTreeSet<String> =
                page.lines().filter_map(|line| line.strip_prefix("## ").map(str::to_owned)).collect();
            assert_eq!(sections, tested);
        }
    };
}

sections! {
    an_embedded_store_is_backed_up_and_restored: "Back up and restore an embedded store", Store::Embedded;
    redis_is_backed_up_and_restored: "Back up and restore Redis", Store::Redis(&[]);
    a_service_is_upgraded: "Upgrade", Store::Embedded;
    a_queue_moves_again: "A queue does not move", Store::Redis(&[]);
    a_poison_message_is_moved_away_and_back: "A poison message", Store::Redis(&[]);
    deliveries_that_fail_are_found_and_continued: "Deliveries to subscribers fail", Store::Redis(&[]);
    deliveries_that_are_late_are_explained: "Deliveries to subscribers are late", Store::Redis(&[]);
    a_pool_that_was_down_is_repaired: "A pool is down", Store::Redis(&[]);
    a_full_redis_gets_space: "Redis is full",
        Store::Redis(&[("maxmemory", "24mb"), ("maxmemory-policy", "noeviction")]);
    a_full_disk_gets_space: "The disk is full", Store::Embedded;
    leaked_keys_are_replaced: "A key leaked", Store::Redis(&[]);
}

#[test]
fn an_ellipsis_matches_anything() {
    for (output, expected) in [("a", "a"), ("abc", "a…c"), ("a\nb\nc", "…b…"), ("", "…"), ("aXbYc", "a…b…c")]
    {
        assert!(matches(output, expected), "{output} {expected}");
    }
    for (output, expected) in [("ab", "a"), ("abc", "b…c"), ("abc", "a…b"), ("", "a"), ("acb", "a…b…c")] {
        assert!(!matches(output, expected), "{output} {expected}");
    }
}
