//! The client that users of Zaqar have: python-zaqarclient, as the scripts beside this file drive it.

use super::run_script as run;

#[test]
fn python_zaqarclient_streams_back_what_it_has_posted() {
    run("feed.py");
}

#[test]
fn python_zaqarclient_gets_work_done_by_claims() {
    run("work.py");
}

#[test]
fn python_zaqarclient_does_what_a_pre_signed_url_says() {
    run("shared.py");
}

#[test]
fn python_zaqarclient_looks_after_queues() {
    run("chores.py");
}

#[test]
fn no_method_of_python_zaqarclient_for_queues_messages_and_claims_is_left_out() {
    run("census.py");
}

#[test]
fn python_zaqarclient_gets_delayed_messages_in_time_and_finds_dead_letters() {
    run("later.py");
}
