//! Each transcript shows a part of the command line, against a service of its own.

use super::transcript::{check, check_with};
use support::redis::RedisServer;
use support::sukkal::{POOLING, Sukkal};

#[test]
fn queues_are_created_changed_and_deleted() {
    check("tests/cli/transcripts/queues.txt", &Sukkal::start("memory:"));
}

#[test]
fn messages_are_posted_followed_and_deleted() {
    check("tests/cli/transcripts/messages.txt", &Sukkal::start("memory:"));
}

#[test]
fn messages_are_claimed_and_claims_renewed_and_released() {
    check("tests/cli/transcripts/claims.txt", &Sukkal::start("memory:"));
}

#[test]
fn queues_are_listed_with_the_numbers_of_their_messages() {
    check("tests/cli/transcripts/queue-statistics.txt", &Sukkal::start("memory:"));
}

#[test]
fn an_operator_lists_projects() {
    check("tests/cli/transcripts/projects.txt", &Sukkal::start_with("memory:", &[("SUKKAL_ADMIN_MODE", "true")]));
}

#[test]
fn an_operator_sets_quotas() {
    check("tests/cli/transcripts/quotas.txt", &Sukkal::start_with("memory:", &[("SUKKAL_ADMIN_MODE", "true")]));
}

#[test]
fn an_operator_manages_pools_and_flavors_and_moves_queues() {
    let [first, second] = [RedisServer::start(), RedisServer::start()];
    let sukkal = Sukkal::start_with("memory:", &POOLING);
    let variables = [("FIRST", &*first.url()), ("SECOND", &*second.url())];
    check_with("tests/cli/transcripts/pools.txt", &sukkal, &variables);
}

#[test]
fn paused_queues_hand_out_nothing_and_claims_are_listed() {
    check("tests/cli/transcripts/pause.txt", &Sukkal::start("memory:"));
}

#[test]
fn messages_are_listed_with_their_states() {
    check("tests/cli/transcripts/message-states.txt", &Sukkal::start("memory:"));
}

#[test]
fn dead_letters_are_listed_and_moved_back() {
    check("tests/cli/transcripts/dead-letters.txt", &Sukkal::start("memory:"));
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
fn topics_are_used_like_queues() {
    check("tests/cli/transcripts/topics.txt", &Sukkal::start("memory:"));
}

#[test]
fn tokens_are_shown_once_and_authenticate_requests() {
    let strategies = [("SUKKAL_AUTH__STRATEGIES", "none,tokens")];
    check("tests/cli/transcripts/tokens.txt", &Sukkal::start_with("memory:", &strategies));
}

#[test]
fn contexts_name_services_and_keep_credentials_secret() {
    check("tests/cli/transcripts/contexts.txt", &Sukkal::start("memory:"));
}

#[test]
fn errors_say_what_to_change_and_have_exit_codes() {
    check("tests/cli/transcripts/errors.txt", &Sukkal::start("memory:"));
}

#[test]
fn the_manual_the_completions_and_the_defaults_need_no_service() {
    check("tests/cli/transcripts/manual.txt", &Sukkal::start("memory:"));
}

#[test]
fn the_examples_of_the_guide_work() {
    check("docs/command-line.md", &Sukkal::start("memory:"));
}
