//! Faults: which, when, and what they do.

use super::*;

impl World {
    pub(super) fn plan_faults(&mut self) {
        // Only the disk of one host loses what it has confirmed: two copies are on others.
        let unlucky = self.rng.random_range(0..HOSTS);
        let start = self.now;
        for _ in 0..self.rng.random_range(6..18) {
            let host = self.rng.random_range(0..HOSTS);
            let client = self.rng.random_range(0..CLIENTS);
            let (fault, end) = match self.rng.random_range(0..11) {
                0 | 1 => (Fault::CrashHost(host), Some(Fault::StartHost(host))),
                2 => (Fault::CrashLocator, Some(Fault::StartLocator)),
                3 => (Fault::Full(host, true), Some(Fault::Full(host, false))),
                4 => (Fault::Rot(unlucky), None),
                5 => (Fault::Replace(unlucky), None),
                6 => (Fault::CrashClient(client), None),
                // Clients cannot reach half of the replicas, while the locator can.
                7 => {
                    let half = (0..HOSTS).filter(|n| n % 2 == host % 2);
                    let pairs = half.flat_map(|n| (0..CLIENTS).map(move |c| (n, c)));
                    let pairs = pairs.map(|(n, c)| (Node::Client(c), Node::Host(n)));
                    let pairs: Vec<_> = pairs.collect();
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
                8 => {
                    let pairs = (0..HOSTS).map(|n| (Node::Client(client), Node::Host(n)));
                    let pairs: Vec<_> = pairs.collect();
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
                9 => (Fault::Repair, None),
                _ => {
                    let pairs = vec![
                        (Node::Locator, Node::Host(host)),
                        (Node::Locator, Node::Client(client)),
                    ];
                    (
                        Fault::Cut(pairs.clone(), true),
                        Some(Fault::Cut(pairs, false)),
                    )
                }
            };
            let at = self.rng.random_range(0..FAULTS_NS / 1_000_000);
            self.now = start;
            self.after(at..at + 1, Event::Fault(fault));
            if let Some(end) = end {
                let lasts = self.rng.random_range(100..9000);
                self.after(at + lasts..at + lasts + 1, Event::Fault(end));
            }
        }
        // And hosts that crash in the middle of what they do.
        for _ in 0..3 {
            let host = self.rng.random_range(0..HOSTS);
            if let Some(replica) = &mut self.hosts[host].replica {
                replica.disk.fuse = Some(self.rng.random_range(1..60));
            }
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Repair => {
                if let Some(locator) = &mut self.locator {
                    locator.handle(now, Request::Repair {});
                }
            }
            Fault::CrashHost(number) => {
                let host = &mut self.hosts[number];
                if let Some(replica) = host.replica.take() {
                    let mut files = replica.disk;
                    // A tract that was deleted, or damaged by `rot`, is not lost by the crash.
                    host.confirmed.retain(|name| is_sound(&files, name));
                    files.crash(&mut self.rng);
                    if !host.confirmed.iter().all(|name| is_sound(&files, name)) {
                        let problem = "a crash took what was confirmed".to_owned();
                        self.problems.push(problem);
                    }
                    host.files = Some(files);
                    host.epoch += 1;
                    self.counts.crashes += 1;
                }
            }
            Fault::StartHost(number) => {
                let host = &mut self.hosts[number];
                if let Some(files) = host.files.take() {
                    host.epoch += 1;
                    let start = host.epoch;
                    let replica = Replica::new(now, host.address, host.store, start, files);
                    host.replica = Some(replica);
                }
            }
            Fault::CrashLocator => {
                self.counts.crashes += u64::from(self.locator.is_some());
                self.locator = None;
                self.unwritten.clear();
                self.locator_life += 1;
            }
            Fault::StartLocator => {
                if self.locator.is_none() {
                    let config = config(&self.hosts);
                    let opened = Locator::open(now, config, self.database.clone());
                    let (locator, changes) = opened.unwrap();
                    changes
                        .into_iter()
                        .for_each(|change| self.database.apply(change));
                    self.locator = Some(locator);
                }
            }
            Fault::Cut(pairs, cut) => {
                for (a, b) in pairs {
                    let pair = (a.min(b), a.max(b));
                    match cut {
                        true => self.cut.insert(pair),
                        false => self.cut.remove(&pair),
                    };
                }
            }
            Fault::Full(number, full) => {
                let host = &mut self.hosts[number];
                let replica = host.replica.as_mut().map(|replica| &mut replica.disk);
                if let Some(files) = replica.or(host.files.as_mut()) {
                    files.full = full;
                }
            }
            Fault::Rot(number) => {
                if let Some(replica) = &mut self.hosts[number].replica {
                    (0..5).for_each(|_| replica.disk.rot(&mut self.rng));
                }
            }
            Fault::Replace(number) => {
                self.fault(Fault::CrashHost(number));
                let host = &mut self.hosts[number];
                if let Some(files) = &mut host.files {
                    host.store = self.rng.random();
                    host.confirmed.clear();
                    *files = Files::new(files.lies);
                }
                self.fault(Fault::StartHost(number));
            }
            Fault::CrashClient(number) => {
                let Some(doing) = self.clients[number].doing.take() else {
                    return;
                };
                if let Doing::Put { number: put, .. } = doing {
                    self.record(number, Did::MayPut { content: put });
                }
                self.clients[number].epoch += 1;
                self.after(0..1500, Event::Begin { client: number });
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.faulty = false;
        self.cut.clear();
        self.events
            .retain(|_, event| !matches!(event, Event::Fault(_)));
        self.fault(Fault::StartLocator);
        for number in 0..HOSTS {
            self.fault(Fault::StartHost(number));
            self.fault(Fault::Full(number, false));
            if let Some(replica) = &mut self.hosts[number].replica {
                replica.disk.fuse = None;
            }
        }
        // The locator hears of all replicas.
        self.run_until(self.now + Duration::from_secs(10));
    }
}
