//! python-zaqarclient, the client of Zaqar's users. The scripts in this folder use it.

use super::run_script as run;

#[test]
fn python_zaqarclient_streams_back_its_posted_messages() {
    run("feed.py");
}

#[test]
fn python_zaqarclient_processes_messages_with_claims() {
    run("work.py");
}

#[test]
fn python_zaqarclient_works_with_signed_urls() {
    run("shared.py");
}

#[test]
fn python_zaqarclient_manages_queues() {
    run("administration.py");
}

#[test]
fn every_method_of_python_zaqarclient_for_queues_messages_and_claims_is_called() {
    run("method_coverage.py");
}

#[test]
fn python_zaqarclient_receives_delayed_messages_and_dead_letters() {
    run("delayed_and_dead_letters.py");
}
