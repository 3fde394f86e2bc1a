//! Options: bad ones are refused in one line, good ones are in force wherever they are set.

use std::net::TcpListener;

use serde_json::json;

use super::process::{Program, refused};
use crate::support::redis::RedisServer;
use crate::support::sukkal::{CLIENT, Sukkal};

#[test]
fn a_bad_option_is_refused_in_one_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[transport]\ncolour = 1\n").unwrap();
    let file = file.path().to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();

    for (arguments, variable, names) in [
        (&["--bind", "nowhere"][..], None, "`bind`"),
        (&["--bind", "127.0.0.1"], None, "`bind`"),
        (&["--bind", &taken], None, &taken[..]),
        (&["--store", "http://h"], None, "scheme"),
        (&["--store", "redis://"], None, "host"),
        (&["--store", "redis-sentinel://h:1"], None, "master"),
        (&["--config", file], None, "transport.colour"),
        (&["--config", "/nowhere/sukkal.toml"], None, "/nowhere/sukkal.toml"),
        (&[], Some(("SUKKAL_ADMIN_MODE", "perhaps")), "SUKKAL_ADMIN_MODE"),
        (&[], Some(("SUKKAL_DRAIN_TIMEOUT", "-1")), "drain_timeout"),
        (&[], Some(("SUKKAL_LOG__FILTER", "a=b=c")), "log.filter"),
    ] {
        // Where the option in question is another, this one keeps it from taking the usual port.
        let arguments = [&["serve"], arguments].concat();
        let environment: Vec<_> = [("SUKKAL_BIND", "127.0.0.1:0")].into_iter().chain(variable).collect();

        let (code, said) = refused(&arguments, &environment);

        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(names), "{arguments:?}: {said}");
    }
}

#[test]
fn an_unknown_flag_or_command_ends_with_2() {
    for arguments in [&["--colour", "red"][..], &["dance"], &["serve", "extra"]] {
        let (code, said) = refused(arguments, &[]);

        assert_eq!(code, Some(2));
        assert!(said.contains(arguments.last().copied().unwrap_or_default()) || said.contains(arguments[0]), "{said}");
    }
}

#[tokio::test]
async fn environment_variables_are_in_force() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "3")]);
    let api = sukkal.project("options-environment");

    let allowed = api.get("/v2/queues/q/messages?limit=3").send().await.unwrap();
    let too_many = api.get("/v2/queues/q/messages?limit=4").send().await.unwrap();

    assert_eq!(allowed.status(), 200);
    assert_eq!(too_many.status(), 400);
}

#[tokio::test]
async fn the_file_is_in_force_below_the_environment_and_flags() {
    let redis = RedisServer::shared();
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = "bind = \"127.0.0.1:1\"\nstore = \"redis://127.0.0.1:1\"\n\
                   [transport]\nmax_message_ttl = 100\nmax_queues_per_page = 5\n";
    std::fs::write(file.path(), options).unwrap();
    let url = redis.url();
    let arguments = ["--config", file.path().to_str().unwrap(), "--bind", "127.0.0.1:0"];
    let environment = [("SUKKAL_STORE", &url[..]), ("SUKKAL_TRANSPORT__MAX_QUEUES_PER_PAGE", "6")];

    let program = Program::start(&arguments, &environment);
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

fn request(program: &Program, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
    reqwest::Client::new()
        .request(method, format!("http://{}{path}", program.address))
        .header("Client-ID", CLIENT)
        .header("X-Project-ID", "options-file")
}
