//! The driver suite: every promise of the store traits, for every driver.
//!
//! A case is an `async fn` over a [`subject::Subject`], named by its claim and listed here, under the
//! file that it stands in. Each is a test per driver: `conformance::DRIVER::FILE::CASE`. A further
//! driver is one word in the list below and the function of that name in `drivers`. What only one
//! driver can show stays out of the list, in a file of its own.

#[cfg(not(feature = "movable-clock"))]
compile_error!("the tests move the store's clock: run them with `--features movable-clock`");

mod acknowledging;
mod any;
mod churn;
mod claiming;
mod claims;
mod clock;
mod contention;
mod delay;
mod drivers;
mod expiry;
mod fair_change;
mod fair_details;
mod fair_forgetting;
mod fair_letters;
mod fair_places;
mod fair_prefer;
mod fair_turns;
mod fairness;
mod feed;
mod identity;
mod large;
mod letters;
mod lookup;
mod model;
mod model_claims;
mod model_fair;
mod model_operations;
mod once;
mod popping;
mod posting;
mod prolonging;
mod queue_list;
mod queues;
mod redis_check;
mod redis_claim_keys;
mod redis_due;
mod redis_keys;
mod redis_letters;
mod redis_posts;
mod redis_register;
mod returning;
mod rotation;
mod seed;
mod subject;
mod together;
mod undoing;
mod upkeep;
mod waiting;

// The driver comes first in a test's name, so that tests of one driver run next to each other and
// share its servers.
macro_rules! suite {
    (drivers: [$($driver:ident),+], cases: $cases:tt) => { $(suite! { $driver $cases })+ };
    ($driver:ident { $($file:ident: [$($case:ident),+ $(,)?]),+ $(,)? }) => {
        mod $driver {
            $(mod $file {
                $(#[tokio::test]
                async fn $case() {
                    let subject = crate::conformance::drivers::$driver();
                    crate::conformance::$file::$case(&subject).await;
                    subject.assert_whole().await;
                })+
            })+
        }
    };
}

suite! {
    drivers: [redis, redis_cluster, embedded, memory],
    cases: {
        queues: [
            a_created_queue_has_its_metadata,
            a_second_creation_changes_nothing,
            a_queue_that_was_never_created_is_not_there,
            metadata_survives_whatever_json_it_holds,
            an_update_replaces_the_metadata,
            an_update_of_a_changed_queue_is_stale,
            of_updates_at_once_one_succeeds,
            an_update_of_a_missing_queue_is_stale_and_creates_nothing,
            an_update_leaves_the_messages_alone,
            deleting_twice_is_like_deleting_once,
            a_deleted_queue_takes_its_messages_along,
            a_recreated_queue_never_repeats_a_revision,
            a_recreated_queue_goes_on_behind_its_old_feed,
            queues_of_one_name_in_two_projects_have_nothing_in_common,
        ],
        queue_list: [
            queues_are_listed_in_byte_order_of_their_names,
            a_list_goes_on_behind_any_text,
            pages_of_queues_are_full_and_make_up_the_list,
            a_list_examines_a_bounded_number_of_names,
            a_queue_is_listed_with_what_it_holds,
            deleted_queues_are_passed_over,
            lists_and_counts_end_at_the_project,
        ],
        posting: [
            a_post_is_stored_in_the_order_given,
            the_messages_of_a_post_are_next_to_each_other,
            posts_at_once_are_each_in_one_piece,
            a_post_to_a_queue_that_is_not_there_stores_nothing,
            a_post_to_a_changed_queue_stores_nothing_and_tells_the_change,
            a_big_post_is_seen_whole_or_not_at_all,
            a_post_takes_1000_messages,
            bodies_survive_whatever_json_they_are,
            every_message_keeps_its_own_ttl,
        ],
        feed: [
            reading_behind_a_marker_gives_what_follows_it,
            pages_of_any_size_make_up_the_feed,
            a_marker_whose_message_is_deleted_stands_where_it_stood,
            a_marker_behind_the_last_message_waits_for_the_next,
            a_reader_who_follows_sees_every_message_once,
            a_reader_is_spared_his_own_messages,
            two_thousand_own_messages_hide_nothing,
            a_page_is_empty_only_at_the_end,
            a_page_may_be_a_thousand_long,
        ],
        large: [
            pages_of_large_messages_are_short_and_miss_nothing,
            pops_of_large_messages_are_short_and_lose_nothing,
            claims_of_large_messages_leave_the_rest_free,
            all_large_messages_that_are_asked_for_are_got,
        ],
        lookup: [
            messages_are_got_in_the_order_asked_for,
            what_is_not_there_is_passed_over,
            a_message_is_the_same_listed_and_got,
            no_ids_are_no_messages,
            deleting_takes_what_is_named_and_nothing_else,
            deleting_twice_is_like_deleting_once,
            a_thousand_are_got_and_deleted_at_once,
            a_count_follows_every_change,
        ],
        popping: [
            a_pop_takes_the_oldest_and_leaves_the_rest,
            a_pop_takes_no_more_than_there_is,
            pops_at_once_hand_out_each_message_once,
            a_pop_passes_over_what_has_ended,
            stats_tell_the_number_and_the_ends,
            stats_know_nothing_of_what_has_ended,
        ],
        claims: [
            a_claim_takes_the_oldest_free_messages,
            there_is_no_claim_when_nothing_is_free,
            what_has_ended_is_not_claimed,
            claimed_messages_are_hidden_and_still_counted,
            a_list_with_claimed_ones_is_the_feed_in_order,
            a_long_run_of_own_claimed_messages_hides_nothing,
            a_released_claim_gives_back_in_the_old_places,
            an_expired_claim_gives_back_in_the_old_places,
            a_claim_is_over_exactly_at_its_end,
            a_renewed_claim_begins_anew,
            a_renewal_may_make_a_claim_shorter,
            a_claim_shows_only_what_is_left_of_it,
            a_claim_opens_nothing_in_another_queue_or_project,
            a_deleted_queue_takes_its_claims_along,
            a_thousand_claims_that_end_at_once_come_back_for_the_first_reader,
            a_thousand_are_claimed_at_once,
            two_thousand_claimed_ahead_hide_nothing,
            a_clock_that_steps_back_leaves_a_claim_live,
            a_claim_that_was_seen_to_end_does_not_come_back,
        ],
        prolonging: [
            a_message_that_would_end_before_its_claim_lives_on,
            a_prolonged_message_ends_exactly_when_ttl_and_grace_are_over,
            a_renewal_prolongs_again,
            a_renewal_leaves_alone_what_lives_longer,
            a_prolonged_life_outlasts_the_release,
            a_message_ends_as_posted_when_its_claims_were_short,
            the_next_claim_prolongs_again,
        ],
        acknowledging: [
            a_message_is_deleted_only_under_the_claim_that_holds_it,
            a_claim_that_is_over_allows_no_deletion,
            many_are_deleted_under_their_claims_or_not_at_all,
            deleting_by_id_asks_for_no_claim,
        ],
        delay: [
            a_delayed_message_is_nobodys_until_it_is_due,
            a_delayed_message_is_found_counted_and_deleted_like_any,
            a_reader_may_peek_at_what_is_not_due,
            a_page_tells_whether_the_queue_delays,
            messages_of_one_post_come_when_each_is_due,
            what_becomes_due_stands_behind_every_marker,
            a_post_that_would_reach_a_delayed_message_makes_it_due,
            a_delay_is_as_long_when_ranks_are_ahead_of_the_clock,
            delayed_messages_keep_their_order_and_their_time_whatever_the_clock_does,
            nothing_lands_before_what_was_let_in_when_the_clock_steps_back,
            ranks_are_given_once_whatever_is_delayed,
            messages_of_one_post_and_delay_are_next_to_each_other,
            thousands_that_are_due_at_once_are_one_for_the_first_reader,
            nothing_is_due_earlier_when_the_clock_steps_back,
            what_was_due_stays_due_when_the_clock_steps_back,
            a_message_may_end_before_it_is_due,
            a_purge_and_a_deletion_take_what_is_delayed,
        ],
        letters: [
            a_message_is_given_out_as_often_as_its_queue_says,
            a_dead_letter_is_a_new_message_that_says_the_same,
            dead_letters_stand_at_the_end_in_the_order_of_their_deaths,
            a_pop_counts_and_obeys_the_count,
            the_count_survives_whatever_ends_a_claim,
            renewing_is_not_giving_out,
            nobody_counts_where_nothing_says_so,
            a_count_of_nothing_lets_nothing_out,
            a_dead_letter_lives_on_or_as_its_queue_says,
            letters_may_die_again,
            a_queue_may_be_its_own_dead_letter_queue,
            a_dead_letter_moves_once_per_delivery,
            what_was_delivered_to_nobody_moves_no_further,
            letters_arrive_though_their_source_is_deleted,
            a_dead_letter_queue_is_created_as_often_as_it_is_needed,
            letters_of_many_takers_arrive_once,
        ],
        returning: [
            a_message_that_is_given_back_is_free_in_its_old_place,
            a_message_that_is_given_back_for_later_is_nobodys_till_then,
            what_is_given_back_for_later_takes_no_claim_to_delete,
            only_the_holder_gives_back,
            an_old_claim_has_no_say_over_what_it_gave_back,
            giving_back_prolongs_no_life,
        ],
        together: [
            each_request_gets_the_ids_of_its_own_messages,
            one_that_is_refused_does_not_concern_the_others,
            one_idempotency_key_is_one_post_and_tells_other_content,
        ],
        once: [
            a_repeated_post_has_the_first_answer,
            repeated_posts_at_once_are_one,
            a_key_with_other_content_is_refused,
            a_key_belongs_to_its_queue_and_client,
            a_post_that_stored_nothing_is_not_remembered,
            a_key_ends_with_its_queue,
        ],
        contention: [
            no_message_has_two_holders_at_once,
        ],
        identity: [
            an_id_with_the_right_rank_and_another_nonce_is_nobodys,
            an_id_between_and_beyond_the_messages_is_nobodys,
            ids_of_another_queue_open_nothing,
            ids_of_another_project_open_nothing,
            ids_of_an_earlier_queue_of_that_name_open_nothing,
            every_id_is_spelt_and_parsed_as_the_queues_own,
        ],
        expiry: [
            a_message_ends_on_the_whole_second_after_its_ttl,
            lists_gets_and_counts_agree_about_the_end,
            only_what_has_ended_goes,
            three_thousand_ends_at_once_are_one_for_the_first_reader,
            ended_messages_cannot_hide_those_behind_them,
            a_marker_whose_message_has_ended_stands_where_it_stood,
            the_age_of_a_message_is_counted_in_whole_seconds,
            deleting_an_ended_message_changes_nothing,
        ],
        clock: [
            nothing_lands_before_a_marker_when_the_clock_steps_back,
            a_clock_that_was_ahead_leaves_its_mark,
            ranks_follow_the_clock_once_it_has_caught_up,
            what_was_seen_to_end_does_not_come_back,
            a_ttl_counts_from_the_clock_and_not_from_the_rank,
        ],
        undoing: [
            a_withdrawn_claim_never_was,
            only_what_a_claim_still_holds_is_withdrawn,
            restored_messages_are_as_they_were,
            restored_messages_end_when_they_would_have,
            a_withdrawn_claim_prolongs_no_life,
            what_a_withdrawn_claim_prolonged_ends_when_it_would_have,
            nothing_is_restored_to_a_queue_that_is_gone,
            nothing_is_restored_to_a_successor_or_after_a_purge,
            a_restoration_happens_once,
        ],
        waiting: [
            a_post_calls,
            a_queue_that_is_not_there_yet_can_be_waited_for,
            the_end_of_a_delay_calls,
            the_end_of_a_delay_that_is_known_calls,
            the_end_of_a_claim_calls,
            the_end_of_a_claim_that_was_made_meanwhile_calls,
            a_release_calls,
            a_message_that_is_given_back_calls,
            messages_that_come_back_are_notified_with_their_lowest_position,
            an_empty_page_tells_how_far_the_query_got,
            a_shorter_renewal_calls_sooner,
            as_many_claimers_are_called_as_messages_come,
            each_message_of_a_fair_queue_calls_a_claimer,
            what_comes_back_to_a_fair_queue_calls,
            a_call_that_nobody_takes_up_is_passed_on,
            a_delayed_message_calls_who_reads_those_too,
            a_queue_can_be_watched_again,
            a_sight_tells_where_a_queue_stands,
            now_is_behind_a_clock_that_has_stepped_back,
        ],
        upkeep: [
            the_store_answers,
            a_round_ends_and_passes_every_project,
            what_has_ended_is_reclaimed_in_queues_that_nobody_touches,
            tidying_leaves_alone_what_lives,
            a_round_may_begin_behind_what_is_not_there,
            many_may_tidy_at_once,
        ],
        churn: [
            every_queue_that_exists_is_listed_whatever_happened,
            a_queue_that_is_created_and_deleted_by_many_is_one_queue,
        ],
        fair_turns: [
            neighbours_alternate_whosever_turn_it_was,
            tenants_side_by_side_get_the_same_share,
            any_backlogs_are_served_in_turn,
            the_turn_is_everybodys,
            shards_with_nothing_free_are_passed_over,
            the_oldest_of_a_shard_comes_first,
            the_feed_of_a_fair_queue_is_whole_and_by_rank,
            what_did_not_fit_into_an_answer_is_next_in_turn,
            a_plain_queue_looks_at_no_lots,
        ],
        fair_places: [
            a_message_goes_to_the_first_empty_shard_of_its_lot_or_the_shortest,
            each_message_of_a_batch_counts_for_the_next,
            delayed_messages_count_where_they_will_be_and_claimed_ones_do_not,
            messages_of_one_delay_are_placed_before_those_of_the_next,
            whatever_ends_a_claim_gives_back_into_the_same_shard,
            restored_messages_are_in_their_old_shard_and_place,
            what_ends_or_is_deleted_leaves_its_shard,
            a_purge_empties_all_shards_and_keeps_the_turn,
            a_queue_made_again_remembers_no_shards,
        ],
        fair_change: [
            more_shards_take_effect_at_once,
            shards_that_are_too_many_are_served_until_they_are_empty,
            counts_are_exact_however_often_a_queue_is_divided,
            the_backlog_of_a_plain_queue_has_a_turn_like_a_shard,
            what_is_popped_of_a_backlog_goes_back_into_it,
            a_queue_is_fair_until_its_last_sharded_message_is_gone,
            what_was_delayed_in_a_plain_queue_keeps_it_fair,
            what_is_restored_to_a_plain_queue_has_lost_its_shard,
            an_update_that_divides_nothing_anew_keeps_the_turn,
        ],
        fair_prefer: [
            a_preference_is_served_alone_and_leaves_the_turn,
            of_several_shards_the_one_with_the_oldest_is_first,
            without_what_is_preferred_a_claim_is_one_like_others,
            of_nine_preferring_claims_in_a_row_one_is_like_others,
            a_claim_in_vain_counts_for_nothing,
            the_shards_that_are_too_many_can_be_preferred,
            the_backlog_of_a_plain_queue_is_no_shard_to_prefer,
        ],
        fair_details: [
            details_tell_what_each_shard_has,
            details_of_a_plain_queue_are_all_unsharded,
            the_age_of_a_delayed_message_counts_from_when_it_was_due,
            tenants_are_told_by_their_share_of_what_is_posted,
            of_many_tenants_the_heavy_ones_are_told,
            a_tenant_takes_over_the_count_of_the_least,
            what_was_posted_long_ago_counts_less,
            tenants_are_remembered_for_most_of_an_hour,
            a_first_claim_tells_how_long_its_messages_have_waited,
            a_pop_tells_how_long_its_messages_have_waited,
        ],
        fair_letters: [
            a_dead_letter_has_its_turn_and_leaves_its_shard,
            a_pop_of_a_fair_queue_counts_and_obeys_the_count,
            dead_letters_go_to_the_shards_that_their_posters_draw,
            a_fair_queue_may_be_its_own_dead_letter_queue,
        ],
        model: [
            any_sequence_of_operations_does_what_a_plain_list_does,
        ],
    }
}
