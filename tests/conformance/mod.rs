//! The driver suite: every guarantee of the storage traits, tested for every driver.
//!
//! A case is an `async fn` over a [`subject::Subject`]. Its name states the rule, and the list
//! below has it under its file. Each case is one test per driver:
//! `conformance::DRIVER::FILE::CASE`. A new driver is one word in that list and a function of that
//! name in `drivers`. Cases that only apply to one driver are not in the list; they have files of
//! their own.

#[cfg(not(feature = "movable-clock"))]
compile_error!("the tests move the store's clock: run them with `--features movable-clock`");

mod cases;
mod model;
mod support;

// The driver comes first in a test's name, so that tests of one driver run next to each other and
// share its servers.
macro_rules! suite {
    (drivers: [$($driver:ident),+], cases: $cases:tt) => { $(suite! { $driver $cases })+ };
    ($driver:ident { $($file:ident: [$($case:ident),+ $(,)?]),+ $(,)? }) => {
        mod $driver {
            $(mod $file {
                $(#[tokio::test]
                async fn $case() {
                    let subject = crate::conformance::support::drivers::$driver();
                    crate::conformance::cases::$file::$case(&subject).await;
                    subject.assert_consistent().await;
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
            creating_an_existing_queue_changes_nothing,
            a_queue_that_was_never_created_does_not_exist,
            any_json_metadata_is_returned_unchanged,
            an_update_replaces_the_metadata,
            updating_a_changed_queue_is_rejected_as_stale,
            exactly_one_of_concurrent_updates_succeeds,
            updating_a_missing_queue_is_stale_and_creates_nothing,
            an_update_does_not_change_the_messages,
            deleting_again_has_no_effect,
            deleting_a_queue_deletes_its_messages,
            a_recreated_queue_never_repeats_a_revision,
            ids_of_a_recreated_queue_follow_those_of_its_predecessor,
            queues_with_the_same_name_in_two_projects_are_independent,
        ],
        queue_list: [
            queues_are_listed_in_byte_order_of_their_names,
            a_list_can_start_after_any_text,
            pages_of_queues_are_full_and_cover_the_whole_list,
            a_list_examines_a_bounded_number_of_names,
            a_list_shows_the_metadata_and_revision_of_each_queue,
            a_list_skips_deleted_queues,
            lists_and_counts_include_only_their_own_project,
        ],
        posting: [
            a_post_is_stored_in_the_order_given,
            the_messages_of_a_post_have_consecutive_ranks,
            concurrent_posts_do_not_interleave,
            a_post_to_a_missing_queue_stores_nothing,
            a_post_to_a_changed_queue_stores_nothing_and_returns_the_queue,
            a_large_post_becomes_visible_atomically,
            a_post_accepts_1000_messages,
            any_json_body_is_returned_unchanged,
            every_message_keeps_its_own_ttl,
        ],
        trace_contexts: [
            a_message_keeps_the_trace_context_of_its_post,
            a_dead_letter_keeps_its_trace_context,
            concurrent_posts_keep_their_own_trace_contexts,
        ],
        feed: [
            a_list_after_a_marker_returns_the_messages_that_follow_it,
            pages_of_any_size_cover_the_whole_feed,
            a_marker_keeps_its_position_when_its_message_is_deleted,
            a_marker_at_the_last_message_returns_the_next_post,
            a_reader_that_follows_the_feed_sees_every_message_once,
            a_list_can_exclude_the_messages_of_the_caller,
            two_thousand_excluded_messages_do_not_hide_later_ones,
            a_page_is_empty_only_at_the_end,
            a_page_can_have_a_thousand_messages,
        ],
        large_messages: [
            pages_of_large_messages_are_short_and_complete,
            pops_of_large_messages_are_short_and_lose_nothing,
            claims_of_large_messages_leave_the_rest_available,
            a_get_returns_all_requested_large_messages,
        ],
        messages_by_id: [
            messages_are_returned_in_the_requested_order,
            ids_of_missing_messages_are_skipped,
            a_list_and_a_get_return_the_same_message,
            an_empty_list_of_ids_affects_no_messages,
            deleting_removes_only_the_given_messages,
            deleting_again_has_no_effect,
            a_thousand_messages_can_be_read_and_deleted_at_once,
            the_count_follows_every_change,
        ],
        pops_and_stats: [
            a_pop_removes_the_oldest_messages,
            a_pop_beyond_the_end_returns_all_messages,
            concurrent_pops_deliver_each_message_once,
            a_pop_skips_expired_messages,
            stats_show_the_count_and_the_oldest_and_newest_message,
            stats_exclude_expired_messages,
        ],
        claims: [
            a_claim_takes_the_oldest_available_messages,
            no_claim_is_created_when_no_message_is_available,
            expired_messages_are_not_claimed,
            claimed_messages_are_hidden_and_still_counted,
            a_list_that_includes_claimed_messages_is_in_feed_order,
            many_own_claimed_messages_do_not_hide_later_ones,
            a_released_claim_returns_its_messages_at_their_old_positions,
            an_expired_claim_returns_its_messages_at_their_old_positions,
            a_claim_expires_exactly_after_its_ttl,
            a_renewal_restarts_the_ttl_and_the_age,
            a_renewal_can_shorten_a_claim,
            a_claim_shows_only_the_messages_that_it_still_holds,
            a_claim_id_is_valid_only_in_its_own_queue_and_project,
            deleting_a_queue_deletes_its_claims,
            a_thousand_claims_that_expire_together_are_all_returned_to_the_next_reader,
            a_claim_can_hold_a_thousand_messages,
            two_thousand_claimed_messages_do_not_hide_later_ones,
            a_claim_stays_live_when_the_clock_steps_back,
            an_expired_claim_stays_expired_when_the_clock_steps_back,
        ],
        fences: [
            the_fence_of_a_claim_is_the_time_or_follows_the_last_one,
            a_claim_keeps_its_fence,
            fences_rise_after_a_purge_and_in_a_recreated_queue,
        ],
        life_extension: [
            a_message_that_would_expire_before_its_claim_is_extended,
            an_extended_message_expires_exactly_after_ttl_and_grace,
            a_renewal_extends_the_messages_again,
            a_renewal_never_shortens_the_life_of_a_message,
            a_release_does_not_revoke_the_extension,
            short_claims_do_not_change_when_a_message_expires,
            the_next_claim_extends_the_message_again,
        ],
        claimed_deletion: [
            a_claimed_message_can_be_deleted_only_with_its_claim,
            an_expired_claim_allows_no_deletion,
            a_bulk_deletion_of_claimed_messages_is_all_or_nothing,
            deleting_by_id_requires_no_claim,
        ],
        delay: [
            a_delayed_message_is_not_delivered_until_it_is_due,
            a_delayed_message_can_be_read_counted_and_deleted,
            a_list_can_include_delayed_messages,
            a_page_says_whether_the_queue_has_delayed_messages,
            each_message_of_a_post_is_released_when_it_is_due,
            a_released_message_follows_every_marker,
            a_post_whose_ranks_reach_a_delayed_message_releases_it,
            a_delay_has_its_full_length_when_ranks_are_ahead_of_the_clock,
            delayed_messages_keep_order_and_delay_when_the_clock_steps,
            posts_follow_released_messages_when_the_clock_steps_back,
            ranks_are_unique_among_delayed_and_other_messages,
            messages_of_a_post_with_the_same_delay_are_consecutive,
            the_first_reader_sees_thousands_of_messages_that_are_due_together,
            no_message_is_due_earlier_when_the_clock_steps_back,
            a_released_message_stays_released_when_the_clock_steps_back,
            a_message_can_expire_before_it_is_due,
            purging_and_deleting_a_queue_remove_delayed_messages,
        ],
        dead_letters: [
            a_message_is_delivered_at_most_max_claim_count_times,
            a_dead_letter_is_a_new_message_with_the_same_body,
            dead_letters_are_appended_in_the_order_in_which_they_are_moved,
            a_pop_moves_messages_that_have_reached_max_claim_count,
            the_claim_count_is_kept_when_a_claim_ends,
            a_renewal_does_not_count_as_a_delivery,
            claims_are_not_counted_without_complete_dead_letter_metadata,
            a_max_claim_count_of_zero_delivers_no_message,
            a_dead_letter_keeps_its_expiry_unless_the_queue_sets_a_ttl,
            a_dead_letter_can_become_a_dead_letter_again,
            a_queue_can_be_its_own_dead_letter_queue,
            a_dead_letter_moves_once_per_delivery,
            an_undelivered_dead_letter_does_not_move_again,
            dead_letters_arrive_after_their_source_queue_is_deleted,
            a_deleted_dead_letter_queue_is_created_again_when_needed,
            dead_letters_of_concurrent_claimers_arrive_once,
        ],
        returning: [
            a_returned_message_is_available_at_its_old_position,
            a_message_returned_with_a_delay_is_unavailable_until_it_is_due,
            a_message_returned_with_a_delay_can_be_deleted_without_a_claim,
            only_the_claim_that_holds_a_message_can_return_it,
            a_claim_has_no_rights_to_a_message_that_it_returned,
            returning_a_message_does_not_extend_its_life,
        ],
        concurrent_posts: [
            each_request_gets_the_ids_of_its_own_messages,
            a_rejected_post_does_not_affect_the_others,
            one_idempotency_key_stores_one_post_and_detects_other_content,
        ],
        idempotency: [
            a_repeated_post_returns_the_first_response,
            concurrent_repeated_posts_store_the_messages_once,
            a_key_with_other_content_is_rejected,
            a_key_belongs_to_its_queue_and_client,
            a_post_that_stored_nothing_is_not_remembered,
            deleting_the_queue_deletes_its_keys,
        ],
        contention: [
            a_message_has_at_most_one_holder,
        ],
        message_ids: [
            an_id_with_the_right_rank_and_another_nonce_matches_nothing,
            an_id_with_an_unused_rank_matches_nothing,
            ids_of_another_queue_match_nothing,
            ids_of_another_project_match_nothing,
            ids_of_a_deleted_queue_match_nothing_in_its_successor,
            every_id_survives_formatting_and_parsing,
        ],
        expiry: [
            a_message_expires_on_the_whole_second_after_its_ttl,
            lists_gets_and_counts_agree_on_expiry,
            only_expired_messages_are_removed,
            the_first_reader_sees_three_thousand_messages_expire_together,
            expired_messages_do_not_hide_later_ones,
            a_marker_keeps_its_position_when_its_message_expires,
            the_age_of_a_message_is_in_whole_seconds,
            deleting_an_expired_message_changes_nothing,
        ],
        clock: [
            posts_follow_every_marker_when_the_clock_steps_back,
            ranks_stay_ahead_after_the_clock_was_ahead,
            ranks_follow_the_clock_once_it_has_caught_up,
            an_expired_message_stays_expired_when_the_clock_steps_back,
            a_ttl_counts_from_the_clock_not_from_the_rank,
        ],
        undelivered: [
            a_withdrawn_claim_leaves_no_trace,
            a_withdrawal_returns_only_messages_that_the_claim_still_holds,
            restored_messages_are_unchanged,
            restored_messages_expire_at_their_original_time,
            a_withdrawn_claim_does_not_extend_its_messages,
            messages_of_a_withdrawn_claim_expire_at_their_original_time,
            nothing_is_restored_to_a_deleted_queue,
            nothing_is_restored_to_a_recreated_or_purged_queue,
            messages_are_restored_only_once,
        ],
        waiting: [
            a_post_wakes_waiters,
            a_waiter_can_wait_for_a_queue_that_does_not_exist_yet,
            the_end_of_a_delay_wakes_waiters,
            the_end_of_a_delay_that_began_earlier_wakes_waiters,
            the_expiry_of_a_claim_wakes_waiters,
            the_expiry_of_a_claim_created_during_the_wait_wakes_waiters,
            a_release_wakes_waiters,
            a_returned_message_wakes_waiters,
            a_notification_has_the_lowest_position_of_returned_messages,
            an_empty_page_says_how_far_the_query_got,
            a_renewal_that_shortens_a_claim_wakes_waiters_sooner,
            one_claimer_is_woken_per_message,
            each_message_of_a_fair_queue_wakes_a_claimer,
            messages_returned_to_a_fair_queue_wake_waiters,
            an_unused_wake_up_is_passed_to_the_next_waiter,
            a_delayed_message_wakes_readers_that_include_delayed_messages,
            a_queue_can_be_watched_again,
            the_queue_status_shows_counts_and_positions,
            the_position_does_not_go_back_when_the_clock_steps_back,
        ],
        maintenance: [
            the_store_answers_a_ping,
            a_maintenance_round_ends_and_covers_every_project,
            expired_messages_are_reclaimed_in_unused_queues,
            maintenance_keeps_live_messages,
            a_maintenance_round_can_start_after_a_missing_queue,
            maintenance_can_run_concurrently,
        ],
        churn: [
            the_list_matches_the_queues_that_exist_under_churn,
            a_queue_created_and_deleted_concurrently_never_repeats_a_rank,
        ],
        fair_turns: [
            two_shards_alternate_from_any_starting_turn,
            concurrent_tenants_get_equal_shares,
            random_backlogs_are_served_in_turn,
            concurrent_consumers_share_one_turn,
            shards_without_available_messages_are_skipped,
            the_oldest_message_of_a_shard_is_served_first,
            the_feed_of_a_fair_queue_is_complete_and_in_rank_order,
            messages_that_did_not_fit_into_a_response_are_served_next,
            a_plain_queue_ignores_shard_assignments,
        ],
        fair_placement: [
            a_message_goes_to_the_first_empty_or_else_the_shortest_assigned_shard,
            each_message_of_a_batch_counts_for_the_next,
            placement_counts_delayed_messages_but_not_claimed_ones,
            messages_of_one_delay_are_placed_before_those_of_the_next,
            messages_return_to_their_shard_however_a_claim_ends,
            restored_messages_have_their_old_shard_and_position,
            expired_and_deleted_messages_leave_their_shard,
            a_purge_empties_all_shards_and_keeps_the_turn,
            a_recreated_queue_has_no_old_shards,
        ],
        fair_shard_changes: [
            more_shards_take_effect_immediately,
            surplus_shards_are_served_until_they_are_empty,
            counts_stay_exact_when_the_number_of_shards_changes,
            the_unsharded_backlog_is_served_in_turn_like_a_shard,
            messages_popped_from_the_backlog_are_restored_to_it,
            a_queue_is_fair_until_its_last_sharded_message_is_gone,
            messages_delayed_before_the_queue_became_fair_keep_it_fair,
            messages_restored_to_a_plain_queue_have_no_shard,
            an_update_that_keeps_the_number_of_shards_keeps_the_turn,
        ],
        fair_preference: [
            a_preferring_claim_serves_only_preferred_shards_and_keeps_the_turn,
            among_preferred_shards_the_one_with_the_oldest_message_is_first,
            a_claim_whose_preferred_shards_are_empty_is_served_in_turn,
            every_ninth_preferring_claim_is_served_in_turn,
            an_empty_preferring_claim_is_not_counted,
            surplus_shards_can_be_preferred,
            the_unsharded_backlog_cannot_be_preferred,
        ],
        fair_details: [
            detailed_stats_show_the_counts_of_each_shard,
            detailed_stats_of_a_plain_queue_are_all_unsharded,
            the_age_of_a_delayed_message_counts_from_its_due_time,
            detailed_stats_show_each_tenants_share_of_posts,
            detailed_stats_show_the_heaviest_of_many_tenants,
            a_new_tenant_inherits_the_count_of_the_smallest_one,
            older_posts_count_less,
            tenants_are_remembered_for_most_of_an_hour,
            a_first_claim_reports_the_pick_up_delay_of_its_messages,
            a_pop_reports_the_pick_up_delay_of_its_messages,
        ],
        fair_dead_letters: [
            a_dead_letter_uses_its_turn_and_leaves_its_shard,
            a_pop_of_a_fair_queue_respects_max_claim_count,
            dead_letters_go_to_the_shards_assigned_to_their_tenants,
            a_fair_queue_can_be_its_own_dead_letter_queue,
        ],
        model: [
            any_sequence_of_operations_matches_the_model,
        ],
    }
}
