use ebb_workload::{HostId, Kind, Transfer};

use super::*;

fn open(id: u64, job: (u64, u64), part: Part, offered_at_ns: u64) -> Open {
    let transfer = Transfer {
        id,
        job: job.0,
        job_transfers: job.1,
        traffic: "t".into(),
        start_ns: 0,
        kind: Kind::SendOneToOne,
        sources: vec![HostId(0)],
        destinations: vec![HostId(1)],
        bytes: 1000,
        priority: 0,
        connection: None,
        after: None,
    };
    Open {
        transfer: transfer.into(),
        part,
        offered_at_ns: Some(offered_at_ns),
    }
}

fn times(started_at_ns: u64, finished_at_ns: u64) -> Option<Times> {
    Some(Times {
        started_at_ns,
        finished_at_ns,
    })
}

#[test]
fn a_job_ends_with_the_last_of_its_transfers() {
    let mut results = Results::default();
    let job = (5, 3);
    results.ended(&open(6, job, Part::Start, 100), true, 0, times(110, 400));
    results.ended(&open(5, job, Part::Start, 100), true, 0, times(100, 200));
    assert_eq!(results.summary(1e9, 0, 0)["jobs"]["finished"], 0);
    results.ended(&open(7, job, Part::Start, 100), true, 0, times(130, 300));
    let summary = results.summary(1e9, 0, 0);
    assert_eq!(summary["jobs"]["finished"], 1);
    assert_eq!(summary["jobs"]["fct"]["max_ns"], 300.0);
    assert_eq!(summary["fct"]["p50_ns"], 200.0);
    assert_eq!(summary["late"]["max_ns"], 30.0);
    assert_eq!(summary["started"]["content_bytes"], 3000);
    assert!(results.is_good());
}

#[test]
fn jobs_of_others_and_failed_ones_have_no_time() {
    let mut results = Results::default();
    results.ended(&open(1, (1, 1), Part::Receive, 100), true, 2000, None);
    assert_eq!(results.summary(1e9, 0, 0)["jobs"]["finished"], 0);
    results.ended(&open(2, (2, 1), Part::Start, 100), false, 2000, None);
    let summary = results.summary(1e9, 0, 1000);
    assert_eq!(summary["jobs"]["failed"], 1);
    assert_eq!(summary["jobs"]["fct"], Value::Null);
    // 1000 bytes within 1000 ns.
    assert_eq!(summary["goodput_bps"], 8e9);
    assert!(!results.is_good());
}

#[test]
fn what_is_left_is_not_good() {
    let mut results = Results::default();
    results.not_started(&open(2, (2, 1), Part::Start, 0));
    results.rest(&[open(1, (1, 1), Part::Serve, 0)]);
    let summary = results.summary(1e9, 0, 0);
    assert_eq!(summary["served"]["unfinished"], 1);
    assert_eq!(summary["started"]["not_started"], 1);
    assert!(!results.is_good());
}
