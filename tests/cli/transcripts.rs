//! Each transcript shows a part of the command line, against a service of its own.

use super::transcript::{check, check_with};
use support::redis::RedisServer;
use support::sukkal::{POOLING, Sukkal};

const ADMIN_MODE: (&str, &str) = ("SUKKAL_ADMIN_MODE", "true");

/// Makes a test of each transcript: its name, its file, and the options of its service.
macro_rules! transcripts {
    ($($test:ident: $file:literal $(, $option:expr)*;)*) => {$(
        #[test]
        fn $test() {
            let path = concat!("tests/cli/transcripts/", $file, ".txt");
            check(path, &Sukkal::start_with("memory:", &[$($option),*]));
        }
    )*};
}

transcripts! {
    queues_are_created_changed_and_deleted: "queues";
    messages_are_posted_followed_and_deleted: "messages";
    messages_are_claimed_and_claims_renewed_and_released: "claims";
    queues_are_listed_with_the_numbers_of_their_messages: "queue-statistics";
    an_operator_lists_projects: "projects", ADMIN_MODE;
    an_operator_sets_quotas: "quotas", ADMIN_MODE;
    paused_queues_hand_out_nothing_and_claims_are_listed: "pause";
    messages_are_listed_with_their_states: "message-states";
    dead_letters_are_listed_and_moved_back: "dead-letters";
    topics_are_used_like_queues: "topics";
    contexts_name_services_and_keep_credentials_secret: "contexts";
    errors_say_what_to_change_and_have_exit_codes: "errors";
    the_manual_the_completions_and_the_defaults_need_no_service: "manual";
}

#[test]
fn an_operator_manages_pools_and_flavors_and_moves_queues() {
    let [first, second] = [RedisServer::start(), RedisServer::start()];
    let sukkal = Sukkal::start_with("memory:", &POOLING);
    let variables = [("FIRST", &*first.url()), ("SECOND", &*second.url())];
    check_with("tests/cli/transcripts/pools.txt", &sukkal, &variables);
}

#[test]
fn subscriptions_are_created_paused_and_deleted() {
    let mail = [
        ("SUKKAL_MAIL__HOST", "127.0.0.1"),
        ("SUKKAL_MAIL__PORT", "1"),
        ("SUKKAL_MAIL__SENDER", "queues@example.com"),
        ("SUKKAL_MAIL__API_URL", "http://127.0.0.1"),
        ("SUKKAL_SIGNED_URL__SECRET_KEY", "a key that is long enough for any purpose"),
    ];
    check("tests/cli/transcripts/subscriptions.txt", &Sukkal::start_with("memory:", &mail));
}

#[test]
fn tokens_are_shown_once_and_authenticate_requests() {
    let strategies = [("SUKKAL_AUTH__STRATEGIES", "none,tokens")];
    check("tests/cli/transcripts/tokens.txt", &Sukkal::start_with("memory:", &strategies));
}

#[test]
fn the_examples_of_the_guide_work() {
    check("docs/command-line.md", &Sukkal::start("memory:"));
}
