//! Which strategies a server needs to start.

use super::{STRATEGIES, TRUSTED_PROXIES};
use crate::faults::process::refused;
use crate::http::answered;
use support::ports::free_port;
use support::sukkal::Sukkal;

#[test]
fn without_strategies_only_a_loopback_address_is_served() {
    for bind in [":0", "0.0.0.0:0"] {
        let (code, stderr) = refused(&["--bind", bind, "--store", "memory:"], &[]);

        assert_eq!(code, Some(2), "{stderr}");
        let expected = "is not a loopback address, and [auth] has no strategies, so everybody could use every project; \
                        set SUKKAL_AUTH__STRATEGIES or strategies in [auth] to proxy, for a proxy that authenticates \
                        callers, or to none if everybody may\n";
        assert!(stderr.starts_with("sukkal: ") && stderr.ends_with(expected), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    for bind in ["127.0.0.2:0", "localhost:0", "0"] {
        let program = Sukkal::launch(&["--bind", bind, "--store", "memory:"], &[]);

        assert!(program.socket_address().ip().is_loopback());
    }
}

#[test]
fn the_strategy_none_on_another_address_is_a_warning() {
    let warnings = |bind: &str, environment: &[(&str, &str)]| {
        Sukkal::launch(&["--bind", bind, "--store", "memory:"], environment).first_warnings()
    };
    let proxy = [(STRATEGIES, "proxy"), (TRUSTED_PROXIES, "127.0.0.1")];

    let exposed = warnings(":0", &[(STRATEGIES, "none")]);
    assert_eq!(exposed.len(), 1, "{exposed:#?}");
    assert!(exposed[0].contains("everybody who reaches this address can use every project and role"), "{exposed:#?}");
    for (bind, environment) in [("0", &[(STRATEGIES, "none")][..]), (":0", &proxy), ("0", &[])] {
        assert_eq!(warnings(bind, environment), [""; 0], "{bind} {environment:?}");
    }
    let unused = warnings("0", &[(TRUSTED_PROXIES, "10.0.0.0/8")]);
    assert!(unused[0].contains("auth.trusted_proxies has no effect without"), "{unused:#?}");
}

#[tokio::test]
async fn tokens_without_any_token_are_a_warning_that_says_how_to_generate_one() {
    let strategies = [(STRATEGIES, "tokens"), ("SUKKAL_POLICY__PRESET", "roles")];

    let sukkal = Sukkal::start_with("memory:", &strategies);

    let warning = "auth.strategies is \\\"tokens\\\", but there is no token, so no client can authenticate; generate one \
                   with `sukkal token generate`, and name its file in tokens.admin_token_file";
    sukkal.logged(warning).await;
}

#[tokio::test]
async fn a_new_store_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().join("new").display());

    let first = Sukkal::start(&store);
    first.logged("a new store was created").await;
    drop(first);

    let second = Sukkal::start(&store);
    answered(second.project("p").get("/v2/ping"), 204).await;
    assert!(!second.log().concat().contains("a new store"), "{:#?}", second.log());
}

/// Nothing is opened for a server that may not start.
#[test]
fn a_refused_server_leaves_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let (data, bind) = (folder.path().join("data"), format!(":{}", free_port()));

    let (code, _) = refused(&["--bind", &bind, "--store", &format!("embedded:{}", data.display())], &[]);

    assert_eq!((code, data.exists()), (Some(2), false));
}

#[test]
fn a_password_in_the_url_of_an_issuer_or_of_keys_is_refused() {
    for (variable, url) in [
        ("SUKKAL_JWT__JWKS", "https://user:hush@idp.example.com/keys"),
        ("SUKKAL_JWT__ISSUER", "https://hush@idp.example.com"),
    ] {
        let (code, stderr) = refused(&["--bind", "0", "--store", "memory:"], &[(variable, url)]);

        let expected = format!("{variable} is not accepted (in the environment)");
        assert!(code == Some(2) && stderr.contains(&expected) && !stderr.contains("hush"), "{code:?} {stderr}");
    }
}
