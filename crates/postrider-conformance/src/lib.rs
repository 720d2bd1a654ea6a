//! The promises of a store, one named test per case. A store is complete when every case passes. A bug found in one
//! store becomes a case for all stores.
//!
//! The author of a store implements [`Harness`] and gets the whole suite in one line:
//!
//! ```text
//! mod my_store {
//!     postrider_conformance::suite!(super::MyHarness::fresh().await);
//! }
//! ```
//!
//! `cargo test` then lists `my_store::claim::limit_is_exact` and the other cases. Each module is named after the verb
//! of [`postrider::Store`] that it tests. The table in `suite!` lists every case. Cases age stored times with
//! [`Age`](postrider::testing::Age), so no case sleeps until a lease expires.

// Helpers panic on the first unexpected result, which fails the case.
#![allow(clippy::unwrap_used)]

mod harness;
pub mod hostile;
mod steps;

pub mod access;
pub mod alerts;
pub mod arrived;
pub mod attempts;
pub mod bury;
pub mod change_subscription;
pub mod claim;
pub mod claim_keyed;
pub mod consumption;
pub mod count_events;
pub mod discard;
pub mod end_subscription;
pub mod enqueue;
pub mod expire;
pub mod extend;
pub mod figures;
pub mod find;
pub mod fold;
pub mod idempotency;
pub mod idempotency_run;
pub mod inbox;
pub mod instances;
pub mod jobs;
pub mod jobs_run;
pub mod key_order;
pub mod lease;
pub mod lineage;
pub mod list;
pub mod migrate;
pub mod operations;
pub mod plans;
pub mod probe;
pub mod promises;
pub mod prune;
pub mod publish;
pub mod redrive;
pub mod redrive_event;
pub mod relay;
pub mod release;
pub mod rename_consumer;
pub mod retry;
pub mod rolling;
pub mod route;
pub mod search;
pub mod settle;
pub mod stories;
pub mod subscription_limits;
pub mod subscriptions;
pub mod testing;
pub mod transport;
pub mod views;

pub use harness::{Conn, Features, Harness, Tx};
pub use transport::{Carrier, InProcess};

/// The time limit of one case, generous for a busy machine. Without it a lost wake-up would block the run for ever.
#[doc(hidden)]
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(240);

/// All cases of the suite. The expression makes the harness; it is evaluated once per case, inside an `async fn`.
#[macro_export]
macro_rules! suite {
    ($harness:expr) => {
        $crate::cases! { $harness;
            enqueue {
                commit_writes_the_event_and_the_change
                rollback_leaves_neither_event_nor_change
                a_transaction_dropped_in_a_crash_leaves_nothing
                every_field_of_an_event_comes_back
                the_same_event_twice_is_a_duplicate
                the_same_id_with_other_content_is_a_conflict
                the_same_id_twice_in_one_batch
                concurrent_duplicates_store_one_event
                concurrent_conflicts_store_one_event
                ids_are_compared_byte_for_byte
                answers_come_in_the_order_of_the_batch
                an_earlier_id_that_commits_later_is_still_delivered
                a_clock_that_is_ten_minutes_off_harms_nothing
                odd_text_comes_back_as_it_went_in
                an_unreadable_payload_is_refused
                a_payload_of_the_largest_size_comes_back_intact
                a_batch_larger_than_a_packet_of_the_database_is_written
                what_is_over_a_limit_is_refused_by_name_and_nothing_is_written
                unheard_is_kept_by_default
                unheard_is_skipped_where_asked
                unheard_is_refused_where_asked
                without_a_transaction_nothing_is_written
                a_statement_writes_what_enqueue_writes
                metadata_names_what_the_columns_do_not
            }
            publish {
                a_subscribed_event_is_stored_with_its_deliveries
                an_event_without_subscribers_is_skipped
                the_same_event_twice_is_a_duplicate
                a_batch_is_one_transaction
                concurrent_duplicates_store_one_event
                a_batch_stops_at_its_limit
                a_child_without_a_trace_continues_its_parents
            }
            arrived {
                only_plain_inserts_arrive
                an_idle_relay_finds_a_plain_insert_soon
            }
            rolling {
                a_rolling_deployment_kills_and_strands_nothing
            }
            route {
                each_enabled_lane_gets_one_delivery
                topic_and_star_together_deliver_once
                topics_are_compared_byte_for_byte
                disabled_and_removed_subscriptions_get_nothing
                the_consumers_of_the_broker_share_its_lane
                external_consumers_are_expected_and_get_no_delivery
                a_subscription_counts_for_events_written_after_it
                a_plain_insert_is_routed_and_delivered
                a_plain_insert_without_subscribers_is_unheard
                an_insert_with_the_databases_own_shell_is_delivered
                an_unheard_event_is_routed_after_a_subscription
                an_unheard_event_is_routed_after_a_star_subscription
                a_pass_takes_no_more_than_its_limit
                concurrent_routers_share_the_work
                a_redriven_unheard_event_is_not_delivered_twice
            }
            claim {
                limit_is_exact
                a_claim_is_bounded_in_bytes
                limit_of_nothing_or_too_much_is_refused
                eight_claimers_never_share_a_delivery
                a_backlog_hides_nothing_in_front_of_it
                never_waits_for_locked_deliveries
                timeline_of_two_instances
                oldest_come_first
                keyed_deliveries_are_left_alone
                other_lanes_are_left_alone
                a_leased_delivery_is_not_claimed_again
                lock_expiry_lets_another_instance_claim
                attempts_count_at_the_claim_until_they_are_exhausted
                a_delayed_event_waits_until_it_is_due
                an_expired_event_is_flagged
                a_subset_of_shards_gets_only_its_own
                what_is_leased_and_cannot_be_read_is_a_warning
            }
            claim_keyed {
                a_run_is_gapless_and_in_order
                unkeyed_deliveries_are_left_alone
                limit_is_exact
                a_held_key_is_not_claimed_by_another
                a_locked_head_is_neither_waited_for_nor_overtaken
                an_expired_run_is_claimed_again
                a_failing_head_keeps_its_key_waiting
                a_delayed_head_keeps_its_key_waiting
                a_run_ends_before_a_delay
                a_dead_head_holds_its_key
                a_dead_head_is_skipped_where_asked
                a_change_of_policy_frees_held_deliveries
                a_redriven_dead_head_keeps_its_place_and_frees_its_followers
                a_redriven_failed_head_pulls_its_followers
                a_failure_releases_the_rest_of_its_run_uncounted
                followers_of_a_dead_head_do_not_starve_other_keys
                a_redrive_beside_claimers_strands_no_delivery
                keys_are_compared_byte_for_byte
                a_key_is_ordered_within_its_lane_only
                a_subset_of_shards_gets_only_its_own
                a_backlog_hides_no_key_in_front_of_it
                four_claimers_keep_the_order_of_every_key
                four_claimers_keep_the_order_of_a_backlog
                four_claimers_keep_the_order_where_dead_heads_are_skipped
            }
            extend {
                the_lease_runs_from_now
                an_expired_lease_can_be_extended_until_the_next_claim
                zombie_extends_nothing
            }
            settle {
                a_settled_delivery_is_deleted
                without_history_leaves_no_trace
                with_history_appends_the_success
                an_expired_lease_can_be_settled_until_the_next_claim
                zombie_settles_nothing
                zombie_with_the_same_owner_name_settles_nothing
                zombie_settles_nothing_after_the_row_was_made_anew
                a_foreign_delivery_in_the_call_is_left_alone
                out_of_order_is_refused
                a_run_is_settled_together
                lengthened_leases_are_settled_with_the_others
                a_settle_during_an_extension_counts
            }
            retry {
                makes_it_due_later_with_its_error
                zombie_retries_nothing
                history_is_numbered_without_gap
                without_history_leaves_no_trace
                an_error_of_any_text_is_saved_and_cut
            }
            bury {
                only_a_redrive_brings_it_back
                zombie_buries_nothing
                with_history_appends_the_failure
                an_untried_burial_does_not_count_its_claim
                an_error_of_any_text_is_saved_and_cut
            }
            release {
                gives_the_attempt_back
                what_was_tried_before_is_still_failed
                zombie_releases_nothing
            }
            redrive {
                a_waiting_delivery_is_due_now
                a_dead_delivery_is_due_now_with_its_attempts_reset
                a_finished_delivery_is_made_anew
                a_consumer_that_came_later_gets_the_event
                a_delivery_being_worked_on_is_refused
                a_delivery_whose_lease_ran_out_is_taken_from_its_holder
                an_expired_event_is_refused
                an_unknown_event_is_refused
                a_target_has_a_delivery_of_its_own
                a_target_is_settled_by_itself
            }
            subscriptions {
                registering_never_overwrites
                what_was_disabled_stays_disabled
                what_was_removed_stays_removed
                setting_brings_a_removed_one_back
                a_change_counts_for_the_next_event
                removing_an_absent_subscription_returns_false
                removed_ones_are_listed_apart
                are_listed_in_order
                every_field_comes_back
                concurrent_registrations_make_one
                bad_ones_are_refused_by_name
            }
            change_subscription {
                what_waits_follows_every_change_of_via
                what_is_in_a_queue_stays_there
                other_consumers_of_the_broker_go_on
                what_waits_for_a_disabled_one_is_delivered
                a_second_via_is_refused
                a_moved_key_stays_in_order
                a_change_may_ask_for_a_version
                a_webhook_may_have_its_own_secret
                concurrent_changes_leave_one_via
                what_a_producer_wrote_late_moves_with_a_second_call
                a_new_topic_is_registered_with_the_via_of_its_consumer
                a_change_in_the_table_counts
            }
            end_subscription {
                a_removal_is_refused_while_deliveries_wait
                what_waits_is_delivered_to_the_end
                what_waits_is_discarded_with_a_reason
                other_subscriptions_keep_their_deliveries
                a_discard_frees_the_keys_of_other_topics
            }
            subscription_limits {
                a_rate_is_kept_and_changed_while_the_relay_runs
                retries_that_are_due_together_keep_the_rate
                a_timeout_is_kept
                attempts_are_limited
                a_lane_rests_while_its_consumer_has_another_via
                what_waits_for_a_removed_consumer_is_delivered
                a_relay_moves_what_was_written_late
            }
            rename_consumer {
                everything_moves_to_the_new_name
                what_was_consumed_is_not_consumed_again
                a_transaction_under_the_old_name_is_rolled_back
                a_rename_beside_an_open_transaction_has_one_effect
                a_worker_may_still_write_what_it_holds
                a_key_stays_in_order
                a_restart_changes_nothing
                an_expected_report_comes_under_the_new_name
                what_is_left_moves_with_a_second_call
                bad_names_are_refused
                concurrent_renames_have_one_winner
            }
            consumption {
                reports_are_numbered_from_one
                concurrent_reports_are_numbered_without_gap_or_repeat
                a_repeated_callback_is_the_same_attempt
                a_callback_repeated_at_once_is_the_same_attempt
                an_unexpected_report_is_refused
                every_field_comes_back
                an_error_of_any_text_is_saved_and_cut
            }
            inbox {
                a_second_receive_is_false
                concurrent_receives_have_one_effect
                two_consumers_of_one_event_both_get_it
                a_rollback_leaves_nothing
                complete_ends_the_delivery_with_its_effect
                complete_without_history_leaves_no_trace
                complete_with_a_lost_lease_is_refused_and_rolls_back
                complete_without_an_inbox_row_is_refused
                complete_out_of_order_is_refused
                a_swallowed_database_error_loses_nothing
                receive_many_answers_for_each
                complete_ends_a_batch
                complete_of_a_batch_is_all_or_nothing
            }
            idempotency {
                the_first_begins_and_the_next_is_in_progress
                a_result_is_returned_again
                another_request_is_a_mismatch_before_anything_else
                an_abandoned_key_is_taken_over
                a_late_completion_by_the_old_holder_writes_nothing
                a_failed_key_may_be_tried_again
                a_failed_key_is_retried_by_one_of_two
                concurrent_beginners_have_one_winner
                scopes_are_apart
                a_rolled_back_key_was_never_taken
                an_error_of_any_text_is_saved
                a_joined_key_goes_with_its_transaction
                a_zombie_joins_and_extends_nothing
                an_extended_key_is_not_taken_over
                a_joined_key_stays_in_progress_after_its_lease
            }
            idempotency_run {
                a_repeat_gets_the_first_result
                two_at_the_same_moment_have_one_effect
                in_progress_and_mismatch_are_distinguished
                scopes_are_apart
                an_abandoned_key_is_taken_over
                a_late_holder_has_no_effect
                a_failed_handler_leaves_no_effect
                a_failure_is_recorded_and_retried_by_one
                a_swallowed_database_error_keeps_nothing_half
                in_the_callers_transaction_all_of_it_or_nothing
                a_retried_call_gets_attempt_again
                a_long_call_keeps_its_lease
                a_result_of_any_text_comes_back_up_to_its_limit
                a_key_stops_at_its_limit
            }
            lease {
                has_one_holder
                concurrent_seekers_have_one_winner
                is_taken_over_once_it_ran_out
                is_extended_by_its_holder_only
                is_released_by_its_holder_only
                names_are_apart
            }
            jobs {
                a_slot_is_begun_once
                concurrent_instances_have_one_winner
                a_running_job_is_not_begun_beside_itself
                a_slot_that_has_not_come_is_refused
                a_crashed_run_is_followed_once_its_lease_is_over
                a_late_holder_writes_nothing
                the_lease_is_extended_from_now
                a_run_by_hand_is_no_slot
                everything_can_be_read
                a_plan_is_kept_until_it_changes
                concurrent_plans_make_one_job
                names_are_apart
                an_outcome_of_any_text_is_saved_and_cut
                bad_ones_are_refused_by_name
            }
            jobs_run {
                three_instances_fire_each_slot_once
                missed_slots_cause_one_run
                missed_slots_are_skipped_where_asked
                run_now_fires_outside_of_a_slot
                a_long_run_keeps_its_lease
            }
            access {
                a_token_is_found_by_its_hash_alone
                every_role_comes_back
                a_taken_id_or_hash_is_refused
                invalid_token_names_are_refused
                a_revoked_token_is_not_found
                the_last_use_is_recorded_to_the_minute
                tokens_are_listed_by_their_creation
                a_session_resolves_to_its_token
                an_ended_session_is_over
                a_session_ends_when_idle_and_when_old
                a_revoked_token_ends_its_sessions
                the_audit_is_read_newest_first_page_by_page
                every_field_of_a_record_comes_back_cut_to_its_limit
                a_token_has_a_scope_and_an_end
                the_audit_is_a_chain
                a_change_commits_with_its_record
            }
            find {
                an_unknown_event_is_not_found
                deliveries_are_listed_by_lane
                every_expected_consumer_begins_with_attempt_0
                a_lease_is_shown_with_its_owner_and_times
                counts_are_by_lane_and_status
                oldest_pending_is_the_wait_of_the_oldest_due
                next_due_is_the_time_until_something_can_be_claimed
                times_are_the_databases
                sight_returns_committed_events_only
                a_lane_is_paused_until_it_is_resumed
            }
            fold {
                a_new_event_is_pending
                a_lane_takes_its_event_through_the_table
                reports_take_their_event_through_the_table
                the_broker_takes_its_event_through_the_table
                time_alone_expires_an_event
                without_history_there_is_no_mark
                a_status_has_the_time_at_which_it_began
                any_order_of_callbacks_and_folds_ends_in_the_same_status
                sixty_four_callbacks_at_once
                a_mark_that_commits_late_is_folded
                a_folder_killed_half_way_loses_nothing
                another_roll_up_goes_on_when_one_dies
                a_pruned_event_leaves_no_status
            }
            list {
                pages_come_newest_first_without_gap_or_repeat
                every_filter_finds_its_events
                statuses_and_deliveries_are_listed_as_they_stand
                several_statuses_are_one_list
                events_without_a_subscriber_are_listed
                times_bound_a_list
                few_among_many_are_found_page_by_page
                pages_of_two_filters_are_full
                an_event_that_commits_late_is_listed_at_once
                an_event_that_commits_very_late_is_listed_too
                what_cannot_be_asked_is_refused
                odd_values_are_compared_byte_for_byte
            }
            attempts {
                a_consumer_has_a_history_by_time
                pages_of_a_history_have_no_gap_and_no_repeat
            }
            promises {
                everything_holds_after_a_long_day
                repeats_that_the_inbox_stopped_are_counted
                a_deleted_delivery_is_lost
                a_lane_without_history_loses_nothing
                a_doubled_effect_is_found
                whatever_is_stuck_is_named
                a_swapped_order_is_found
                a_service_checks_its_own_books
                results_are_kept_for_a_day
                one_instance_checks_the_promises
                the_shown_statements_run
            }
            count_events {
                few_events_are_counted_exactly
                many_events_are_estimated_and_rare_ones_are_exact
                facets_divide_the_events
                topics_show_who_subscribes_and_what_waits
            }
            search {
                whole_ids_are_found
                beginnings_are_found_from_six_characters_up
                keys_and_aggregates_are_found_by_their_beginning
                signs_of_patterns_mean_themselves
                consumers_and_topics_are_found_by_a_part
            }
            lineage {
                a_trace_is_a_tree_and_a_timeline
                parents_and_children_of_an_event
                a_cycle_is_shown_once
                a_trace_that_is_too_large_is_cut
                the_newest_traces_come_first
            }
            redrive_event {
                only_unfinished_consumers_receive
                a_named_consumer_alone_receives
                remote_consumers_are_redriven_one_by_one
                an_event_sent_recently_is_refused
                limits_end_redriving
                an_event_that_still_waits_uses_up_no_redrive
                what_is_held_or_expired_is_refused
                a_new_consumer_gets_old_events
                redrives_at_once_happen_one_after_the_other
                a_redriven_head_frees_its_key
            }
            expire {
                an_event_is_expired_by_hand
                a_consumed_event_is_refused
                an_expired_unrouted_event_is_never_routed
                an_expired_head_frees_its_key
                late_reports_are_kept
            }
            discard {
                a_delivery_ends_with_its_reason
                other_consumers_go_on
                a_discarded_head_frees_its_key
                a_discarded_delivery_may_be_redriven
                what_cannot_be_discarded_is_refused
                a_discard_beside_a_consumer_has_one_winner
            }
            key_order {
                a_skipped_key_goes_on_and_stops_again
                what_is_leased_goes_on_when_its_key_stops
                a_later_dead_event_stops_the_key_again
                a_redriven_head_is_in_front_again
                other_keys_and_lanes_stay_as_they_are
                only_a_key_with_a_dead_event_is_changed
                a_change_is_recorded_with_before_and_after
                a_delivery_names_what_it_waits_for
                skips_beside_claimers_lose_nothing
                a_running_relay_obeys
            }
            stories {
                effects_are_kept_and_read_back
                a_compensation_undoes_its_effects
                repeats_and_keys_are_told
                open_deliveries_are_told
                rows_of_other_tenants_are_not_told
                a_long_story_is_cut
                a_lane_without_history_is_told
                rows_are_found_by_exact_names
            }
            operations {
                everything_that_matches_is_redriven_once
                refusals_are_counted
                it_is_paused_resumed_and_cancelled
                a_zombie_advances_nothing
                workers_that_die_redrive_nothing_twice
                it_keeps_its_rate
                creating_it_twice_makes_one
                a_stopped_worker_releases_its_operation
            }
            plans {
                a_ramp_stops_by_itself_and_finishes_after_the_repair
                a_worker_dies_in_the_middle_of_a_step
                a_gate_waits_no_longer_than_its_time
                a_ramp_is_paused_and_cancelled
                chosen_events_are_redriven
                a_failure_group_is_redriven
                items_and_dry_run_name_the_rules
                results_come_after_the_end
                the_oldest_come_first_if_asked
                a_stop_is_audited
                operations_go_with_their_events
            }
            figures {
                minutes_count_each_change_once
                failures_are_grouped_by_consumer_and_kind
                holdings_list_each_lease_with_its_owner
                oldest_due_is_the_longest_wait_of_each_lane
                dead_letters_tell_what_waits_behind_them
                old_operations_and_figures_are_pruned
            }
            probe {
                many_at_once_leave_nothing
            }
            prune {
                a_batch_looks_at_no_more_than_its_limit
                waiting_unheard_and_young_events_are_kept
                attempts_are_removed_with_their_event
                a_pruned_id_may_be_used_again
                old_inbox_rows_are_removed
                old_keys_are_removed_unless_held
                a_redrive_beside_the_pruner_is_not_lost
                pruning_beside_producers_and_claimers_loses_nothing
                finished_events_are_archived_before_removal
                without_its_archive_nothing_is_removed
                what_is_not_finished_any_more_is_kept
            }
            relay {
                every_event_has_its_effect_once
                two_relays_share_the_work
                a_failing_consumer_delays_no_other
                a_failure_is_tried_again_when_it_is_due
                the_tenth_failure_is_the_last
                a_policy_may_depend_on_the_code
                what_kills_its_workers_ends_dead
                attempts_of_dead_workers_are_in_the_history
                a_dead_letter_that_arrived_all_the_same_has_one_effect
                a_bad_event_harms_only_itself
                an_unreadable_payload_is_buried_alone
                a_payload_of_another_version_is_upcast_or_waits
                a_consumer_that_swallows_a_database_error_is_tried_again
                a_duplicate_is_settled_without_an_effect
                events_of_a_key_are_consumed_in_order
                a_dead_head_holds_or_is_skipped
                a_batch_is_one_transaction
                a_batch_is_of_its_topic_and_no_larger_than_asked_for
                a_failed_event_does_not_affect_its_batch
                a_drain_ends_with_the_last_of_all_lanes
                a_child_inherits_trace_and_parent
                a_commit_wakes_the_relay
                a_due_time_wakes_the_relay
                a_redrive_wakes_the_relay
                plain_inserts_and_unheard_events_reach_a_running_relay
                registered_consumers_get_what_is_written_before_the_relay_starts
                an_operators_choice_survives_a_restart
                a_paused_lane_is_left_alone
                a_consumer_is_renamed_while_it_runs
                an_expired_event_is_removed_without_a_try
                a_relay_serves_only_its_lanes_and_shards
                shutdown_finishes_what_was_begun_and_releases_the_rest
                what_outlasts_the_grace_is_left_to_its_lease
                slow_work_keeps_its_lease
                a_batch_that_outlasts_its_lease_is_tried_once
                a_slow_event_delays_no_other
                a_transport_without_a_connection_is_asked_again_later
                a_transport_may_take_some_of_what_it_is_offered
                a_timeout_is_a_failure
                many_relays_follow_one_backoff
                one_lane_has_one_transport
                mistakes_in_registering_are_refused
                a_relay_prunes_what_is_old
                a_relay_that_cannot_prune_raises_an_alarm
            }
            views {
                the_log_shows_what_each_consumer_did
                a_consumer_names_its_business_key
                the_outbox_shows_the_configured_attempts
                the_outbox_follows_an_event_through_its_life
            }
            testing {
                what_was_enqueued_is_listed
                an_enqueued_event_is_asserted
                a_missing_event_is_reported_with_those_enqueued
                an_event_is_refuted
                drain_returns_what_is_left
                delivered_twice_has_one_effect
                what_was_not_consumed_is_not_delivered_twice
            }
            instances {
                a_process_is_live_while_it_beats
                what_a_process_runs_comes_back
                what_no_process_runs_is_found
                the_store_tells_what_it_is
            }
            alerts {
                an_alert_is_open_until_its_end_is_sent
                one_of_each_kind_and_subject_is_open
                a_dead_delivery_is_sent_once_and_once_when_it_is_over
                a_restart_repeats_nothing
                one_of_two_instances_sends
                a_failed_message_is_sent_again
                a_consumer_that_reports_is_alerted_too
            }
            migrate {
                five_at_once_on_an_empty_database
                an_empty_database_is_refused_with_advice
                again_changes_nothing
                tables_of_another_build_are_refused
            }
        }
    };
}

/// One test for each line of the table.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($harness:expr; $($verb:ident { $($case:ident)* })*) => {
        $(
            mod $verb {
                #[allow(unused_imports)]
                use super::*;
                $(
                    #[tokio::test(flavor = "multi_thread")]
                    async fn $case() {
                        let harness = $harness;
                        let case = $crate::$verb::$case(harness.clone());
                        tokio::time::timeout($crate::PATIENCE, case)
                            .await
                            .expect("the case ends");
                        $crate::Harness::finish(harness).await;
                    }
                )*
            }
        )*
    };
}

/// The cases every transport must pass, for a harness and a [`Carrier`]. Both expressions are evaluated once per case.
#[macro_export]
macro_rules! transport_suite {
    ($harness:expr, $carrier:expr) => {
        $crate::transport_cases! { $harness, $carrier;
            every_consumer_has_every_effect_once
            a_failure_is_tried_again
            a_dead_event_has_a_reason
            an_undecodable_event_harms_no_other
            a_panic_is_one_failure
            delivered_again_it_has_no_second_effect
            a_redrive_reaches_one_consumer_only
            what_a_consumer_enqueues_is_a_child
            a_batch_has_its_effects_once
            events_of_a_key_stay_in_order
            raw_events_arrive_as_they_were_enqueued
            one_consumer_takes_raw_events_of_several_topics
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! transport_cases {
    ($harness:expr, $carrier:expr; $($case:ident)*) => {
        $(
            /// E.4
            #[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                let (harness, carrier) = ($harness, $carrier);
                let case = $crate::transport::$case(harness.clone(), carrier.clone());
                tokio::time::timeout($crate::PATIENCE, case).await.expect("the case ends");
                $crate::Carrier::finish(carrier).await;
                $crate::Harness::finish(harness).await;
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    /// A case that is missing from the table never runs. This test compares
    /// the table with the functions of each module.
    #[test]
    fn every_case_is_in_the_table() {
        let lib = include_str!("lib.rs");
        let table = &lib[lib.find("$crate::cases! {").unwrap()..lib.find("/// One test for each line").unwrap()];
        let modules = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        // The corpus has no cases, and those of transports have a table of their own.
        let verbs: Vec<_> = modules.filter(|module| !matches!(*module, "hostile" | "transport")).collect();
        assert!(verbs.len() > 40, "{verbs:?}");
        let cases = include_str!("transport.rs").split("pub async fn ").skip(1);
        let cases: Vec<&str> = cases.map(|case| case.split('<').next().unwrap()).collect();
        let table_of_transports = &lib[lib.find("$crate::transport_cases! {").unwrap()..];
        let listed = &table_of_transports[..table_of_transports.find('}').unwrap()];
        assert_eq!(cases, listed.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>());
        for verb in verbs {
            let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(verb).with_extension("rs");
            let source = std::fs::read_to_string(source).unwrap();
            let start = table.find(&format!("\n            {verb} {{")).expect(verb);
            let listed = &table[start..start + table[start..].find('}').unwrap()];
            let listed: Vec<&str> = listed.lines().skip(2).map(str::trim).filter(|line| !line.is_empty()).collect();
            let cases = source.split("pub async fn ").skip(1);
            let cases: Vec<&str> = cases.map(|case| case.split('<').next().unwrap()).collect();
            assert_eq!(cases, listed, "{verb}");
        }
    }
}
