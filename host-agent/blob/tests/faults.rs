//! Random faults: nothing is lost, mixed or seen in an order that cannot be; and what is made wrong on
//! purpose is found.

use crate::world::{Bug, Counts, World};

/// `EBB_LONG=1` runs more.
fn runs() -> u64 {
    if ebb_testkit::is_long() { 1000 } else { 100 }
}

#[test]
fn whatever_fails_no_blob_is_lost_or_mixed() {
    let mut sum = Counts::default();
    for seed in 0..runs() {
        let world = World::new(seed, None).run();
        if !world.problems.is_empty() {
            for operation in &world.history {
                eprintln!("{operation:?}");
            }
            panic!("seed {seed}: {:#?}", world.problems);
        }
        sum.add(&world.counts);
    }
    eprintln!("{sum:?}");
    // A run without a fault proves nothing.
    for (what, count) in sum.all() {
        assert!(count > 0, "never: {what}");
    }
}

/// How many of so many runs find it.
fn found(bug: Bug, runs: u64) -> u64 {
    let worlds = (0..runs).map(|seed| World::new(seed, Some(bug)).run());
    worlds.filter(|world| !world.problems.is_empty()).count() as u64
}

#[test]
fn a_locator_that_answers_too_early_is_found() {
    assert!(found(Bug::AnswersTooEarly, 40) > 0);
}

#[test]
fn a_replica_that_does_not_sync_is_found() {
    assert!(found(Bug::NeverSyncs, 40) > 0);
}

#[test]
fn a_client_that_remembers_what_a_name_meant_is_found() {
    assert!(found(Bug::RemembersLookups, 40) > 0);
}
