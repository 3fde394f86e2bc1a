//! The privileges that `docs/operating.md` gives the user of Sukkal in Redis are enough, and the
//! least: a part of the driver suite runs with them, no command is denied, and each one is used.
//!
//! Scripts use some commands only in rare states. Such a command counts as used if a script
//! contains it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use serde_json::json;

use crate::conformance::cases;
use crate::conformance::support::drivers::redis_with_url;
use crate::conformance::support::subject::Subject;
use support::cluster::RedisCluster;
use support::redis::{RedisServer, Reply, child_command};
use support::sukkal::Sukkal;
use support::waiting::block_until;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating.md"));
const COMMAND: &str = "redis-cli ACL SETUSER sukkal ";
const PASSWORD: &str = "a-long-random-password";
/// Commands that the page names for other servers than those of this test.
const OF_SENTINEL: [&str; 2] = ["+sentinel|master", "+sentinel|get-master-addr-by-name"];
/// Commands that may be denied to Sukkal by a Sentinel, which then logs it.
const OPTIONAL_OF_SENTINEL: [&str; 2] = ["+client|id", "+info"];
/// Number of cases that run at the same time.
const CONCURRENCY: usize = 8;

/// Returns the rules of the user, as the page shows them.
fn documented_rules() -> Vec<String> {
    let (_, command) = PAGE.split_once(COMMAND).expect("the page shows the command");
    let (command, _) = command.split_once("```").expect("the block ends");
    command.split_whitespace().filter(|word| *word != "\\").map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn commands_of(rules: &[String]) -> BTreeSet<String> {
    rules.iter().filter_map(|rule| rule.strip_prefix('+')).map(str::to_owned).collect()
}

fn create_user(server: &RedisServer, rules: &[&str]) {
    let created = server.command(&[&["ACL", "SETUSER", "sukkal"], rules].concat());
    assert_eq!(created, Reply::Status("OK".to_owned()), "{rules:?}");
    // Only what follows counts.
    server.command(&["CONFIG", "RESETSTAT"]);
}

/// Returns the commands that a server has run, in lower case.
fn used_commands(server: &RedisServer) -> BTreeSet<String> {
    let stats = server.command(&["INFO", "commandstats"]);
    let names = stats.as_text().lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    names.map(str::to_owned).collect()
}

fn assert_nothing_denied(server: &RedisServer) {
    assert_eq!(server.command(&["ACL", "LOG"]), Reply::Array(Vec::new()), "a command was denied");
}

/// Returns the commands in the scripts, in lower case.
fn commands_in_scripts(server: &RedisServer) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let root = support::root().join("scripts");
    let files = [root.clone(), root.join("shared")].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    for file in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs::read_to_string(file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let words = code.flat_map(|line| line.split('\'').skip(1).step_by(2));
        let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        found.extend(words.filter(is_word).map(str::to_owned));
    }
    // Other words are options, such as LIMIT.
    found.retain(|word| server.command(&["COMMAND", "INFO", word]).items()[0] != Reply::Bulk(None));
    found.iter().map(|word| word.to_ascii_lowercase()).collect()
}

/// Runs cases, each with a project of its own.
macro_rules! run_cases {
    ($new:expr, [$($file:ident::$case:ident),+ $(,)?]) => {
        let cases = [$(
            async {
                let subject: Subject = $new();
                subject.wait_until_ready().await;
                cases::$file::$case(&subject).await;
                subject.assert_consistent().await;
            }
            .boxed_local(),
        )+];
        stream::iter(cases).buffer_unordered(CONCURRENCY).collect::<()>().await
    };
}

/// Runs cases that use every operation of the store.
async fn use_store(new: impl Fn() -> Subject) {
    run_cases!(
        new,
        [
            queues::an_update_replaces_the_metadata,
            queues::deleting_a_queue_deletes_its_messages,
            queue_list::lists_and_counts_include_only_their_own_project,
            posting::a_post_to_a_changed_queue_stores_nothing_and_returns_the_queue,
            newest_first::messages_that_arrive_are_on_no_later_page,
            messages_by_id::the_count_follows_every_change,
            pops_and_stats::a_pop_skips_expired_messages,
            summaries::projects_with_queues_are_listed_once_in_a_fixed_order,
            claims::a_renewal_restarts_the_ttl_and_the_age,
            claims::an_expired_claim_returns_its_messages_at_their_old_positions,
            delay::a_delayed_message_can_be_read_counted_and_deleted,
            dead_letters::dead_letters_are_appended_in_the_order_in_which_they_are_moved,
            redrives::dead_letters_return_to_their_origins_in_order,
            tasks::maintenance_continues_a_task_whose_lease_has_expired,
            subscriptions::all_subscriptions_of_a_queue_can_be_deleted,
            deliveries::a_retry_can_be_replaced_and_ended,
            delivery_signals::a_post_sends_a_signal,
            delivery_signals::maintenance_signals_a_queue_whose_retry_is_due,
            returning::a_message_returned_with_a_delay_is_unavailable_until_it_is_due,
            idempotency::a_repeated_post_returns_the_first_response,
            undelivered::restored_messages_are_unchanged,
            waiting::a_post_wakes_waiters,
            waiting::a_queue_can_be_watched_again,
            maintenance::expired_messages_are_reclaimed_in_unused_queues,
            fair_turns::two_shards_alternate_from_any_starting_turn,
            fair_details::detailed_stats_show_each_tenants_share_of_posts,
            sealed_bodies::sealed_bodies_are_found_and_replaced_wherever_they_are,
        ]
    );
    let subject = new();
    subject.wait_until_ready().await;
    subject.store().probe().await.unwrap();
    subject.store().check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_privileges_are_enough_and_the_least() {
    let rules = documented_rules();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let (server, cluster) = (Arc::new(RedisServer::start()), Arc::new(RedisCluster::start()));
    let servers: Vec<&RedisServer> = cluster.nodes().iter().chain([&*server]).collect();
    for server in &servers {
        create_user(server, &rules);
    }

    let as_user = |url: String| url.replacen("://", &format!("://sukkal:{PASSWORD}@"), 1);
    tokio::join!(
        use_store(|| redis_with_url(&as_user(server.url()), server.clone())),
        use_store(|| redis_with_url(&as_user(cluster.url()), cluster.clone())),
    );
    // A full server that has lost the functions runs the same Lua as a script.
    server.command(&["FUNCTION", "FLUSH"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = redis_with_url(&as_user(server.url()), server.clone());
    full.wait_until_ready().await;
    full.store().check().await.unwrap();

    for server in &servers {
        assert_nothing_denied(server);
    }
    let in_scripts = commands_in_scripts(&server);
    let documented = commands_of(&documented_rules());
    let missing: Vec<_> = in_scripts.difference(&documented).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // The stores unsubscribe from the notifications of their last waiters a moment later.
    for command in documented.difference(&in_scripts) {
        let is_used = || servers.iter().any(|server| used_commands(server).contains(command));
        block_until(&format!("{command} is used"), is_used);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_needs_no_more_privileges_than_the_service() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let rules = documented_rules();
    create_user(&server, &rules.iter().map(String::as_str).collect::<Vec<_>>());
    let from = format!("embedded:{}", folder.path().display());
    let mut sukkal = Sukkal::start(&from);
    let posted = sukkal.project("p").post("/v2/queues/q/messages", &json!({ "messages": [{ "body": 1 }] }));
    assert!(posted.send().await.unwrap().status().is_success());
    sukkal.kill();

    // The second of the layouts is that of an interrupted migration.
    for is_repeated in [false, true] {
        if is_repeated {
            let id = server.command(&["GET", "sukkal:migration"]).as_text().to_owned();
            server.command(&["SET", "sukkal:layout", &format!("migrating {id}")]);
        }
        let to = server.url().replacen("://", &format!("://sukkal:{PASSWORD}@"), 1);
        let mut command = child_command(support::sukkal::binary());
        let output = command.args(["migrate", "--from", &from, "--to", &to]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    assert_nothing_denied(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_privileges_are_enough_behind_sentinels() {
    let rules = documented_rules();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let master = RedisServer::start();
    let sentinel = Arc::new(RedisServer::start_sentinel("main", &master));
    create_user(&master, &rules);
    let password = format!(">{PASSWORD}");
    let of_sentinel = [&["on", &password, "-@all"], &OF_SENTINEL[..], &OPTIONAL_OF_SENTINEL].concat();
    create_user(&sentinel, &of_sentinel);
    assert!(of_sentinel[3..].iter().all(|rule| PAGE.contains(&format!("`{rule}`"))));

    let url = format!("redis-sentinel://sukkal:{PASSWORD}@127.0.0.1:{}/main", sentinel.port());
    let subject = redis_with_url(&url, sentinel.clone());
    subject.wait_until_ready().await;
    cases::waiting::a_post_wakes_waiters(&subject).await;

    assert_nothing_denied(&master);
    assert_nothing_denied(&sentinel);
    // A Sentinel does not count its commands.
    for rule in OF_SENTINEL {
        let without = rule.replacen('+', "-", 1);
        create_user(&sentinel, &[without.as_str()]);
        let store = redis_with_url(&url, sentinel.clone());
        assert!(store.store().ping().await.is_err(), "{rule} is not needed");
        create_user(&sentinel, &[rule]);
    }
}
