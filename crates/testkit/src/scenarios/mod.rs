//! What Jobferry does, as scenarios that run on embedded clusters and on real ones by the same code.
//!
//! A scenario is an `async fn(&Fleet) -> Result<(), ScenarioError>` that works in a namespace of its own and panics, as
//! tests do, when something is not as it should be. Four macros list them all:
//!
//! | | leaves the fleet alone: many run at once | wants the fleet for itself |
//! | --- | --- | --- |
//! | short on real clusters | [`for_each_scenario!`](crate::for_each_scenario) | [`for_each_disturbance!`](crate::for_each_disturbance) |
//! | long on real clusters | [`for_each_long_scenario!`](crate::for_each_long_scenario) | [`for_each_long_disturbance!`](crate::for_each_long_disturbance) |
//!
//! Names that begin with a letter and a number (`i01`, `e21`, `u15`) or with `kep` are those of the scenarios by which
//! MultiKueue is tested, so that both can be compared; where Jobferry decides otherwise, the scenario says so.

#![allow(clippy::panic, clippy::missing_panics_doc, reason = "scenarios are tests: they fail by panicking")]

mod away;
mod credentials;
mod cron;
mod deletion;
mod dispatch;
mod edits;
mod job;
mod kinds;
mod mirroring;
mod operators;
mod policies;
mod refusals;
mod restarts;
mod shapes;
mod workers;

pub use away::*;
pub use credentials::*;
pub use cron::*;
pub use deletion::*;
pub use dispatch::*;
pub use edits::*;
pub use job::*;
pub use kinds::*;
pub use mirroring::*;
pub use operators::*;
pub use policies::*;
pub use refusals::*;
pub use restarts::*;
pub use shapes::*;
pub use workers::*;

/// Calls the macro `$test` with the name of every scenario that leaves the fleet alone and is short.
#[macro_export]
macro_rules! for_each_scenario {
    ($test:ident) => {
        $test!(a_delegated_job_runs_on_a_worker_and_is_complete_on_the_manager);
        $test!(a_failing_job_fails_on_the_manager_for_the_reason_that_the_worker_gave);
        $test!(an_indexed_job_shows_its_indexes_on_the_manager);
        $test!(jobs_that_are_not_delegated_run_on_the_manager);
        $test!(a_job_of_another_controller_is_not_touched);
        $test!(deleting_the_job_removes_its_mirror);
        $test!(a_suspended_job_waits_until_it_is_resumed);
        $test!(a_job_goes_where_its_annotation_says);
        $test!(a_job_that_fits_nowhere_says_so);
        $test!(a_name_taken_on_the_worker_is_reported_and_left_alone);
        $test!(a_job_deleted_and_submitted_again_runs_again);
        $test!(a_mirror_deleted_by_somebody_fails_the_job);
        $test!(marks_taken_off_a_mirror_are_put_back);
        $test!(a_running_job_is_suspended_and_resumed_on_its_worker);
        $test!(edits_of_a_running_job_reach_its_mirror);
        $test!(what_the_worker_does_to_a_mirror_is_reported_not_fought);
        $test!(an_edit_that_the_worker_refuses_is_told);
        $test!(edits_that_are_legal_one_after_the_other_reach_the_mirror_so);
        $test!(the_template_of_a_suspended_job_is_edited_on_its_worker_too);
        $test!(i01_one_worker_gets_the_job_and_keeps_its_finished_mirror);
        $test!(i02_a_mirror_that_somebody_changed_goes_on_and_its_end_counts);
        $test!(i03_progress_is_seen_while_the_job_runs);
        $test!(i12_deleted_in_the_background);
        $test!(i12_deleted_in_the_foreground);
        $test!(i12_deleted_with_orphans);
        $test!(a_deleted_job_that_somebody_keeps_shows_that_nothing_of_it_runs);
        $test!(i13_a_suspended_job_that_is_deleted_leaves_nothing);
        $test!(i14_only_the_named_worker_gets_a_copy);
        $test!(i15_nothing_is_created_until_somebody_names_a_worker);
        $test!(i17_a_wiped_record_is_recovered_from_the_mirror);
        $test!(i19_a_worker_runs_jobs_of_its_own_beside_mirrors);
        $test!(i21_a_foreign_job_of_the_same_name_is_never_touched);
        $test!(i25_a_mirror_has_neither_owners_nor_finalizers);
        $test!(i40_an_edit_reaches_the_mirror_in_place);
        $test!(i44_a_job_is_scaled_up_and_down_and_finishes);
        $test!(i50_a_warning_about_the_mirror_is_repeated_on_the_users_job);
        $test!(e12_labels_stay_on_the_mirror_over_a_pod_failure);
        $test!(e34_a_policy_prefers_a_worker);
        $test!(kep_a_job_whose_status_changes_often_ends_with_exact_counts);
        $test!(kep_a_namespace_that_a_worker_lacks_is_told_and_found_when_it_is_created);
        $test!(a_job_that_is_suspended_while_its_worker_refuses_it_shows_so_at_once);
        $test!(kep_a_used_up_quota_is_told_and_the_job_runs_when_there_is_room);
        $test!(kep_many_jobs_at_once_run_on_one_worker_each);
        $test!(gc_jobs_of_another_origin_are_kept);
        $test!(a_denial_is_told_in_the_workers_own_words);
        $test!(a_policy_narrows_the_workers_of_its_namespaces);
        $test!(a_policy_that_does_not_exist_is_told_and_waited_for);
        $test!(a_policy_that_is_not_open_to_the_namespace_is_told);
        $test!(an_edited_policy_leaves_running_work_where_it_is);
        $test!(cron_a_job_made_from_a_cron_job_by_hand_runs);
        $test!(parity_jobs_of_all_shapes_end_as_they_do_without_jobferry);
    };
}

/// Calls the macro `$test` with the name of every scenario that leaves the fleet alone and takes a minute or more on real
/// clusters: it waits for the quarantine of a move, or for the schedule of a CronJob.
#[macro_export]
macro_rules! for_each_long_scenario {
    ($test:ident) => {
        $test!(a_job_that_one_worker_refuses_goes_to_another);
        $test!(e20_a_job_that_every_worker_refuses_runs_when_one_takes_it);
        $test!(e21_a_job_goes_to_the_only_worker_that_has_its_namespace);
        $test!(h3_a_new_job_waits_for_the_name_of_a_finished_mirror);
        $test!(p14734_a_job_goes_by_its_ttl_and_so_does_its_mirror);
        $test!(u15_a_job_that_one_workers_policy_denies_goes_to_the_other);
        $test!(u27_a_finished_mirror_goes_when_the_policy_says);
        $test!(cron_jobs_that_may_overlap_all_run);
        $test!(cron_jobs_that_may_not_overlap_wait_for_each_other);
        $test!(cron_jobs_that_replace_each_other_leave_one_mirror);
    };
}

/// Calls the macro `$test` with the name of every scenario that wants the fleet for itself and is short.
#[macro_export]
macro_rules! for_each_disturbance {
    ($test:ident) => {
        $test!(restart_before_the_placement);
        $test!(restart_between_the_placement_and_the_mirror);
        $test!(restart_while_it_runs);
        $test!(restart_after_the_end);
        $test!(restart_after_the_deletion);
        $test!(restart_after_an_edit);
        $test!(two_dispatchers_without_a_lease_run_nothing_twice);
        $test!(i04_a_job_deleted_while_its_worker_was_away_leaves_nothing);
        $test!(i05_a_worker_that_is_away_disturbs_nobody_else);
        $test!(i07_a_brief_loss_of_the_connection_changes_nothing);
        $test!(i08_the_dispatcher_restarts_while_the_worker_is_away);
        $test!(i59_a_worker_and_its_secret_come_in_any_order);
        $test!(i61_a_ca_by_path_is_refused_and_corrected);
        $test!(i64_a_worker_that_turns_insecure_is_not_used_any_more);
        $test!(h5_a_secret_that_leads_to_another_cluster_is_noticed);
        $test!(h15_a_worker_that_is_removed_and_registered_again_keeps_its_work);
        $test!(h15_a_worker_that_is_removed_stays_until_what_was_deleted_meanwhile_is_gone);
        $test!(a_rotated_secret_does_not_disturb_running_work);
        $test!(a_cordoned_worker_gets_nothing_new_and_keeps_what_it_has);
        $test!(two_managers_share_a_worker_without_touching_each_other);
        $test!(two_dispatchers_of_one_manager_keep_to_their_own);
    };
}

/// Calls the macro `$test` with the name of every scenario that wants the fleet for itself and takes a minute or more on
/// real clusters: a worker that says nothing is noticed after about a minute.
#[macro_export]
macro_rules! for_each_long_disturbance {
    ($test:ident) => {
        $test!(restart_while_it_moves);
        $test!(killed_after_every_write_of_a_life_cycle);
        $test!(killed_while_a_deleted_job_is_cleaned_up);
        $test!(i06_a_job_that_ended_while_its_worker_was_away_keeps_its_result);
        $test!(i06_a_lost_worker_fails_its_jobs_where_the_policy_says_so);
        $test!(i08_the_clock_of_a_loss_goes_on_over_a_restart);
        $test!(i62_a_token_file_is_refused_and_corrected);
        $test!(u32_a_mirror_deleted_while_its_worker_was_away_fails_the_job);
        $test!(e35_a_worker_that_was_cut_off_works_again_when_it_is_back);
        $test!(h7_the_brake_holds_when_most_workers_look_lost);
        $test!(kep_jobs_avoid_a_worker_that_does_not_answer);
        $test!(a_deadline_that_passes_while_the_worker_is_away_fails_the_job);
        $test!(a_refused_token_is_told_and_is_no_loss);
    };
}
