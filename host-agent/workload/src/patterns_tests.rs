use crate::hosts::{HostId, Hosts};
use crate::testing::{fat_tree, schedule, star};
use crate::transfer::Transfer;
use crate::transfer::{Kind, Moment};

fn run(traffic: &str, hosts: &[crate::PlacedHost]) -> (crate::Schedule, Vec<Transfer>) {
    let mut schedule = schedule(traffic, hosts).unwrap();
    let transfers = schedule.by_ref().collect();
    (schedule, transfers)
}

fn labels(hosts: &Hosts, id: HostId) -> (u32, u32) {
    (hosts.pod(id).unwrap(), hosts.rack(id).unwrap())
}

#[test]
fn a_permutation_is_one_ring_without_fixed_points() {
    for seed in 1..20 {
        let (_, transfers) = run(
            &format!(
                "seed = {seed}\n[[traffic]]\nname = 'p'\npattern = {{ type = 'permutation' }}
                 arrivals = {{ type = 'once' }}\nsize = {{ type = 'fixed', bytes = 9 }}"
            ),
            &star(17),
        );
        assert_eq!(transfers.len(), 17);
        let mut next = [HostId(99); 17];
        for transfer in &transfers {
            next[transfer.sources[0].index()] = transfer.destinations[0];
        }
        let mut at = HostId(0);
        for steps in 1..=17 {
            at = next[at.index()];
            assert_eq!(at == HostId(0), steps == 17, "seed {seed}: a shorter ring");
        }
    }
}

#[test]
fn a_permutation_stays_the_same() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 'p'\npattern = { type = 'permutation' }\ncount = 500
         arrivals = { type = 'poisson', rate_hz = 10 }\nsize = { type = 'fixed', bytes = 9 }",
        &star(8),
    );
    let pairs: std::collections::BTreeSet<_> = transfers
        .iter()
        .map(|transfer| (transfer.sources[0], transfer.destinations[0]))
        .collect();
    assert_eq!((transfers.len(), pairs.len()), (500, 8));
}

#[test]
fn all_to_all_is_every_ordered_pair() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 'a'\npattern = { type = 'all-to-all' }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 9 }",
        &star(6),
    );
    let pairs: std::collections::BTreeSet<_> = transfers
        .iter()
        .map(|transfer| (transfer.sources[0], transfer.destinations[0]))
        .collect();
    assert_eq!((transfers.len(), pairs.len()), (30, 30));
    assert!(pairs.iter().all(|(from, to)| from != to));
    assert!(transfers.iter().all(|transfer| transfer.job == 0));
}

/// Patarasuk and Yuan 2009: 2 (n - 1) rounds of an n-th of the vector, which is the least that a host can send.
#[test]
fn a_ring_all_reduce_passes_each_part_twice_round_the_ring() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 'r'\npattern = { type = 'ring-all-reduce', step_ns = 5 }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 61 }",
        &star(6),
    );
    assert_eq!(transfers.len(), 2 * 5 * 6);
    assert!(transfers.iter().all(|t| (t.bytes, t.job) == (11, 0)));
    for transfer in &transfers {
        let (from, to) = (transfer.sources[0].0, transfer.destinations[0].0);
        assert_eq!(to, (from + 1) % 6);
        // A host sends on what the one before it has sent to it in the round before.
        let Some(after) = transfer.after else {
            assert!(transfer.id < 6);
            continue;
        };
        let cause = &transfers[after.transfer as usize];
        assert_eq!(cause.destinations, transfer.sources);
        let (before, moment) = (cause.id / 6, after.moment);
        assert_eq!(
            (before + 1, moment, after.delay_ns),
            (transfer.id / 6, Moment::Finished, 5)
        );
    }
}

#[test]
fn an_incast_has_one_receiver_and_uses_all_hosts_before_one_twice() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 'i'\npattern = { type = 'incast', senders = 15, stagger_ns = 7 }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 9 }",
        &star(11),
    );
    assert_eq!(transfers.len(), 15);
    let receiver = transfers[0].destinations[0];
    let mut sent = [0; 11];
    for (index, transfer) in transfers.iter().enumerate() {
        assert_eq!(transfer.destinations, [receiver]);
        assert_eq!(transfer.start_ns, 7 * index as u64);
        sent[transfer.sources[0].index()] += 1;
    }
    assert_eq!(sent[receiver.index()], 0);
    sent.sort_unstable();
    assert_eq!(sent, [0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]);
}

#[test]
fn an_incast_of_fetches_is_started_by_the_receiver() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 'i'\npattern = { type = 'incast', senders = 3, fetch = true }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 9 }",
        &star(4),
    );
    for transfer in transfers {
        assert_eq!(transfer.kind, Kind::FetchOneToOne);
        assert_eq!(transfer.initiator(), transfer.destinations[0]);
    }
}

/// SCDP figure 11c, on the smallest fat-tree that has room for it.
#[test]
fn an_outcast_has_two_neighbours_with_near_and_far_senders() {
    let (schedule, transfers) = run(
        "[[traffic]]\nname = 'o'\npattern = { type = 'outcast' }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 200000 }",
        &fat_tree(4),
    );
    let hosts = schedule.hosts();
    let (near, far) = transfers.split_at(2);
    assert_eq!((near.len(), far.len()), (2, 12));
    let (left, right) = (near[0].destinations[0], far[0].destinations[0]);
    assert_ne!(left, right);
    assert_eq!(labels(hosts, left), labels(hosts, right));
    let (pod, rack) = labels(hosts, left);
    for transfer in near {
        let from = labels(hosts, transfer.sources[0]);
        assert_eq!((transfer.destinations[0], from.0), (left, pod));
        assert_ne!(from.1, rack);
    }
    let mut senders = Vec::new();
    for transfer in far {
        assert_eq!(transfer.destinations[0], right);
        assert_ne!(labels(hosts, transfer.sources[0]).0, pod);
        senders.push(transfer.sources[0]);
    }
    senders.sort_unstable();
    senders.dedup();
    assert_eq!(senders.len(), 12);
}

#[test]
fn an_incast_has_one_of_several_numbers_of_senders() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 's'\ncount = 300\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'fixed', bytes = 2000 }
         [traffic.pattern]\ntype = 'incast'\nsenders = [2, 5, 9]\nfetch = true",
        &star(12),
    );
    let mut jobs = std::collections::BTreeMap::<u64, u64>::new();
    for transfer in &transfers {
        *jobs.entry(transfer.job).or_default() += 1;
        assert_eq!(transfer.kind, Kind::FetchOneToOne);
    }
    assert_eq!(jobs.len(), 300);
    let times = |count| jobs.values().filter(|&&senders| senders == count).count();
    // The standard deviation of each is 8.
    assert_eq!(times(2) + times(5) + times(9), 300);
    assert!(
        [2, 5, 9]
            .iter()
            .all(|&count| times(count).abs_diff(100) < 30)
    );
}

#[test]
fn requests_of_a_sequence_wait_for_each_other() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 's'\ncount = 40\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'uniform', min_bytes = 2000, max_bytes = 3000 }
         [traffic.pattern]\ntype = 'sequence'\nrequests = 10",
        &star(12),
    );
    assert_eq!(transfers.len(), 400);
    for job in transfers.chunks(10) {
        let client = job[0].destinations[0];
        assert_eq!(job[0].after.map(|after| after.transfer), None);
        for (before, transfer) in job.iter().zip(&job[1..]) {
            let after = transfer.after.unwrap();
            assert_eq!(
                (after.transfer, after.moment),
                (before.id, Moment::Finished)
            );
            assert_eq!((after.delay_ns, after.serial), (0, false));
        }
        assert!(
            job.iter()
                .all(|t| t.kind == Kind::FetchOneToOne && t.initiator() == client)
        );
        assert!(
            job.iter()
                .all(|t| t.sources[0] != client && t.job == job[0].id)
        );
    }
    let servers: std::collections::BTreeSet<_> = transfers.iter().map(|t| t.sources[0]).collect();
    assert_eq!(servers.len(), 12);
}

#[test]
fn responses_wait_for_their_query_and_the_service() {
    let (_, transfers) = run(
        "[[traffic]]\nname = 's'\ncount = 40\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'fixed', bytes = 2800 }
         [traffic.pattern]\ntype = 'partition-aggregate'\nfan_out = 10\nquery_bytes = 3500
         service = { type = 'uniform', min_ns = 1000, max_ns = 2000 }",
        &star(12),
    );
    assert_eq!(transfers.len(), 40 * 20);
    for job in transfers.chunks(20) {
        let (queries, responses) = job.split_at(10);
        let client = queries[0].sources[0];
        let mut servers = Vec::new();
        for (query, response) in queries.iter().zip(responses) {
            assert_eq!((query.kind, query.bytes), (Kind::Query, 3500));
            assert_eq!((response.kind, response.bytes), (Kind::Response, 2800));
            assert_eq!((query.job, response.job), (job[0].id, job[0].id));
            assert_eq!(query.sources, [client]);
            assert_eq!(query.sources, response.destinations);
            assert_eq!(query.destinations, response.sources);
            assert_eq!(response.initiator(), query.destinations[0]);
            let after = response.after.unwrap();
            assert_eq!((after.transfer, after.moment), (query.id, Moment::Finished));
            assert!(after.serial && (1000..=2000).contains(&after.delay_ns));
            servers.push(query.destinations[0]);
        }
        servers.sort_unstable();
        servers.dedup();
        assert_eq!(servers.len(), 10);
        assert!(!servers.contains(&client));
    }
}

fn requests_of_one_client(choose: &str) -> Vec<Transfer> {
    let text = format!(
        "[[group]]\nname = 'client'\ncount = 1\n[[group]]\nname = 'servers'\nrest = true
         [[traffic]]\nname = 'r'\ncount = 28800\nsize = {{ type = 'fixed', bytes = 9 }}
         arrivals = {{ type = 'poisson', rate_hz = 100 }}
         pattern = {{ type = 'requests', clients = 'client', servers = 'servers',
                     choose = '{choose}' }}"
    );
    run(&text, &star(10)).1
}

#[test]
fn requests_for_an_idle_connection_leave_the_choice_to_the_host() {
    let transfers = requests_of_one_client("idle");
    let servers: std::collections::BTreeSet<_> = transfers.iter().map(|t| t.sources[0]).collect();
    assert_eq!(servers.len(), 9);
    assert!(transfers.iter().all(|t| t.connection.is_none()));
}

#[test]
fn requests_use_all_connections_alike() {
    for choose in ["random", "round-robin"] {
        let transfers = requests_of_one_client(choose);
        let mut used = std::collections::BTreeMap::<_, i32>::new();
        for transfer in &transfers {
            assert_eq!(transfer.kind, Kind::FetchOneToOne);
            let connection = transfer.connection.unwrap();
            assert!(connection < 16);
            *used.entry((transfer.sources[0], connection)).or_default() += 1;
        }
        assert_eq!(used.len(), 9 * 16);
        // 200 each; by chance with a standard deviation of 14, of which the largest of 144 is 4.
        let allowed = if choose == "random" { 57 } else { 0 };
        assert!(
            used.values().all(|count| (count - 200).abs() <= allowed),
            "{choose}"
        );
    }
}

#[test]
fn replicas_are_placed_as_hdfs_does() {
    let (schedule, transfers) = run(
        "[[traffic]]\nname = 'w'\ncount = 2000\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'fixed', bytes = 1000000 }\npattern = { type = 'storage-write' }",
        &fat_tree(4),
    );
    let hosts = schedule.hosts();
    let mut in_clients_rack = 0;
    for transfer in &transfers {
        assert_eq!(transfer.kind, Kind::SendOneToMany);
        let client = transfer.sources[0];
        let &[first, second, third] = &*transfer.destinations else {
            panic!("{transfer:?}");
        };
        assert!(!transfer.destinations.contains(&client));
        assert_ne!(second, third);
        assert_ne!(hosts.rack(first), hosts.rack(second));
        assert_eq!(hosts.rack(second), hosts.rack(third));
        in_clients_rack += u32::from(hosts.rack(first) == hosts.rack(client));
    }
    // The first replica is on any of the 15 others, one of which is the client's neighbour.
    let expected = 2000.0 / 15.0;
    assert!((f64::from(in_clients_rack) - expected).abs() < 4.0 * expected.sqrt());
}

#[test]
fn distinct_racks_are_distinct() {
    let (schedule, transfers) = run(
        "[[traffic]]\nname = 'w'\ncount = 500\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'fixed', bytes = 9 }
         pattern = { type = 'storage-write', placement = 'distinct-racks', replicas = 7 }",
        &fat_tree(4),
    );
    for transfer in &transfers {
        let everybody = transfer.destinations.iter().chain(&transfer.sources);
        let mut racks: Vec<_> = everybody.map(|&id| schedule.hosts().rack(id)).collect();
        racks.sort_unstable();
        racks.dedup();
        assert_eq!(racks.len(), 8);
    }
}

/// The comparisons of SCDP figures 5 and 6 are of the same requests done in other ways.
#[test]
fn modes_differ_in_nothing_but_the_mode() {
    let text = |pattern: &str| {
        format!(
            "[[traffic]]\nname = 's'\ncount = 300\narrivals = {{ type = 'poisson', rate_hz = 100 }}
             size = {{ type = 'web-search' }}\npattern = {{ {pattern} }}"
        )
    };
    let (_, group) = run(&text("type = 'storage-write'"), &fat_tree(4));
    let (_, unicast) = run(
        &text("type = 'storage-write', mode = 'multi-unicast'"),
        &fat_tree(4),
    );
    let (_, chain) = run(
        &text("type = 'storage-write', mode = 'daisy-chain'"),
        &fat_tree(4),
    );
    for ((group, unicast), chain) in group.iter().zip(unicast.chunks(3)).zip(chain.chunks(3)) {
        let replicas = &group.destinations;
        for index in 0..3 {
            assert_eq!(unicast[index].sources, group.sources);
            assert_eq!(unicast[index].destinations, replicas[index..=index]);
            assert_eq!(chain[index].destinations, replicas[index..=index]);
            assert_eq!(
                (unicast[index].start_ns, unicast[index].bytes),
                (group.start_ns, group.bytes)
            );
            assert_eq!(chain[index].bytes, group.bytes);
            let after = chain[index]
                .after
                .map(|after| (after.transfer, after.moment));
            match index {
                0 => assert_eq!((&chain[0].sources, after), (&group.sources, None)),
                _ => {
                    assert_eq!(chain[index].sources, chain[index - 1].destinations);
                    assert_eq!(after, Some((chain[index - 1].id, Moment::Begun)));
                }
            }
        }
    }
    let (_, all) = run(&text("type = 'storage-read'"), &fat_tree(4));
    let (_, blocks) = run(&text("type = 'storage-read', blocks = 3"), &fat_tree(4));
    for (all, blocks) in all.iter().zip(blocks.chunks(3)) {
        assert_eq!(all.kind, Kind::FetchManyToOne);
        assert_eq!(all.destinations, blocks[0].destinations);
        assert_eq!(
            all.bytes,
            blocks.iter().map(|block| block.bytes).sum::<u64>()
        );
        assert!(blocks.iter().all(|block| block.job == blocks[0].id));
    }
}

#[test]
fn the_nearest_replica_is_in_the_rack_if_there_is_one() {
    // All of the other two hosts of 2 racks have a replica, so that one is always near.
    let (schedule, transfers) = run(
        "[[traffic]]\nname = 'r'\ncount = 200\narrivals = { type = 'poisson', rate_hz = 100 }
         size = { type = 'fixed', bytes = 9 }
         pattern = { type = 'storage-read', mode = 'nearest', placement = 'any', replicas = 15 }",
        &fat_tree(4),
    );
    for transfer in &transfers {
        assert_eq!(transfer.kind, Kind::FetchOneToOne);
        let (from, to) = (transfer.sources[0], transfer.destinations[0]);
        assert_eq!(schedule.hosts().rack(from), schedule.hosts().rack(to));
    }
}

#[test]
fn what_is_missing_is_told() {
    let problem = |pattern: &str, hosts: &[crate::PlacedHost]| {
        let text = format!(
            "[[traffic]]\nname = 't'\narrivals = {{ type = 'once' }}
             size = {{ type = 'fixed', bytes = 9 }}\npattern = {{ {pattern} }}"
        );
        schedule(&text, hosts).err().unwrap().to_string()
    };
    assert_eq!(
        problem("type = 'storage-write'", &star(4)),
        "traffic t pattern: needs to know the rack of each host; host h1 has no `rack`"
    );
    assert_eq!(
        problem(
            "type = 'storage-write', placement = 'distinct-racks', replicas = 8",
            &fat_tree(4)
        ),
        "traffic t pattern: 8 replicas do not fit for client h1: too few servers in the racks that \
         placement `distinct-racks` allows"
    );
    assert_eq!(
        problem("type = 'permutation'", &star(1)),
        "traffic t pattern: h1 has 0 hosts on the other side that it may use, 1 needed"
    );
    assert_eq!(
        problem("type = 'random', to = 'x'", &star(2)),
        "traffic t pattern: there is no group x, nor any other"
    );
    assert_eq!(
        problem("type = 'outcast'", &fat_tree(2)),
        "traffic t pattern: an outcast needs two hosts in one rack, one in another rack of the pod \
         and one in another pod"
    );
}
