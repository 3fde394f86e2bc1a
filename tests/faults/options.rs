//! Options: invalid ones are refused with one line, and valid ones take effect from every source.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use serde_json::json;

use super::process::refused;
use support::redis::RedisServer;
use support::sukkal::{CLIENT, Sukkal};

/// Options, and the message about them. `FILE` stands for the path of a file with these options.
#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn a_bad_option_is_refused_in_one_line() {
    const FILE: &str = "FILE";
    const ADDRESS: &str =
        "it must be HOST:PORT, :PORT or PORT, with a port from 0 to 65535, for example --bind 127.0.0.1:8888";
    const STORES: &str =
        "it must be embedded:PATH, memory:, or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://";
    const ORIGINS: &str = "it must be \"*\" or a list of origins such as \"http://localhost:3000\", each with its scheme and \
                           host, and its port unless that is the default, in lower case";
    const REDIS: &str = "a valid one is redis://USER:PASSWORD@HOST:6379";
    let (flag, variable, file) = (
        |name: &'static str, value: &'static str| (vec![name, value], None, ""),
        |name: &'static str, value: &'static str| (vec![], Some((name, value)), ""),
        |text: &'static str| (vec!["--config", FILE], None, text),
    );

    for ((arguments, variable, text), expected) in [
        (flag("--bind", "nowhere"), &format!("--bind is \"nowhere\" (on the command line); {ADDRESS}")[..]),
        (flag("--bind", "127.0.0.1"), &format!("--bind is \"127.0.0.1\" (on the command line); {ADDRESS}")),
        (flag("--bind", "localhost:65536"), &format!("--bind is \"localhost:65536\" (on the command line); {ADDRESS}")),
        (
            flag("--bind", "http://localhost:80"),
            &format!("--bind is \"http://localhost:80\" (on the command line); {ADDRESS}"),
        ),
        (
            variable("SUKKAL_BIND", "::1"),
            "SUKKAL_BIND is \"::1\" (in the environment); it must be HOST:PORT, :PORT or PORT, with a port from 0 to 65535, for example \
             SUKKAL_BIND=127.0.0.1:8888",
        ),
        (
            file("bind = 8888"),
            "bind is 8888 (in FILE, line 1, column 1); it must be HOST:PORT, :PORT or PORT, with a port from 0 to 65535, for example \
             bind = \"127.0.0.1:8888\"",
        ),
        (
            flag("--store", "redis//:secret@h"),
            &format!(
                "--store is not accepted (on the command line): not a Redis address: it does not begin with redis://; {REDIS}"
            ),
        ),
        (flag("--store", "./data"), &format!("--store is not accepted (on the command line): {STORES}")),
        (
            variable("SUKKAL_STORE", "redis://"),
            &format!("SUKKAL_STORE is not accepted (in the environment): not a Redis address: it has no host; {REDIS}"),
        ),
        (
            file("store = \"redis-sentinel://:secret@h:1\""),
            &format!(
                "store is not accepted (in FILE, line 1, column 1): not a Redis address: the master's name is \
                 missing after the hosts; {REDIS}"
            ),
        ),
        (
            file("\n[signed_url]\n  secret_key = 4242"),
            "signed_url.secret_key is not accepted (in FILE, line 3, column 3): it must be text in quotes",
        ),
        (
            variable("SUKKAL_ADMIN_MODE", "perhaps"),
            "SUKKAL_ADMIN_MODE is \"perhaps\" (in the environment); it must be true or false, for example \
             SUKKAL_ADMIN_MODE=false",
        ),
        (
            file("admin_mode = 3"),
            "admin_mode is 3 (in FILE, line 1, column 1); it must be true or false, for example admin_mode = false",
        ),
        (
            variable("SUKKAL_DRAIN_TIMEOUT", "-1"),
            "SUKKAL_DRAIN_TIMEOUT is -1 (in the environment); it must be an integer from 0 to 31622400, in seconds, \
             for example SUKKAL_DRAIN_TIMEOUT=30",
        ),
        (
            variable("SUKKAL_THREADS", "many"),
            "SUKKAL_THREADS is \"many\" (in the environment); it must be an integer from 0 to 1024, for example \
             SUKKAL_THREADS=0",
        ),
        (
            variable("SUKKAL_LOG__FILTER", "warning"),
            "SUKKAL_LOG__FILTER is \"warning\" (in the environment); it must be error, warn, info, debug or trace, or a \
             list with levels for modules, for example SUKKAL_LOG__FILTER=info,fred=error,h2=error,rustls=error",
        ),
        (
            file("[log]\nformat = \"xml\""),
            "log.format is \"xml\" (in FILE, line 2, column 1); it must be \"auto\" or \"text\" or \"json\", for example \
             format = \"auto\"",
        ),
        (
            file("[transport]\nstream_heartbeat = 0"),
            "transport.stream_heartbeat is 0 (in FILE, line 2, column 1); it must be an integer from 1 to 3600, in \
             seconds, for example stream_heartbeat = 15",
        ),
        (
            variable("SUKKAL_QUOTAS__RATE_LIMIT_STATUS", "500"),
            "SUKKAL_QUOTAS__RATE_LIMIT_STATUS is 500 (in the environment); it must be 503 or 429, for example \
             SUKKAL_QUOTAS__RATE_LIMIT_STATUS=503",
        ),
        (
            variable("SUKKAL_QUOTAS__PROJECTS_FILE", "/no/such/file"),
            "SUKKAL_QUOTAS__PROJECTS_FILE is \"/no/such/file\" (in the environment); the file cannot be read: No such \
             file or directory (os error 2)",
        ),
        (
            variable("SUKKAL_TRANSPORT__MAX_WAIT", "100000"),
            "SUKKAL_TRANSPORT__MAX_WAIT is 100000 (in the environment); it must be an integer from 0 to 3600, in \
             seconds, for example SUKKAL_TRANSPORT__MAX_WAIT=30",
        ),
        (
            file("[transport]\nmax_messages_per_post = 1001"),
            "transport.max_messages_per_post is 1001 (in FILE, line 2, column 1); it must be an integer from 1 to 1000, \
             for example max_messages_per_post = 1000",
        ),
        (
            file("[transport]\nmax_message_ttl = 4294967295"),
            "transport.max_message_ttl is 4294967295 (in FILE, line 2, column 1); it must be an integer from 60 to \
             31622400, in seconds, for example max_message_ttl = 1209600",
        ),
        (
            file("transport.default_message_ttl = 2_000_000"),
            "transport.default_message_ttl is 2000000 (in FILE, line 1, column 11); it must not be more than \
             transport.max_message_ttl, which is 1209600 (the default)",
        ),
        (
            (
                vec!["--config", FILE],
                Some(("SUKKAL_TRANSPORT__DEFAULT_CLAIM_GRACE", "90")),
                "[transport]\nmax_claim_grace = 80",
            ),
            "SUKKAL_TRANSPORT__DEFAULT_CLAIM_GRACE is 90 (in the environment); it must not be more than \
             transport.max_claim_grace, which is 80 (in FILE, line 2, column 1)",
        ),
        (
            variable("SUKKAL_TRANSPORT__DEFAULT_CLAIM_TTL", "43201"),
            "SUKKAL_TRANSPORT__DEFAULT_CLAIM_TTL is 43201 (in the environment); it must not be more than \
             transport.max_claim_ttl, which is 43200 (the default)",
        ),
        (
            variable("SUKKAL_TRANSPORT__DEFAULT_MESSAGE_DELAY", "901"),
            "SUKKAL_TRANSPORT__DEFAULT_MESSAGE_DELAY is 901 (in the environment); it must not be more than \
             transport.max_message_delay, which is 900 (the default)",
        ),
        (
            variable("SUKKAL_TRANSPORT__MIN_LENGTH_CLIENT_ID", "37"),
            "SUKKAL_TRANSPORT__MIN_LENGTH_CLIENT_ID is 37 (in the environment); it must not be more than \
             transport.max_length_client_id, which is 36 (the default)",
        ),
        (
            variable("SUKKAL_TOKENS__ADMIN_TOKEN", "skt_hush"),
            "SUKKAL_TOKENS__ADMIN_TOKEN is not accepted (in the environment): it must be a token that `sukkal token \
             generate` has printed, or empty",
        ),
        (
            variable("SUKKAL_AUDIT__FILE", "/nowhere/audit.log"),
            "file in [audit]: cannot open /nowhere/audit.log: No such file or directory (os error 2)",
        ),
        (
            variable("SUKKAL_AUDIT__FILE", "/dev/null"),
            "file in [audit]: cannot open /dev/null: it is not a regular file",
        ),
        (
            file("auth.strategies = [\"tokens\"]\npolicy.preset = \"roles\"\ntokens.admin_token_file = \"/nowhere\""),
            "admin_token_file in [tokens]: cannot read /nowhere: No such file or directory (os error 2)",
        ),
        (
            file("[metrics]\nqueues = [\"orders\"]"),
            "metrics.queues is [\"orders\"] (in FILE, line 2, column 1); it must be a list of at most 500 queues, each \
             as \"PROJECT/QUEUE\" or \"PROJECT/*\"",
        ),
        (
            variable("SUKKAL_JWT__ALGORITHMS", "RS256, HS256"),
            "SUKKAL_JWT__ALGORITHMS is [\"RS256\", \"HS256\"] (in the environment); it must be a list of \"RS256\", \
             \"RS384\", \"RS512\", \"PS256\", \"PS384\", \"PS512\", \"ES256\", \"ES384\", \"EdDSA\", for example \
             SUKKAL_JWT__ALGORITHMS=RS256,ES256,EdDSA",
        ),
        (
            file("[jwt]\nroles_claim = \"\""),
            "jwt.roles_claim is \"\" (in FILE, line 2, column 1); it must be a text that is not empty, for example \
             roles_claim = \"roles\"",
        ),
        (
            file("[jwt]\naudience = [\"\"]"),
            "jwt.audience is [\"\"] (in FILE, line 2, column 1); it must be a list of texts that are not empty",
        ),
        (
            file("[keystone]\nauth_url = \"https://user:secret@keystone\""),
            "keystone.auth_url is not accepted (in FILE, line 2, column 1): it must be the URL of a server without a user and \
             a query, such as \"https://keystone.example.com/v3\", or empty",
        ),
        (
            file("[keystone]\npassword = 4242"),
            "keystone.password is not accepted (in FILE, line 2, column 1): it must be text in quotes",
        ),
        (
            variable("SUKKAL_TELEMETRY__OTLP_ENDPOINT", "https://collector:4318"),
            "SUKKAL_TELEMETRY__OTLP_ENDPOINT is \"https://collector:4318\" (in the environment); it must be the URL of a \
             server without TLS, such as \"http://127.0.0.1:4318\", or empty",
        ),
        (
            variable("SUKKAL_TRANSPORT__CORS_ORIGINS", "http://localhost:3000, https://App.example.com/"),
            &format!(
                "SUKKAL_TRANSPORT__CORS_ORIGINS is [\"http://localhost:3000\", \"https://App.example.com/\"] (in the \
                 environment); {ORIGINS}"
            ),
        ),
        (
            file("[transport]\ncors_origins = [\"null\"]"),
            &format!("transport.cors_origins is [\"null\"] (in FILE, line 2, column 1); {ORIGINS}"),
        ),
        (
            file("[transport]\nclient_id = \"none\""),
            "transport.client_id is \"none\" (in FILE, line 2, column 1); it must be \"required\" or \"optional\", for \
             example client_id = \"required\"",
        ),
        (
            variable("SUKKAL_TRANSPORT__DEFAULT_PROJECT", "a\tb"),
            "SUKKAL_TRANSPORT__DEFAULT_PROJECT is \"a\\tb\" (in the environment); it must be the id of a project, with at \
             most 256 characters and no control characters, or empty",
        ),
        (
            variable("SUKKAL_AUTH__STRATEGIES", "none, ldap"),
            "SUKKAL_AUTH__STRATEGIES is [\"none\", \"ldap\"] (in the environment); it must be a list of strategies, of \
             which there are \"none\", \"proxy\", \"keystone\", \"jwt\", \"tokens\"",
        ),
        (
            file("[auth]\nstrategies = [\"proxy\"]"),
            "auth.strategies has \"proxy\", but auth.trusted_proxies is empty; it must have the addresses or networks of \
             the proxies that authenticate callers, for example trusted_proxies = [\"10.0.0.1\"]",
        ),
        (
            file("auth.strategies = [\"jwt\"]\npolicy.preset = \"roles\""),
            "jwt.issuer is empty; the strategy jwt needs it",
        ),
        (variable("SUKKAL_AUTH__STRATEGIES", "keystone"), "keystone.auth_url is empty; the strategy keystone needs it"),
        (
            file(
                "policy.preset = \"roles\"\n[auth]\nstrategies = [\"jwt\"]\n[jwt]\nissuer = \"me\"\naudience = [\"a\"]\njwks = \"/nowhere/keys\"",
            ),
            "jwt.jwks: No such file or directory (os error 2)",
        ),
        (
            file("[policy]\npreset = \"keystone\""),
            "policy.preset is \"keystone\" (in FILE, line 2, column 1); it must be \"zaqar\" or \"roles\", for example \
             preset = \"zaqar\"",
        ),
        (
            file("[policy]\nrules = [\"queues:get = @\", \"queues:create = role:a adn role:b\"]"),
            "policy.rules is not accepted (in FILE, line 2, column 1): queues:create, column 24: \"adn\" must be \"and\" or \
             \"or\"",
        ),
        (
            variable("SUKKAL_POLICY__RULES", "messages:create = user:me"),
            "SUKKAL_POLICY__RULES is not accepted (in the environment): messages:create, column 19: \"user:me\" is not a \
             check; write role:NAME, project:ID, @ (everybody), ! (nobody), or \"not\" or \"(\" before one",
        ),
        (
            variable("SUKKAL_POLICY__RULES", "queues:crate = @"),
            "SUKKAL_POLICY__RULES is not accepted (in the environment): there is no rule queues:crate; did you mean \
             queues:create?",
        ),
        (
            variable("SUKKAL_POLICY__RULES", "everything = @"),
            "SUKKAL_POLICY__RULES is not accepted (in the environment): there is no rule everything; docs/security.md \
             lists the rules",
        ),
        (
            file("[policy]\nrules = {\"queues:get\" = \"@\"}"),
            "policy.rules is not accepted (in FILE, line 2, column 1): it must be a list of texts of the form \"NAME = \
             RULE\"",
        ),
        (file("color = 1"), "there is no option color (in FILE, line 1, column 1)"),
        (
            file("[transport]\nmax_wiat = 1"),
            "there is no option transport.max_wiat (in FILE, line 2, column 1); did you mean transport.max_wait?",
        ),
        (
            file("[bind]\na = 1"),
            "bind is { a = 1 } (in FILE, line 1, column 2); it must be HOST:PORT, :PORT or PORT, with a port from 0 to 65535, for example bind = \"127.0.0.1:8888\"",
        ),
        (file("[log]\nformat = text"), "FILE, line 2, column 10 (log.format): text must be in quotes"),
        (
            file("threads = 2 3"),
            "FILE, line 1, column 11 (threads): string values must be quoted, expected literal string",
        ),
        (
            file("threads = 99999999999999999999"),
            "threads is 100000000000000000000.0 (in FILE, line 1, column 1); it must be an integer from 0 to 1024, for \
             example threads = 0",
        ),
        (file("[color]"), "there is no option color (in FILE, line 1, column 2)"),
        (file("transport = 3"), "transport is a section (in FILE, line 1, column 1); write [transport]"),
        (file("threads = 2\nthreads = 3"), "FILE, line 2, column 1 (threads): duplicate key"),
        (file("[log"), "FILE, line 1, column 5: unclosed table, expected `]`"),
        (
            flag("--config", "/nowhere/sukkal.toml"),
            "--config: cannot read /nowhere/sukkal.toml: No such file or directory (os error 2)",
        ),
        (file("[tls]\ncertificate = \"server.pem\""), "tls.certificate is set, so tls.key must be set too"),
        (file("[tls]\nkey = \"server.key\""), "tls.key is set, so tls.certificate must be set too"),
        (
            variable("SUKKAL_TLS__CLIENT_CA", "ca.pem"),
            "tls.client_ca is set, so tls.certificate and tls.key must be set too",
        ),
        (
            file("[tls]\ncertificate = \"/nowhere/a.pem\"\nkey = \"/nowhere/a.key\""),
            "tls: cannot read /nowhere/a.pem: No such file or directory (os error 2)",
        ),
        (
            file("[tls]\ncertificate = \"Cargo.toml\"\nkey = \"Cargo.toml\""),
            "tls: Cargo.toml has no certificate in PEM format",
        ),
        (flag("--bind", "no-such-host.invalid:8888"), "cannot listen on no-such-host.invalid:8888: "),
    ] {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), text).unwrap();
        let path = path.path().to_str().unwrap();
        let arguments: Vec<&str> = arguments.into_iter().map(|word| if word == FILE { path } else { word }).collect();
        // Unless the file sets the address, this keeps the service from using the default port.
        let bind = (!text.contains("bind")).then_some(("SUKKAL_BIND", "127.0.0.1:0"));
        let environment: Vec<_> = bind.into_iter().chain(variable).collect();

        let (code, stderr) = refused(&[&["serve"], &arguments[..]].concat(), &environment);

        let stderr = stderr.replace(path, FILE);
        assert_eq!(code, Some(2), "{stderr}");
        if expected.ends_with(' ') {
            assert!(stderr.starts_with(&format!("sukkal: {expected}")) && stderr.lines().count() == 1, "{stderr}");
        } else {
            assert_eq!(stderr, format!("sukkal: {expected}\n"));
        }
    }
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();

    let (code, expected) = refused(&["serve", "--bind", &taken, "--store", "memory:"], &[]);

    assert_eq!(code, Some(2), "{expected}");
    assert_eq!(expected.lines().count(), 1, "{expected}");
    assert!(expected.contains(&format!("cannot listen on {taken}: Address already in use")), "{expected}");
}

#[tokio::test]
async fn an_address_can_be_a_name_or_only_a_port() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "bind = \"localhost:0\"").unwrap();
    let file = file.path().to_str().unwrap();
    let everywhere = |address: SocketAddr| address.ip().is_unspecified();
    let here = |address: SocketAddr| address.ip() == Ipv4Addr::LOCALHOST;

    for (arguments, environment, is_expected) in [
        (&["--bind", "localhost:0"][..], None, &here as &dyn Fn(SocketAddr) -> bool),
        (&["--bind", "0"], None, &here),
        (&["--bind", ":0"], Some(("SUKKAL_AUTH__STRATEGIES", "none")), &everywhere),
        (&[], Some(("SUKKAL_BIND", "0")), &here),
        (&["--config", file], None, &here),
    ] {
        let environment: Vec<_> = environment.into_iter().collect();
        let program = Sukkal::launch(&[arguments, &["--store", "memory:"]].concat(), &environment);

        let url = format!("http://127.0.0.1:{}/healthz", program.socket_address().port());
        assert_eq!(support::plain_http::get(url).await.unwrap().status(), 204);
        assert!(is_expected(program.socket_address()), "{arguments:?} {environment:?}: {}", program.address());
    }
}

#[test]
fn harmless_mistakes_are_logged() {
    let environment = [
        ("SUKKAL_STROE", "hush"),
        ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "hush"),
        ("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret that is only used in tests"),
    ];

    let program = Sukkal::launch(&["--bind", "0", "--store", "memory:"], &environment);

    let warnings = program.first_warnings();
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(
        warnings[0].contains("SUKKAL_STROE does not name an option and is ignored; did you mean SUKKAL_STORE?"),
        "{warnings:#?}"
    );
    assert!(warnings[1].contains("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY is short (4 bytes, "), "{warnings:#?}");
    assert!(!warnings.concat().contains("hush"), "{warnings:#?}");
}

#[test]
fn an_unknown_flag_or_command_ends_with_2() {
    for arguments in [&["--color", "red"][..], &["dance"], &["serve", "extra"]] {
        let (code, expected) = refused(arguments, &[]);

        assert_eq!(code, Some(2));
        assert!(
            expected.contains(arguments.last().copied().unwrap_or_default()) || expected.contains(arguments[0]),
            "{expected}"
        );
    }
}

#[tokio::test]
async fn environment_variables_take_effect() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "3")]);
    let api = sukkal.project("options-environment");

    let allowed = api.get("/v2/queues/q/messages?limit=3").send().await.unwrap();
    let too_many = api.get("/v2/queues/q/messages?limit=4").send().await.unwrap();

    assert_eq!(allowed.status(), 200);
    assert_eq!(too_many.status(), 400);
}

#[tokio::test]
async fn environment_and_flags_override_the_file() {
    let redis = RedisServer::shared();
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = "bind = \"127.0.0.1:1\"\nstore = \"redis://127.0.0.1:1\"\n\
                   [transport]\nmax_message_ttl = 100\nmax_queues_per_page = 5\n";
    std::fs::write(file.path(), options).unwrap();
    let url = redis.url();
    let arguments = ["--config", file.path().to_str().unwrap(), "--bind", "127.0.0.1:0"];
    let environment = [("SUKKAL_STORE", &url[..]), ("SUKKAL_TRANSPORT__MAX_QUEUES_PER_PAGE", "6")];

    let program = Sukkal::launch(&arguments, &environment);
    let get = |path: &str| request(&program, reqwest::Method::GET, path).send();
    let post = |ttl: u32| {
        let body = json!({ "messages": [{ "ttl": ttl, "body": 1 }] });
        request(&program, reqwest::Method::POST, "/v2/queues/q/messages").json(&body).send()
    };

    assert_eq!(post(100).await.unwrap().status(), 201, "the store is that of the environment");
    assert_eq!(post(101).await.unwrap().status(), 400, "the limit is that of the file");
    assert_eq!(get("/v2/queues?limit=6").await.unwrap().status(), 200, "the environment goes before the file");
    assert_eq!(get("/v2/queues?limit=7").await.unwrap().status(), 400);
}

fn request(program: &Sukkal, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
    support::plain_http::client()
        .request(method, program.url(path))
        .header("Client-ID", CLIENT)
        .header("X-Project-ID", "options-file")
}
