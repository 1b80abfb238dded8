//! Invariants of the store at the end of a run.

use super::*;

impl World {
    pub(super) fn status(&mut self) -> Status {
        let now = self.now;
        let locator = self.locator.as_mut().unwrap();
        match locator.handle(now, Request::Status {}) {
            (_, Some(Reply::Status(status))) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn repair(&mut self) {
        let now = self.now;
        let (_, reply) = self
            .locator
            .as_mut()
            .unwrap()
            .handle(now, Request::Repair {});
        let Some(Reply::Repairing { repair }) = reply else {
            panic!("{reply:?}");
        };
        let patience = now + Duration::from_secs(100);
        loop {
            self.run_until(self.now + Duration::from_secs(1));
            let servers = self.status().servers;
            let done = |server: &Server| {
                server.alive && server.repair.is_some_and(|p| p.repair == repair && p.done)
            };
            if servers.iter().all(done) {
                for progress in servers.iter().filter_map(|server| server.repair) {
                    self.counts.copied += progress.copied;
                    self.counts.damaged += progress.damaged;
                    self.counts.deleted += progress.deleted;
                }
                return;
            }
            if self.now > patience {
                self.problems
                    .push(format!("a repair does not end: {servers:?}"));
                return;
            }
        }
    }

    pub(super) fn check_disks(&mut self) {
        let status = self.status();
        if (status.short, status.lost) != (0, 0) {
            let (short, lost) = (status.short, status.lost);
            self.problems
                .push(format!("{short} tracts have too few copies, {lost} none"));
        }
        let mut expected = BTreeSet::new();
        for (name, blob) in &self.database.blobs {
            for index in 0..blob.tracts.len() {
                let row = status.table.row(name, index);
                let tract = blob.tract_name(index);
                expected.extend(
                    row.replicas
                        .iter()
                        .map(|server| (*server, tract.to_string())),
                );
            }
        }
        let mut found = BTreeSet::new();
        for host in &mut self.hosts {
            let disk = &mut host.replica.as_mut().unwrap().disk;
            for name in disk.names().unwrap() {
                let tract: TractName = name.parse().unwrap();
                if disk.sha256(&name).unwrap() == Some(tract.sha256) {
                    found.insert((host.address, name));
                }
            }
        }
        for (server, name) in expected.symmetric_difference(&found) {
            self.problems.push(format!("{server} and {name}"));
        }
    }

    pub(super) fn read_all(&mut self) {
        let before = self.counts.failed_gets;
        for name in NAMES {
            let (now, many) = (self.now, self.rng.random());
            let client = &mut self.clients[0];
            client.epoch += 1;
            client.began = now.as_nanos();
            client.name = name.to_owned();
            client.doing = Some(Doing::Get {
                get: Get::new(now, name, many),
                content: BTreeMap::new(),
            });
            self.drive();
            self.run_until(self.now + Duration::from_secs(30));
            if self.clients[0].doing.is_some() {
                self.problems.push(format!("`{name}` is not read in 30 s"));
            }
        }
        if self.counts.failed_gets > before {
            self.problems.push("a blob cannot be read".to_owned());
        }
    }

    pub(super) fn check_history(&mut self) {
        if linearize(&self.history).is_none() {
            self.problems
                .push("the history is not linearizable".to_owned());
        }
        for lost in unfounded_conflicts(&self.history) {
            self.problems
                .push(format!("a conflict without another put: {lost:?}"));
        }
    }
}
