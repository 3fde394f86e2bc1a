//! What transcripts cannot show about the client: lost connections, terminals, signals and secrets.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::stand_in::{Answer, StandIn};
use crate::http::{feed, post_as};
use support::ports::free_port;
use support::proxy::Proxy;
use support::redis::{child_command, spawn};
use support::sukkal::{Sukkal, binary};
use support::waiting::{POLL_TIMEOUT, block_until, until};

/// Starts a program on a terminal of its own, with 100 columns.
const ON_A_TERMINAL: &str = "\
import fcntl, os, pty, struct, sys, termios
def main():
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 100, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
process, terminal = pty.fork()
if process == 0:
    main()
os.write(terminal, sys.stdin.buffer.read())
output = b''
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    output += part
sys.stdout.buffer.write(output)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
";

/// Starts a program that Ctrl-C ends, even if the tests run in the background of a shell. Programs
/// there ignore it, and so do their children.
const WITH_SIGINT: &str = "\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
";

pub(super) fn command(url: &str, words: &str) -> Command {
    let mut command = child_command(binary());
    command.args(words.split(' ')).env("SUKKAL_URL", url).stdin(Stdio::null());
    command
}

pub(super) fn run(url: &str, words: &str) -> Output {
    command(url, words).output().expect("the binary under test starts")
}

/// The lines that a command prints, each of which must arrive in time.
struct Lines(mpsc::Receiver<String>);

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(POLL_TIMEOUT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the command prints no line within {POLL_TIMEOUT:?}"),
        }
    }
}

/// Starts a command whose output is read line by line.
fn start(mut command: Command) -> (Child, Lines) {
    let mut child = spawn({
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    })
    .expect("the binary under test starts");
    let printed = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || printed.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    (child, Lines(lines))
}

/// Waits until a command has ended by itself.
fn end(mut child: Child) -> ExitStatus {
    let mut status = None;
    block_until("the command ends", || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    status.expect("it has ended")
}

/// Runs a command on a terminal, where a person types `input`. Returns the exit code and the
/// screen.
pub(super) fn run_on_terminal(
    url: &str,
    words: &str,
    input: &str,
    environment: &[(&str, &str)],
) -> (Option<i32>, String) {
    let mut python = child_command("python3");
    python.args(["-c", ON_A_TERMINAL]).arg(binary()).args(words.split(' ')).env("SUKKAL_URL", url).env("TERM", "xterm");
    python.env_remove("NO_COLOR").envs(environment.iter().copied());
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(python).expect("python3 is installed");
    child.stdin.take().expect("stdin is piped").write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stdout))
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_response_is_lost_is_stored_once() {
    let sukkal = Sukkal::start("memory:");
    let proxy = Proxy::start(sukkal.address().parse().unwrap());
    proxy.drop_replies(2);

    let output = run(&proxy.url("http"), "message post orders 1 2 3");

    assert!(output.status.success(), "{output:?}");
    assert_eq!(proxy.replies_to_drop(), 0);
    assert!(
        text(&output.stderr).contains("was lost: ") && text(&output.stderr).contains("; trying again"),
        "{output:?}"
    );
    assert_eq!(feed(&sukkal.project("demo"), "orders", "").await, ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_response_is_lost_is_not_repeated() {
    let sukkal = Sukkal::start("memory:");
    let proxy = Proxy::start(sukkal.address().parse().unwrap());
    post_as(&sukkal.project("demo"), "orders", &[json!(1)]).await;
    proxy.drop_replies(1);

    let output = run(&proxy.url("http"), "claim take orders");

    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(text(&output.stderr).contains("it is unknown whether the request had an effect"), "{output:?}");
    assert_eq!(proxy.replies_to_drop(), 0);
}

#[test]
fn a_request_is_repeated_while_the_service_is_unavailable() {
    let requests = Arc::new(AtomicU64::new(0));
    let counted = requests.clone();
    let stand_in = StandIn::start(move |_, _| {
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        let body = r#"{"title": "Service temporarily unavailable", "description": "No store."}"#.to_owned();
        Answer { status: if is_first { 503 } else { 200 }, body, ..Answer::default() }
    });
    let folder = tempfile::tempdir().unwrap();
    let backup = format!("backup {}", folder.path().join("backup").display());

    let patient = ["ping", &backup].map(|command| {
        requests.store(0, Ordering::Relaxed);
        run(stand_in.url(), command)
    });
    requests.store(0, Ordering::Relaxed);
    let impatient = run(stand_in.url(), "ping --retry 0");
    requests.store(0, Ordering::Relaxed);
    let not_repeatable = run(stand_in.url(), "claim take orders");

    let unavailable = "sukkal: the service is unavailable (503): No store.";
    for output in patient {
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stderr), format!("{unavailable}; trying again\n"));
    }
    for output in [impatient, not_repeatable] {
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert_eq!(text(&output.stderr), format!("{unavailable}\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_posted_as_they_arrive() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("demo");
    let mut command = command(&sukkal.url(""), "message post orders");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(command).unwrap();
    let mut stdin = child.stdin.take().unwrap();

    for (index, line) in ["first", "second"].into_iter().enumerate() {
        writeln!(stdin, "{line}").unwrap();
        let is_posted = async || feed(&api, "orders", "").await.len() > index;
        until("the line is posted before the next one is written", is_posted).await;
    }
    drop(stdin);

    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "posted 2 messages to orders\n");
}

/// Posts numbers one by one, with a fault after some of them.
async fn post_with_faults(sukkal: &mut Sukkal, store: &str, proxy: &Proxy, numbers: std::ops::Range<u64>) {
    let mut api = sukkal.project("demo");
    for number in numbers {
        match number % 100 {
            20 | 45 => proxy.cut(),
            60 => {
                proxy.refuse();
                proxy.cut();
            }
            70 => proxy.restore(),
            90 => {
                let address = sukkal.address().parse().unwrap();
                sukkal.kill();
                *sukkal = Sukkal::start_at(store, address);
                api = sukkal.project("demo");
            }
            _ => {}
        }
        post_as(&api, "orders", &[json!(number)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_prints_each_message_once_over_any_number_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().display());
    // No outgoing connection gets this port while the service restarts.
    let mut sukkal = Sukkal::start_at(&store, SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let proxy = Proxy::start(sukkal.address().parse().unwrap());
    let (tail, mut lines) = start(command(&proxy.url("http"), "message tail orders --json --limit 300"));
    let body_of = |line: String| serde_json::from_str::<Value>(&line).unwrap()["body"].clone();

    // Until the first line arrives, the tail may not have begun.
    let reader = thread::spawn(move || (body_of(lines.next().unwrap()), lines));
    let mut next = 0;
    while !reader.is_finished() {
        post_as(&sukkal.project("demo"), "orders", &[json!(next)]).await;
        next += 1;
    }
    let (first, lines) = reader.join().unwrap();
    let first = first.as_u64().unwrap();
    post_with_faults(&mut sukkal, &store, &proxy, next..next.max(first + 300)).await;
    proxy.restore();

    let seen: Vec<Value> = std::iter::once(first.into()).chain(lines.map(body_of)).collect();
    let expected: Vec<Value> = (first..first + 300).map(Value::from).collect();
    assert_eq!(seen, expected);
    assert!(end(tail).success());
}

#[test]
fn a_tail_continues_from_its_start_if_the_first_connection_is_lost_without_a_message() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let log = paths.clone();
    let stand_in = StandIn::start(move |_, path| {
        log.lock().unwrap().push(path.to_owned());
        let link = r#"{"rel": "next", "href": "/v2/queues/orders/messages?since=2026-11-22T12%3A00%3A00.000001Z"}"#;
        Answer { status: 200, body: format!(r#"{{"messages": [], "links": [{link}]}}"#), ..Answer::default() }
    });

    let output = run(stand_in.url(), "message tail orders");

    let queue = "/v2/queues/orders";
    let feed = |since: &str| format!("{queue}/messages?echo=true&include_claimed=true&since={since}");
    let expected = [queue.to_owned(), feed("now"), feed("2026-11-22T12%3A00%3A00.000001Z")];
    assert_eq!(*paths.lock().unwrap(), expected);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), format!("sukkal: {} has no event streams\n", stand_in.url()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_tail_with_130() {
    let sukkal = Sukkal::start("memory:");
    post_as(&sukkal.project("demo"), "orders", &[json!(1)]).await;
    let mut python = child_command("python3");
    python.args(["-c", WITH_SIGINT]).arg(binary()).args(["message", "tail", "orders", "--all"]);
    python.env("SUKKAL_URL", sukkal.url("")).stdin(Stdio::null());
    let (tail, mut lines) = start(python);
    lines.next().expect("the tail prints the message");

    Command::new("kill").args(["-INT", &tail.id().to_string()]).status().expect("kill is installed");

    // Shells turn the signal into the exit code 128 + 2.
    assert_eq!(end(tail).signal(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_terminal_gets_colors_and_lines_that_fit() {
    let sukkal = Sukkal::start("memory:");
    let long = "x".repeat(200);
    run(&sukkal.url(""), &format!("message post orders {long}"));

    let (_, colored) = run_on_terminal(&sukkal.url(""), "message ls orders", "", &[]);
    let (_, plain) = run_on_terminal(&sukkal.url(""), "message ls orders", "", &[("NO_COLOR", "1")]);
    let piped = text(&run(&sukkal.url(""), "message ls orders").stdout);

    assert!(colored.starts_with("\x1b[1mID\x1b[0m") && colored.contains("x…"), "{colored:?}");
    assert!(plain.starts_with("ID") && !plain.contains('\x1b'), "{plain:?}");
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    assert!(piped.starts_with("ID") && piped.contains(&long), "{piped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_asked_before_messages_are_deleted() {
    let sukkal = Sukkal::start("memory:");
    let url = sukkal.url("");
    run(&url, "message post orders 1");

    let (refused, screen) = run_on_terminal(&url, "queue purge orders", "n\n", &[]);
    let left = feed(&sukkal.project("demo"), "orders", "").await;
    let (confirmed, _) = run_on_terminal(&url, "queue purge orders", "y\n", &[]);

    assert!(screen.contains("Delete all messages of queue orders? [y/N] "), "{screen}");
    assert_eq!((refused, left), (Some(1), vec![json!("1")]));
    assert_eq!(confirmed, Some(0));
    assert!(feed(&sukkal.project("demo"), "orders", "").await.is_empty());
}

/// Accepts the requests on one connection, and returns the head of the first one.
fn head_of_a_request(send: impl FnOnce(&str) -> Output) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let mut next = || lines.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        let first = next();
        loop {
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            if next().is_empty() {
                return first;
            }
        }
    });
    let output = send(&url);
    assert!(output.status.success(), "{output:?}");
    server.join().unwrap()
}

#[test]
fn a_new_subscriber_that_must_confirm_is_mentioned() {
    let confirmation = [
        ("SUKKAL_PUSH__REQUIRE_CONFIRMATION", "true"),
        ("SUKKAL_SIGNED_URL__SECRET_KEY", "a key that is long enough for any purpose"),
    ];
    let sukkal = Sukkal::start_with("memory:", &confirmation);
    let url = sukkal.url("");
    let created = run(&url, "subscription create orders https://hooks.example.com/1 --json");
    let created: Value = serde_json::from_slice(&created.stdout).unwrap();
    let id = created["subscription_id"].as_str().unwrap();

    let changed = run(&url, &format!("subscription set orders {id} --subscriber https://hooks.example.com/2"));

    let expected = format!("changed subscription {id}; nothing is sent until the new subscriber confirms\n");
    assert_eq!(text(&changed.stdout), expected, "{changed:?}");
}

#[test]
fn credentials_come_from_a_file_or_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "hush\n").unwrap();

    let of_file = head_of_a_request(|url| run(url, &format!("ping --credentials-file {}", file.display())));
    let of_variable = head_of_a_request(|url| {
        let lines = "X-Auth-Token: hush\nX-Roles: operator";
        command(url, "ping --project acme").env("SUKKAL_CREDENTIALS", lines).output().unwrap()
    });

    assert!(of_file.contains("\nauthorization: Bearer hush"), "{of_file}");
    // A token may be for another project, which X-Tenant does not contradict.
    assert!(of_file.contains("\nx-tenant: demo") && !of_file.contains("x-project-id"), "{of_file}");
    for line in ["x-auth-token: hush", "x-roles: operator", "x-project-id: acme"] {
        assert!(of_variable.lines().any(|header| header == line), "{of_variable}");
    }
}

/// A service that verifies no tokens takes the role from the header.
#[test]
fn a_role_is_sent_beside_a_token_too() {
    for (credentials, role) in [("", "admin"), ("hush", "admin"), ("X-Auth-Token: hush\nX-Roles: operator", "operator")]
    {
        let head = head_of_a_request(|url| {
            command(url, "flavor rm fast").env("SUKKAL_CREDENTIALS", credentials).output().unwrap()
        });
        assert!(head.contains(&format!("\nx-roles: {role}")), "{credentials}: {head}");
    }
}

#[test]
fn credentials_are_sent_only_to_the_url_that_they_came_with() {
    let home = tempfile::tempdir().unwrap();
    let with_home = |mut command: Command| {
        command.env("XDG_CONFIG_HOME", home.path());
        command
    };
    let mut add =
        with_home(command("", "context add prod --url http://127.0.0.1:1 --project acme --credentials-stdin"));
    let mut child = spawn({
        add.stdin(Stdio::piped()).stdout(Stdio::null());
        add
    })
    .unwrap();
    child.stdin.take().unwrap().write_all(b"hush").unwrap();
    assert!(child.wait().unwrap().success());

    let by_variable = head_of_a_request(|url| with_home(command(url, "ping")).output().unwrap());
    let by_flag = head_of_a_request(|url| with_home(command("", &format!("ping --url {url}"))).output().unwrap());
    let instead_of_variable = head_of_a_request(|url| {
        let mut ping = command("http://127.0.0.1:1", &format!("ping --url {url}"));
        ping.env("SUKKAL_CREDENTIALS", "hush").output().unwrap()
    });

    for head in [by_variable, by_flag, instead_of_variable] {
        assert!(!head.contains("hush") && head.contains("\nx-project-id: demo"), "{head}");
    }
}

/// Serves `/v2/ping` with TLS on a free port, which it prints.
const TLS_SERVER: &str = "\
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

#[test]
fn a_service_with_tls_must_have_a_trusted_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut openssl = child_command("openssl");
    openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test".split(' '));
    openssl.args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(path("key")).arg("-out").arg(path("certificate"));
    assert!(openssl.output().expect("openssl is installed").status.success());
    let mut python = child_command("python3");
    python.args(["-c", TLS_SERVER]).args([path("certificate"), path("key")]).stderr(Stdio::null());
    let (mut server, mut lines) = start(python);
    let url = format!("https://127.0.0.1:{}", lines.next().expect("the server prints its port"));

    let trusted = command(&url, "ping").env("SSL_CERT_FILE", path("certificate")).output().unwrap();
    let untrusted = run(&url, "ping");

    assert!(trusted.status.success(), "{trusted:?}");
    assert_eq!(untrusted.status.code(), Some(5), "{untrusted:?}");
    assert!(text(&untrusted.stderr).contains("is not trusted, because its issuer is unknown"), "{untrusted:?}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_log_has_colors_on_a_terminal_only() {
    // The port is in use, so the service ends after its warnings.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let words = format!("serve --store memory: --bind {}", taken.local_addr().unwrap());
    let environment = [("SUKKAL_LOG__FORMAT", "text"), ("SUKKAL_STROE", "x")];

    let piped = command("", &words).envs(environment).output().unwrap();
    let log = text(&piped.stderr);
    let (_, screen) = run_on_terminal("", &words, "", &environment);

    assert!(log.contains(" WARN ") && !log.contains('\u{1b}'), "{log:?}");
    assert!(screen.contains("WARN") && screen.contains('\u{1b}'), "{screen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_shows_its_progress_on_a_terminal_only() {
    let sukkal = Sukkal::start("memory:");
    let url = sukkal.url("");
    run(&url, "queue create orders");
    for word in ["1", "2"] {
        run(&url, &format!("message post failed {word}"));
    }

    let (code, screen) = run_on_terminal(&url, "dead redrive failed --to orders --limit 1", "", &[]);
    let piped = run(&url, "dead redrive failed --to orders");

    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("━") && screen.contains("moved 1 message"), "{screen:?}");
    assert_eq!((text(&piped.stdout), text(&piped.stderr)), ("moved 1 message\n".to_owned(), String::new()));
}

#[test]
fn the_help_names_every_key_that_the_service_uses() {
    let guide = std::fs::read_to_string(support::root().join("docs/compatibility.md")).unwrap();
    let (_, table) = guide.split_once("## Queue metadata").expect("the guide lists the keys");
    let rows = table.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `_"));
    let keys: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let help = text(&run("", "queue create --help").stdout);
    let words: Vec<&str> = help.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).collect();

    assert!(keys.len() > 10, "{keys:?}");
    for key in keys {
        assert!(words.contains(&&*format!("_{key}")), "_{key}: {help}");
    }
}
