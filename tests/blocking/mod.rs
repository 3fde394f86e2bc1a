//! No request blocks the store for other clients: these tests count the work that the most
//! expensive requests cause in Redis. The benchmark `blocking` times the same requests at the
//! largest sizes.

pub(crate) mod cases;
mod monitor;
#[allow(dead_code, reason = "the benchmark uses the rest")]
pub(crate) mod stage;

use self::cases::Action;
use self::monitor::{Monitor, Work};
use self::stage::Stage;
use support::redis::RedisServer;

/// Largest number of records of 250 KB that one step may read: about 1 MiB.
const LARGE_RECORDS_MAX: usize = 4;
/// Largest number of such records that may pass through a script completely, as for pops and dead
/// letters: 512 KiB.
const LARGE_MOVED_MAX: usize = 2;
/// Largest number of commands that one script may call. A command takes about a microsecond, and
/// its Lua code the same.
const CALLS_MAX: usize = 1_000;
/// The limit for posts that count 64 tenants with 1,024 shards, and each of the shards.
const TENANT_CALLS_MAX: usize = 1_500;
/// Largest number of words of a command that runs a script.
const WORDS_MAX: usize = 2_200;
/// Largest number of members of sorted sets that one script may examine.
const MEMBERS_MAX: usize = 1_000;
/// Largest number of messages that one script of a redrive may move.
const MOVED_MAX: usize = 100;
/// Largest number of queues that one request may examine, and that one step of it may examine.
const QUEUES_MAX: usize = 10_000;
const QUEUES_PER_STEP_MAX: usize = 100;

/// Registers names without queues, which a list examines like other names.
fn register_names(redis: &RedisServer, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("name-{number:06}\x001")).collect();
    for names in names.chunks(1_000) {
        let members = names.iter().flat_map(|name| ["0", name]);
        redis.command(&["ZADD", "sukkal:{worst}:queues"].into_iter().chain(members).collect::<Vec<_>>());
    }
}

/// Sends the requests, and returns the work that they caused in Redis.
async fn work(stage: &Stage, action: Action) -> Work {
    let redis = stage.redis.as_ref().expect("it is a stage over Redis");
    let monitor = Monitor::start(redis);
    action.await;
    monitor.stop(redis)
}

/// Makes a test of each case: its name, the case, and the figures of its work with their limits.
macro_rules! bounded {
    ($($test:ident: $case:ident($($argument:expr),*), $($figure:ident <= $max:expr),+;)*) => {$(
        #[tokio::test]
        async fn $test() {
            let stage = Stage::over_redis();
            let request = cases::$case(&stage, $($argument),*).await;

            let work = work(&stage, request).await;

            $(assert!((0..=$max).contains(&work.$figure()), "{}: {}", stringify!($figure), work.$figure());)+
        }
    )*};
}

bounded! {
    a_list_beside_large_own_messages_reads_no_more_than_a_page:
        list_beside_own(60, cases::LARGE), records <= LARGE_RECORDS_MAX;
    a_list_of_large_messages_reads_no_more_than_a_page:
        list_large(40), records <= LARGE_RECORDS_MAX;
    a_claim_of_large_messages_reads_no_more_than_it_returns:
        claim_large(40), records <= LARGE_RECORDS_MAX;
    a_pop_of_large_messages_reads_no_more_than_it_returns:
        pop_large(40), records_max <= LARGE_MOVED_MAX;
    a_post_of_many_messages_needs_few_commands:
        post_many(), words_max <= WORDS_MAX, calls_max <= 100;
    statistics_of_many_shards_need_several_scripts:
        stats_of_shards(), calls_max <= CALLS_MAX;
    each_script_releases_a_bounded_number_of_delayed_messages:
        post_beside_delayed(3_000), calls_max <= CALLS_MAX;
    a_release_needs_a_bounded_number_of_commands:
        release(), calls_max <= 150;
    each_step_of_a_bulk_get_reads_a_bounded_number_of_large_messages:
        bulk_get(), records_max <= LARGE_RECORDS_MAX, records <= 2 * 20;
    a_bulk_deletion_reads_no_bodies:
        bulk_delete(), records <= 0, calls_max <= 150;
    each_script_moves_few_large_dead_letters:
        move_dead_letters(), records_max <= LARGE_MOVED_MAX;
    each_step_of_a_redrive_moves_a_bounded_number_of_messages:
        redrive(2_500, 1), calls_max <= CALLS_MAX, removed_max <= MOVED_MAX, words_max <= WORDS_MAX;
    each_step_of_a_redrive_moves_few_large_messages:
        redrive(10, cases::LARGE), records_max <= LARGE_MOVED_MAX;
}

#[tokio::test]
async fn a_list_beside_own_messages_examines_a_bounded_number_per_script() {
    let stage = Stage::over_redis();
    let list = cases::list_beside_own(&stage, 5_000, 1).await;

    let work = work(&stage, list).await;

    let (_, most) = work.members(stage.redis.as_ref().unwrap());
    assert!(most <= MEMBERS_MAX, "{most} members in one script");
    assert!(work.calls_max() <= CALLS_MAX, "{} calls in one script", work.calls_max());
    assert_eq!(work.records(), 0, "the poster of a message is known without its record");
}

#[tokio::test]
async fn a_post_for_many_tenants_needs_a_bounded_number_of_commands_per_script() {
    for shards_per_tenant in [4, 1_024] {
        let stage = Stage::over_redis();
        let post = cases::post_tenants(&stage, shards_per_tenant).await;

        let work = work(&stage, post).await;

        assert!(work.words_max() <= WORDS_MAX, "a script with {} arguments", work.words_max());
        assert!(work.calls_max() <= TENANT_CALLS_MAX, "{} calls in one script", work.calls_max());
    }
}

#[tokio::test]
async fn a_filter_over_many_queues_examines_a_bounded_number() {
    let stage = Stage::over_redis();
    register_names(stage.redis.as_ref().expect("it is a stage over Redis"), QUEUES_MAX + 2_000);
    let list = cases::list_queues(&stage, 1).await;

    let work = work(&stage, list).await;

    let (all, most) = work.members(stage.redis.as_ref().unwrap());
    assert!(all <= QUEUES_MAX, "{all} names");
    assert!(most <= QUEUES_PER_STEP_MAX, "{most} names in one step");
    let commands = work.commands.len();
    assert!(commands <= 2 * QUEUES_MAX / QUEUES_PER_STEP_MAX, "{commands} commands");
}

#[tokio::test]
async fn a_waiter_beside_own_messages_continues_from_its_position() {
    const POSTS: usize = 10;
    const OWN: usize = 2_000;
    let stage = Stage::over_redis();
    let posts = cases::wait_beside_own(&stage, OWN, POSTS).await;

    let work = work(&stage, posts).await;

    let (all, _) = work.members(stage.redis.as_ref().unwrap());
    // One repeated query is allowed: a connection made late, on a busy machine, may have missed
    // notifications.
    assert!(all <= OWN + 20 * (POSTS + 1), "{all} members for {POSTS} posts");
    assert!(work.records() <= 20 * (POSTS + 1), "{} records for {POSTS} posts", work.records());
}

#[tokio::test]
async fn each_script_removes_a_bounded_number_of_expired_messages() {
    let stage = Stage::over_redis();
    let posts = cases::post_beside_expired(&stage, 3_000).await;

    let work = work(&stage, posts).await;

    assert!(work.calls_max() <= CALLS_MAX, "{} calls in one script", work.calls_max());
    let longest = work.scripts().flat_map(|script| &script.inner).map(Vec::len).max().unwrap_or_default();
    assert!(longest <= 2 * MEMBERS_MAX + 2, "a command with {longest} words");
}

#[tokio::test]
async fn each_script_expires_a_bounded_number_of_adjacent_messages() {
    let stage = Stage::over_redis();
    let list = cases::list_beside_dense(&stage, 4_000).await;

    let work = work(&stage, list).await;

    assert!(work.removed_max() <= MEMBERS_MAX, "{} messages removed in one script", work.removed_max());
    assert!(work.scripts().count() > 4, "the list has removed what has expired");
}

#[tokio::test]
async fn the_cost_of_a_deletion_and_a_purge_does_not_depend_on_the_queue_size() {
    for (name, make) in [("deletion", true), ("purge", false)] {
        let stage = Stage::over_redis();
        let request = if make { cases::delete_queue(&stage, 5_000).await } else { cases::purge(&stage, 5_000).await };

        let work = work(&stage, request).await;

        let calls: usize = work.commands.iter().map(|command| 1 + command.inner.len()).sum();
        assert!(calls <= 50, "{name}: {calls} commands");
    }
}

#[tokio::test]
async fn claims_that_end_together_are_returned_in_batches() {
    let stage = Stage::over_redis();
    let claim = cases::claim_after_ended(&stage, 300).await;

    let work = work(&stage, claim).await;

    let calls: usize = work.scripts().map(|script| script.inner.len()).sum();
    assert!(calls <= 300, "{calls} calls for 300 claims");
}
