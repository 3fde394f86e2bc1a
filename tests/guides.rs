//! The commands of the README and the guides run as they stand there, one after the other in one
//! shell, and none is refused or warned about.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::redis::child_command;
use support::sukkal::{Sukkal, binary};

/// The address of the service in the pages.
const ADDRESS: &str = "127.0.0.1:8888";
/// Fails if the service refuses a request or warns about it. A stream ends after two seconds.
const CURL: &str = r#"
curl() {
    local code=0
    case " $* " in
    *" -N "*) timeout 2 curl --fail-with-body -sS -D headers "$@" || code=$? ;;
    *) timeout 60 curl --fail-with-body -sS -D headers "$@" || code=$? ;;
    esac
    if [ $code = 124 ]; then code=0; fi
    if grep -i '^sukkal-warning' headers; then code=1; fi
    return $code
}
"#;
/// Posts some messages, and takes one, as the text asks for before some of the commands.
const WITH_MESSAGES: &str = r#"
if [ -n "${QUEUE:-}" ]; then
    poster='Client-ID: 3381af92-2b9e-11e3-b191-71861300734c'
    json='Content-Type: application/json'
    posts() { command curl -sS -o /dev/null -H "$poster" -H "$PROJECT" -H "$json" "$QUEUE/messages" \
        -d '{"messages": [{"body": 1, "ttl": 600}, {"body": 2, "ttl": 600}]}'; }
    posts
    (sleep 1; posts) &
    HREF=$(command curl -sS -X POST -H "$poster" -H "$PROJECT" "$QUEUE/claims?limit=1" | grep -o '/v2/[^"]*')
    CLAIM=${HREF#*claim_id=}
    MESSAGE=$(basename "${HREF%%\?*}")
fi
"#;

struct Page {
    path: &'static str,
    options: &'static [(&'static str, &'static str)],
    /// Commands that run before each block.
    before: &'static str,
    /// Beginnings of blocks that other tests run, or that need something which a test does not
    /// have.
    elsewhere: &'static [&'static str],
}

const NONE: Page = Page { path: "", options: &[], before: "", elsewhere: &[] };

const PAGES: [Page; 12] = [
    Page {
        path: "README.md",
        // `make` runs the tests; `compose` is a test of its own.
        elsewhere: &["make run", "echo \"REDIS_PASSWORD="],
        ..NONE
    },
    Page {
        path: "docs/workers-and-claims.md",
        before: r#"
if [ -n "${QUEUE:-}" ]; then
    dead=${QUEUE%/*}/failed-jobs
    command curl -sS -o /dev/null -X PUT -H "$CLIENT" -H "$PROJECT" "$dead"
    TASK=$(command curl -sS -H "$CLIENT" -H "$PROJECT" "$dead/tasks" | grep -o '"id": *"[^"]*' | grep -o '[^"]*$' || true)
fi
"#,
        ..NONE
    },
    Page { path: "docs/waiting-and-streams.md", ..NONE },
    Page { path: "docs/queue-statistics.md", ..NONE },
    Page { path: "docs/topics.md", ..NONE },
    Page {
        path: "docs/push.md",
        options: &[("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.1")],
        elsewhere: &["SUKKAL_PUSH__ALLOWED_NETWORKS=127.0.0.1 make run"],
        ..NONE
    },
    Page {
        path: "docs/quotas.md",
        options: &[("SUKKAL_ADMIN_MODE", "true")],
        before: r"
CLIENT='Client-ID: 3381af92-2b9e-11e3-b191-71861300734c'
PROJECT='X-Project-ID: demo'
SUKKAL=http://127.0.0.1:8888
",
        ..NONE
    },
    Page { path: "docs/fair-queues.md", ..NONE },
    Page {
        path: "docs/security.md",
        options: &[
            ("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret key of at least 32 bytes"),
            ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "a passphrase of at least 32 bytes"),
        ],
        before: r#"
command curl -sS -o /dev/null -X PUT -H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' -H 'X-Project-ID: demo' \
    http://127.0.0.1:8888/v2/queues/hello
SIGNATURE=$(command curl -sS -H 'Client-ID: 3381af92-2b9e-11e3-b191-71861300734c' -H 'X-Project-ID: demo' \
    -H 'Content-Type: application/json' http://127.0.0.1:8888/v2/queues/hello/share \
    -d '{"paths": ["messages"], "methods": ["GET", "POST"], "expires": "2030-01-01T00:00:00"}' |
    grep -o '"signature": *"[^"]*' | grep -o '[^"]*$')
"#,
        // Keystone, and another service on the same port.
        elsewhere: &["openstack user create", "export SUKKAL_TRANSPORT__DEFAULT_PROJECT"],
    },
    Page {
        path: "docs/mail.md",
        options: &[
            ("SUKKAL_MAIL__HOST", "localhost"),
            ("SUKKAL_MAIL__SENDER", "sukkal@example.com"),
            ("SUKKAL_MAIL__API_URL", "https://sukkal.example"),
            ("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret key of at least 32 bytes"),
        ],
        ..NONE
    },
    Page {
        path: "docs/clients.md",
        // `clients::generated` and `clients::openstack` run them.
        elsewhere: &["SUKKAL_TRANSPORT__DEFAULT_PROJECT=demo", "pip install", "npm init", "python3 -m venv"],
        ..NONE
    },
    Page {
        path: "docs/command-line.md",
        options: &[("SUKKAL_ADMIN_MODE", "true"), ("SUKKAL_AUTH__STRATEGIES", "none,tokens")],
        before: "SUKKAL_PROJECT=demo\n",
        // Pools are tested by `pools::`, and `man` opens a pager.
        elsewhere: &["sukkal pool put", "source <("],
    },
];

/// Pages whose commands need other servers, or folders of a system. `operations::runbook` and
/// `pools::` run them as they stand there. `migration::`, `faults::durability`, `cli::tls`,
/// `access_control` and the tests of each subcommand run commands like those of the other three
/// pages.
const ELSEWHERE: [&str; 5] =
    ["docs/runbook.md", "docs/pools.md", "docs/migration.md", "docs/durability.md", "docs/operating.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the blocks of commands of a page.
fn blocks(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    text.split("\n```sh\n").skip(1).map(|rest| rest.split_once("\n```").unwrap().0.to_owned()).collect()
}

/// Runs the blocks of a page. Returns the output of the shell if one of them fails.
fn failure(page: &Page) -> Option<String> {
    let blocks = blocks(page.path);
    for beginning in page.elsewhere {
        assert!(blocks.iter().any(|block| block.starts_with(beginning)), "{} has no block {beginning}", page.path);
    }
    let sukkal = Sukkal::start_with("memory:", page.options);
    let mut script = format!("exec 2>&1\nset -euo pipefail\n{CURL}");
    for block in blocks.iter().filter(|block| !page.elsewhere.iter().any(|beginning| block.starts_with(beginning))) {
        writeln!(script, "{WITH_MESSAGES}\n{}\ncat <<'BLOCK'\n$ {block}\nBLOCK\n{block}", page.before).unwrap();
    }
    let (home, folder) = (tempfile::tempdir().unwrap(), binary().parent().unwrap().display());
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut bash = child_command("bash");
    bash.args(["--norc", "--noprofile", "-c", &script.replace(ADDRESS, sukkal.address())]).current_dir(&home);
    bash.env("HOME", home.path()).env("PATH", path).env("SUKKAL_URL", sukkal.url("")).stdin(Stdio::null());
    let output = bash.output().expect("bash is installed");
    (!output.status.success()).then(|| format!("{}:\n{}", page.path, String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn the_commands_of_the_guides_work() {
    let failures: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = PAGES.iter().map(|page| scope.spawn(|| failure(page))).collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });

    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_page_with_commands_is_tested() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = docs.map(|name| format!("docs/{}", name.to_str().unwrap())).chain(["README.md".to_owned()]);
    let untested: Vec<String> = pages
        .filter(|page| {
            Path::new(page).extension().is_some_and(|extension| extension == "md") && !blocks(page).is_empty()
        })
        .filter(|page| !ELSEWHERE.contains(&&**page) && !PAGES.iter().any(|tested| tested.path == page))
        .collect();

    assert_eq!(untested, [""; 0]);
}
