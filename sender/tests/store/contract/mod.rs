//! Every sentence is tested on every backend.

mod changes;
mod claiming;
mod coalescing;
mod dead_letters;
mod emitting;
mod erasing;
mod jobs;
mod latencies;
mod leases;
mod matching;
mod nodes;
mod reading;
mod retention;
mod retrying;
mod room;
mod settling;
mod subscribers;
mod tokens;

macro_rules! contract_of {
    ($backend:ty: $($area:ident { $($sentence:ident)* })*) => { $(
        mod $area {
            $(
                #[test]
                fn $sentence() {
                    if <$backend as crate::store::world::Backend>::is_there(stringify!($sentence)) {
                        super::super::$area::$sentence::<$backend>();
                    }
                }
            )*
        }
    )* };
}

macro_rules! contract {
    ($($areas:tt)*) => {
        mod sqlite {
            contract_of! { crate::store::sqlite::File: $($areas)* }
        }
        mod postgres {
            contract_of! { crate::store::postgres::Schema: $($areas)* }
        }
    };
}

contract! {
    emitting {
        an_acknowledged_event_survives_a_crash
        every_lane_gets_the_body_that_was_shaped_for_it
        an_event_for_nobody_leaves_nothing
        a_key_may_be_any_text
        a_lane_that_takes_nothing_is_left_out
        a_lane_named_twice_gets_the_event_once
        the_same_event_again_is_delivered_once
        the_same_event_reaches_a_subscriber_that_came_since
        the_same_event_after_the_window_is_another
        each_subscriber_has_a_window_of_its_own
        an_outbox_row_becomes_an_event_exactly_once
        an_outbox_row_that_is_refused_stays
        an_outbox_row_that_is_taken_in_part_stays_with_the_id_of_its_event
        the_recipients_of_an_event_are_known_while_its_outbox_row_waits
        earlier_recipients_of_an_event_are_known_while_its_outbox_row_waits
        no_newer_row_is_for_who_refused_an_older_one_in_the_same_commit
        rejected_outbox_rows_are_listed_from_the_highest_number_to_the_lowest
        an_outbox_row_that_cannot_be_an_event_is_set_aside
        a_target_without_a_body_is_nonsense
        a_change_of_conditions_is_notified_once
        a_commit_of_another_process_holds_in_our_next_one
    }
    matching {
        however_often_one_subscriber_changes_the_events_of_others_are_taken
        however_old_its_roster_is_an_event_is_taken_that_no_change_concerns
        an_event_for_a_subscriber_that_has_changed_is_matched_anew
        an_event_that_somebody_has_come_to_want_is_matched_anew
        a_change_counts_from_its_place_in_a_commit
        a_removed_subscriber_holds_up_no_event
        a_process_can_emit_after_the_last_writer_of_subscribers_vanished
        events_are_matched_anew_after_too_many_subscriber_changes
        a_roster_that_the_store_has_not_come_to_is_refused
    }
    claiming {
        the_longest_due_come_first
        nothing_comes_before_it_is_due
        nothing_is_handed_out_twice
        a_released_delivery_is_claimed_again
        a_retry_is_claimed_when_it_is_due
        next_says_when_the_first_is_due_that_was_not_handed_out
        no_more_bytes_come_than_were_asked_for_and_a_longer_body_is_told_of
        a_claim_writes_nothing
        a_claim_under_an_old_term_is_refused
        a_successor_finds_everything_waiting
        one_lane_sees_nothing_of_another
        a_settlement_before_a_claim_counts_for_it
        a_delivery_that_another_process_commits_late_is_claimed_too
        a_rescheduled_delivery_is_claimed_again_at_any_due_time
    }
    coalescing {
        the_newest_goes_out_when_the_window_of_the_first_ends
        another_key_or_lane_is_not_alike
        once_the_window_is_over_the_next_one_opens_its_own
        an_attempted_delivery_is_not_coalesced
        a_full_lane_still_takes_a_newer_one_in_the_place_of_an_older
        an_event_that_can_never_fit_replaces_nothing
    }
    room {
        a_lane_that_refuses_refuses_an_atomic_event_for_all
        a_lane_that_refuses_does_so_for_itself_alone
        a_partly_accepted_event_is_known_for_any_deduplication_window
        an_id_that_others_have_in_part_is_no_duplicate
        a_lane_that_sheds_gives_up_those_longest_due
        bytes_are_bounded_like_rows
        a_claimed_delivery_is_not_shed
        without_anything_else_to_shed_the_new_one_is_given_up
        an_event_that_can_never_fit_sheds_nothing
        a_full_store_sheds_from_the_fullest_lane
        room_for_one_target_is_not_made_of_what_another_replaces
        a_full_store_refuses_events_of_lanes_that_refuse
        lowered_bounds_hold_for_what_comes
        an_operator_sheds_what_waits
        dead_letters_are_bounded_and_the_oldest_go_first
        many_make_room_in_one_commit_and_many_letters_are_forgotten_for_them
    }
    settling {
        delivered_is_delivered
        a_failed_delivery_waits_until_it_is_due_again
        a_given_up_delivery_is_a_dead_letter_with_its_last_error
        a_verdict_comes_for_each_in_order
        an_old_term_settles_nothing_but_a_delivery
        delivered_is_a_fact_even_after_it_was_given_up
        an_attempt_is_recorded_whatever_became_of_the_delivery
        the_attempts_of_a_delivery_are_listed_newest_first
        the_newest_answers_of_each_lane_are_kept_as_long_as_their_attempts
        the_same_attempt_told_twice_counts_once
        an_attempt_told_again_after_an_earlier_one_counts_once
        a_long_error_is_cut_between_letters
        an_endpoint_that_is_gone_is_disabled_in_the_same_breath
        an_endpoint_that_is_gone_is_disabled_whatever_became_of_the_delivery
        a_former_owner_disables_no_lane
        nothing_but_failures_disable_an_active_lane_unless_an_operator_asked_since
    }
    latencies {
        percentiles_are_told_a_second_later
        an_unsent_delivery_has_no_latency
        the_last_hour_is_told_of_each_lane
        attempts_do_not_cost_a_write_each
        the_figures_of_several_processes_add_up
        an_orderly_end_loses_no_figure
        a_day_goes_by_and_the_rest_stays
        nothing_is_left_of_a_removed_lane
        from_emit_to_the_first_attempt_and_to_success_each_delivery_counts_once
    }
    leases {
        a_lane_has_one_owner
        a_lease_that_ran_out_is_taken_over
        a_renewed_lease_holds
        a_lane_that_was_handed_back_is_taken_over_clean
        a_clean_hand_over_is_clean_once
        a_record_persisted_under_an_old_term_is_refused
        an_owner_that_lost_lanes_is_notified_once
        a_late_settlement_hides_no_loss
        losses_are_told_even_to_an_owner_that_was_forgotten
        a_surely_dead_owner_loses_its_lanes_at_once
        a_takeover_of_a_capped_lane_returns_its_ended_attempts
        a_takeover_of_a_lane_without_caps_returns_no_attempts
        many_ends_are_told_in_few_runs_and_none_too_early
        attempts_that_a_cap_counts_outlive_the_attempt_log
        one_does_not_take_what_one_has
        lanes_with_work_are_active_and_have_some
        a_taken_lane_says_when_its_first_is_due
        a_clock_behind_robs_nobody
        claimed_rows_are_forgotten_with_the_lane
        many_at_once_never_own_a_lane_together
    }
    nodes {
        a_node_is_told_as_it_announced_itself
        a_node_may_say_something_else_of_itself
        an_owner_without_an_announcement_is_no_node
        a_node_lives_until_its_lease_ends_and_has_come_anew_after_that
        a_process_that_left_is_no_node
        an_operator_drains_a_node_and_lets_it_go_on
        a_node_that_was_forgotten_says_itself_that_it_drains
        a_request_for_own_lanes_returns_no_lane_of_another
        a_lane_that_is_handed_back_is_noticed
    }
    subscribers {
        a_subscriber_reads_as_it_was_written
        names_and_ids_are_unique
        a_removed_name_is_free_again
        a_change_makes_a_new_roster
        a_change_of_what_has_changed_is_refused
        a_disabled_subscriber_is_not_paused
        secrets_sign_together_until_the_old_one_retires
        there_is_an_end_to_secrets
        however_many_secrets_there_are_they_may_retire_at_once
        a_removed_subscriber_has_no_secrets_and_its_debt_is_given_up
        a_commit_may_sweep_the_lane_that_it_removes
        a_removed_subscriber_vanishes_with_its_last_trace
        an_unknown_subscriber_is_refused
        a_secret_does_not_show_itself
        a_pause_ends_at_its_time_whoever_sweeps
        only_the_pause_that_an_operator_asked_for_last_ends
        a_resumed_subscriber_and_one_with_another_url_are_tried_at_once
    }
    tokens {
        a_token_reads_as_it_was_written_after_a_power_cut
        a_name_is_taken_until_its_token_is_revoked
        tokens_are_bounded_and_expired_ones_count
        a_change_of_a_token_is_noticed_and_holds_up_no_event
        a_row_that_is_no_token_hides_no_other
    }
    changes {
        a_change_and_its_record_are_one_commit_that_survives_a_power_cut
        a_refused_change_leaves_no_record
        changes_are_bounded_by_number_and_age_and_no_number_is_used_again
        one_subscribers_changes_push_out_few_of_others_and_none_of_tokens
    }
    retrying {
        a_retry_is_brought_forward_and_nothing_else
        retries_come_forward_in_steps_the_earliest_first
        a_change_that_has_the_endpoint_tried_makes_its_earliest_retry_due
        the_end_of_a_pause_makes_the_earliest_retry_due
        one_delivery_is_brought_forward_alone
        a_request_makes_a_new_roster_that_says_how_by_any_clock
        what_does_not_wait_or_is_not_active_is_refused
        another_process_learns_of_retries
        a_settled_delivery_is_sent_again_with_its_id_and_body
        what_waits_or_was_replaced_is_not_sent_again
        nothing_is_sent_again_without_room_or_while_not_active
        a_delivery_sent_again_outlives_its_first_settlement
        a_delivery_without_its_body_is_not_sent_again
    }
    dead_letters {
        a_redriven_letter_waits_with_all_its_life_before_it
        redriving_stops_where_there_is_no_room
        redriving_goes_on_where_it_left_off
        the_letters_of_a_disabled_lane_stay
        only_the_named_letters_are_redriven
        a_redriven_letter_is_not_replaced_by_a_newer_event
        forgotten_letters_are_gone
        all_the_named_letters_are_forgotten_step_by_step
        one_commit_buries_many_and_forgets_the_oldest_of_as_many_lanes
        letters_are_grouped_by_what_they_have_in_common
    }
    jobs {
        a_step_and_its_row_are_one_commit_that_survives_a_power_cut
        what_dies_after_its_beginning_is_not_part_of_a_job
        an_older_delivery_that_dies_after_its_beginning_is_not_part_of_a_job
        a_job_may_concern_the_letters_since_a_time
        letters_without_room_are_skipped_and_counted
        a_job_of_one_subscriber_waits_for_room_and_goes_on
        a_replay_sends_again_what_was_delivered_in_a_span
        a_replay_takes_the_types_that_its_row_names
        a_replay_counts_what_it_cannot_send
        a_replay_to_a_disabled_subscriber_fails
        named_letters_are_purged_step_by_step
        a_shed_gives_up_as_many_as_were_planned
        a_shed_leaves_the_deliveries_since_its_beginning
        a_paused_job_rests_and_a_cancelled_one_has_ended
        one_process_works_at_a_job_until_it_rests_for_long
        a_lease_of_a_faster_clock_keeps_nobody_from_a_job
        open_jobs_and_those_that_are_over_are_bounded
    }
    erasing {
        a_forgotten_event_has_no_content_and_its_counts_stay
        a_forgotten_event_offered_again_is_a_duplicate
        attempts_are_erased_in_steps_and_the_event_at_once
        a_forgotten_delivery_is_not_sent_and_cannot_be
        an_attempt_under_way_of_a_forgotten_delivery_ends_and_leaves_nothing
        a_late_report_of_a_forgotten_event_leaves_nothing
    }
    retention {
        an_expired_delivery_is_given_up
        a_delivery_that_expires_while_claimed_stays_with_its_owner
        small_steps_sweep_everything
        nothing_is_deleted_before_its_time
        an_event_goes_once_all_its_deliveries_are_old
        an_event_from_a_fast_clock_retains_no_later_event
        a_letter_keeps_its_event
        attempts_go_by_their_age
        letters_go_by_their_age
        numbers_are_never_used_again
        one_large_event_goes_in_small_steps
        a_purge_ends_with_its_longest_scan
        a_concurrent_expiry_does_not_retain_old_events_for_ever
        marks_of_deliveries_sent_again_go_in_small_steps
    }
    reading {
        pages_follow_each_other_without_gaps_or_doubles
        a_cursor_of_another_listing_is_refused
        the_queue_is_listed_as_it_is_due
        the_status_tells_the_last_hour
        the_oldest_are_told
        an_audit_counts_attempts_by_second
        attempts_are_listed_by_their_beginning
        latencies_of_attempts_are_listed_in_pages
        new_work_is_noticed_by_another_process
        redriven_work_stirs
        changed_subscribers_are_told_in_order
        an_events_deliveries_are_found_by_its_id
        a_listing_of_some_lanes_leaves_out_the_others
        checkpoints_are_told_of_the_lanes_that_have_one
        owners_are_listed
        a_text_with_a_character_zero_is_known_to_nobody
    }
}
