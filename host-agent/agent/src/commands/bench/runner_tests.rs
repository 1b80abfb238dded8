use std::collections::{BTreeMap, BTreeSet};

use ebb_workload::{Format, Kind, Part, Workload};

use super::*;

const EPOCH: u64 = 1_000_000_000;
const LEAD: u64 = 100;

fn runners(traffic: &str, hosts: u32) -> Vec<Runner> {
    let mut text = format!("[[traffic]]\nname = 't'\n{traffic}\n");
    for host in 0..hosts {
        text += &format!(
            "[[host]]\nname = 'h{host}'\nrack = 'r{}'\npod = 'p'\n",
            host / 2
        );
    }
    let no_files = |_: &str| Err("none".to_owned());
    let workload = Workload::parse(&text, Format::Toml, no_files).unwrap();
    let host = |index| {
        Runner::new(
            workload.schedule().unwrap(),
            ObjectNames::new(0),
            HostId(index),
            EPOCH,
            LEAD,
        )
    };
    (0..hosts).map(host).collect()
}

fn actions(runner: &mut Runner, now_ns: u64) -> Vec<Action> {
    std::iter::from_fn(|| runner.poll_action(now_ns)).collect()
}

/// A network that takes 50 ns for everything: runs all hosts until nothing happens any more and
/// returns what was started, with times.
fn run(runners: &mut [Runner]) -> Vec<(u64, Arc<Transfer>)> {
    const TAKES: u64 = 50;
    let mut started = Vec::new();
    let mut under_way: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut transfers: BTreeMap<u64, Arc<Transfer>> = BTreeMap::new();
    let mut offered: BTreeSet<(usize, u64)> = BTreeSet::new();
    loop {
        let deadlines = runners.iter().filter_map(Runner::next_deadline_ns);
        let arrivals = under_way.first().map(|&(at, _)| at);
        let Some(now) = deadlines.chain(arrivals).min() else {
            assert!(offered.is_empty(), "not withdrawn: {offered:?}");
            return started;
        };
        while let Some(&(at, id)) = under_way.first()
            && at <= now
        {
            under_way.pop_first();
            let transfer = &transfers[&id];
            for host in transfer.sources.iter().chain(&transfer.destinations) {
                let ended = runners[host.index()].player.share.handle_end(now, id, true);
                assert_eq!(
                    ended.unwrap().transfer.id,
                    id,
                    "told once to all it concerns"
                );
            }
        }
        for (index, runner) in runners.iter_mut().enumerate() {
            for action in actions(runner, now) {
                let (transfer, at) = match action {
                    Action::Offer { transfer } => {
                        offered.insert((index, transfer.id));
                        continue;
                    }
                    Action::Withdraw { id } => {
                        assert!(offered.remove(&(index, id)));
                        continue;
                    }
                    Action::Send { transfer, at_ns } => {
                        assert!(at_ns >= now);
                        (transfer, at_ns)
                    }
                    Action::Fetch { transfer } => {
                        for source in &transfer.sources {
                            assert!(offered.contains(&(source.index(), transfer.id)));
                        }
                        (transfer, now)
                    }
                };
                assert_eq!(transfer.initiator().index(), index);
                under_way.insert((at + TAKES, transfer.id));
                transfers.insert(transfer.id, transfer.clone());
                started.push((at, transfer));
            }
        }
    }
}

fn whole_schedule(traffic: &str, hosts: u32) -> usize {
    let mut fresh = runners(traffic, hosts).remove(0);
    std::iter::from_fn(|| fresh.schedule.next()).count() + usize::from(fresh.next.is_some())
}

fn all_run(traffic: &str, hosts: u32) -> Vec<(u64, Arc<Transfer>)> {
    let mut runners = runners(traffic, hosts);
    let started = run(&mut runners);
    assert!(runners.iter().all(Runner::is_done), "{traffic}");
    assert_eq!(started.len(), whole_schedule(traffic, hosts));
    started
}

const SIZE: &str = "size = { type = 'fixed', bytes = 9 }";

#[test]
fn every_transfer_is_started_once_and_by_its_initiator() {
    for pattern in [
        "type = 'random'",
        "type = 'permutation'",
        "type = 'all-to-all'",
        "type = 'ring-all-reduce'",
        "type = 'incast', senders = 3",
        "type = 'incast', senders = 3, fetch = true",
        "type = 'requests'",
        "type = 'storage-read'",
        "type = 'storage-read', mode = 'nearest', blocks = 3",
        "type = 'storage-write'",
        "type = 'storage-write', mode = 'multi-unicast'",
        "type = 'storage-write', mode = 'daisy-chain'",
        "type = 'partition-aggregate', fan_out = 3, query_bytes = 9, service = \
         { type = 'exponential', mean_ns = 300 }",
    ] {
        let traffic = format!(
            "pattern = {{ {pattern} }}\ncount = 30\n{SIZE}\n\
             arrivals = {{ type = 'poisson', rate_hz = 3e6 }}"
        );
        for (at, transfer) in all_run(&traffic, 6) {
            let nominal = EPOCH + transfer.start_ns;
            match transfer.after {
                None => assert_eq!(at, nominal, "{pattern}"),
                Some(after) => assert!(at >= nominal + after.delay_ns, "{pattern}"),
            }
        }
    }
}

#[test]
fn chains_go_on_when_the_one_before_has_ended() {
    let started = all_run(
        &format!(
            "pattern = {{ type = 'permutation' }}\n{SIZE}\n\
             arrivals = {{ type = 'back-to-back', rounds = 4 }}"
        ),
        3,
    );
    let mut times: Vec<u64> = started.iter().map(|(at, _)| at - EPOCH).collect();
    times.sort_unstable();
    assert_eq!(times, [0, 0, 0, 50, 50, 50, 100, 100, 100, 150, 150, 150]);
}

#[test]
fn a_serial_server_works_on_one_query_at_a_time() {
    let responses = |serial: bool| {
        let traffic = format!(
            "pattern = {{ type = 'partition-aggregate', fan_out = 1, query_bytes = 9,
               serial = {serial}, service = {{ type = 'fixed', value_ns = 1000 }} }}
             arrivals = {{ type = 'periodic', period_ns = 100 }}\ncount = 4\n{SIZE}"
        );
        // Two hosts: each is the other's only server.
        let mut times: Vec<u64> = all_run(&traffic, 2)
            .into_iter()
            .filter(|(_, transfer)| {
                transfer.kind == Kind::Response && transfer.sources[0] == HostId(0)
            })
            .map(|(at, _)| at - EPOCH)
            .collect();
        times.sort_unstable();
        times
    };
    assert_eq!(responses(false), [1050, 1150, 1250, 1350]);
    assert_eq!(responses(true), [1050, 2050, 3050, 4050]);
}

#[test]
fn sends_are_prepared_ahead_and_fetches_wait_for_their_time() {
    let traffic = |fetch: bool| {
        format!(
            "pattern = {{ type = 'incast', senders = 1, fetch = {fetch} }}\nstart_ns = 1000
             arrivals = {{ type = 'once' }}\n{SIZE}"
        )
    };
    for fetch in [false, true] {
        let mut both = runners(&traffic(fetch), 2);
        let start = EPOCH + 1000;
        for runner in &mut both {
            assert_eq!(runner.next_deadline_ns(), Some(start - LEAD));
            assert_eq!(actions(runner, start - LEAD - 1), []);
        }
        let early: Vec<Action> = both
            .iter_mut()
            .flat_map(|runner| actions(runner, start - LEAD))
            .collect();
        match (&early[..], fetch) {
            ([Action::Send { at_ns, .. }], false) => assert_eq!(*at_ns, start),
            ([Action::Offer { transfer }], true) => {
                let asker = &mut both[transfer.initiator().index()];
                assert_eq!(asker.next_deadline_ns(), Some(start));
                assert_eq!(actions(asker, start - 1), []);
                assert_eq!(actions(asker, start).len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_replica_sends_on_with_the_first_bytes() {
    let traffic = format!(
        "pattern = {{ type = 'storage-write', mode = 'daisy-chain', placement = 'any' }}
         arrivals = {{ type = 'once' }}\n{SIZE}"
    );
    let mut hosts = runners(&traffic, 6);
    let all: Vec<Action> = hosts.iter_mut().flat_map(|r| actions(r, EPOCH)).collect();
    let Action::Send { transfer, .. } = &all[0] else {
        panic!("{all:?}");
    };
    let replica = &mut hosts[transfer.destinations[0].index()];
    assert_eq!(actions(replica, EPOCH), []);
    replica.player.share.handle_begun(EPOCH + 7, transfer.id);
    let [
        Action::Send {
            transfer: on,
            at_ns,
        },
    ] = &actions(replica, EPOCH + 7)[..]
    else {
        panic!("nothing sent on");
    };
    assert_eq!(*at_ns, EPOCH + 7);
    assert_eq!(on.sources, transfer.destinations);
    // Its end changes nothing more.
    assert!(
        replica
            .player
            .share
            .handle_end(EPOCH + 9, transfer.id, true)
            .is_some()
    );
    assert_eq!(actions(replica, EPOCH + 9), []);
}

#[test]
fn what_waits_for_a_failure_never_starts() {
    let traffic = format!(
        "pattern = {{ type = 'permutation' }}\n{SIZE}
         arrivals = {{ type = 'back-to-back', rounds = 3 }}"
    );
    let mut host = runners(&traffic, 2).remove(0);
    let [Action::Send { transfer, .. }] = &actions(&mut host, EPOCH)[..] else {
        panic!("one send first");
    };
    assert_eq!(host.gives_up_at_ns(5), Some(EPOCH + 5));
    assert!(
        host.player
            .share
            .handle_end(EPOCH + 100, transfer.id, false)
            .is_some()
    );
    assert!(
        host.player
            .share
            .handle_end(EPOCH + 100, transfer.id, true)
            .is_none()
    );
    assert_eq!(actions(&mut host, EPOCH + 100), []);
    assert_eq!(host.gives_up_at_ns(5), Some(EPOCH + 105));
    assert!(!host.is_done(), "the other host's have not come");
    let not_started = host.player.share.take_not_started();
    let open = host.player.share.take_rest();
    assert_eq!((open.len(), not_started.len()), (3, 2));
    assert!(open.iter().all(|open| open.part == Part::Receive));
}

/// A client that asks once, and the server that answers.
fn client_and_server() -> Vec<Runner> {
    let traffic = format!(
        "pattern = {{ type = 'partition-aggregate', fan_out = 1, query_bytes = 9,
         service = {{ type = 'fixed', value_ns = 0 }}, clients = 'client', servers = 'server' }}
         arrivals = {{ type = 'once' }}\n{SIZE}
         [[group]]\nname = 'client'\nhosts = ['h0']
         [[group]]\nname = 'server'\nhosts = ['h1']"
    );
    runners(&traffic, 2)
}

#[test]
fn no_host_waits_for_an_answer_to_a_query_that_failed() {
    let mut hosts = client_and_server();
    for host in &mut hosts {
        host.poll_action(EPOCH - LEAD);
    }
    let [client, server] = &mut hosts[..] else {
        panic!("two hosts");
    };
    let (query, response) = (0, 1);
    let ended = client.player.share.handle_end(EPOCH + 9, query, false);
    assert_eq!(ended.unwrap().transfer.kind, Kind::Query);
    let given_up = client.player.share.take_not_started();
    assert_eq!(given_up.len(), 1);
    assert_eq!(
        (given_up[0].transfer.id, given_up[0].part),
        (response, Part::Receive)
    );
    let why = "never begun: transfer 0, for which it waits, failed";
    assert_eq!(given_up[0].not_started(), why);
    assert!(client.is_done());
    // It comes all the same if the server has the whole query: its flow is of this workload.
    assert!(client.player.share.open(response).is_some());
    // The server has heard nothing, until it is told.
    assert!(!server.is_done());
    server
        .player
        .share
        .handle_failed_elsewhere(EPOCH + 10, query);
    let given_up = server.player.share.take_not_started();
    assert_eq!(given_up.len(), 1);
    assert_eq!(
        (given_up[0].transfer.id, given_up[0].part),
        (response, Part::Start)
    );
    assert_eq!(server.player.share.to_end(), 0);
}

#[test]
fn an_answer_that_comes_or_fails_by_itself_is_waited_for_no_more() {
    for good in [true, false] {
        let mut client = client_and_server().remove(0);
        client.poll_action(EPOCH - LEAD);
        let share = &mut client.player.share;
        // The confirmation of the query may come later than the answer.
        assert!(share.handle_end(EPOCH + 9, 1, good).is_some());
        assert!(share.handle_end(EPOCH + 10, 0, false).is_some());
        assert!(share.take_not_started().is_empty());
        assert!(share.open(1).is_none());
        assert!(client.is_done());
    }
}
