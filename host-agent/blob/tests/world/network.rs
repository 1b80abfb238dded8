//! Messages and transfers, and what becomes of them on the way.

use super::*;

impl World {
    pub(super) fn send(&mut self, from: Node, to: Node, event: Event) {
        if self.is_cut(from, to) || (self.faulty && self.rng.random_bool(0.02)) {
            return;
        }
        let late = self.faulty && self.rng.random_bool(0.03);
        self.after(if late { 500..4000 } else { 1..20 }, event);
    }

    pub(super) fn is_cut(&self, a: Node, b: Node) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    pub(super) fn question(&mut self, from: Node, epoch: u64, call: Call) {
        let Some(locator) = &mut self.locator else {
            return;
        };
        let (changes, reply) = locator.handle(self.now, call.request);
        let crash = self.faulty && self.rng.random_bool(0.005);
        // Before the transaction, or after it.
        if crash && self.rng.random_bool(0.5) {
            self.crash_locator_for_a_while();
            return;
        }
        self.write(changes);
        if crash {
            self.crash_locator_for_a_while();
            return;
        }
        if let Some(reply) = reply {
            let id = call.id;
            let answer = Event::Answer {
                to: from,
                epoch,
                id,
                reply,
            };
            self.send(Node::Locator, from, answer);
        }
    }

    pub(super) fn write(&mut self, changes: Vec<Change>) {
        self.unwritten.extend(changes);
        if self.bug != Some(Bug::AnswersTooEarly) || self.rng.random_bool(0.05) {
            self.unwritten
                .drain(..)
                .for_each(|change| self.database.apply(change));
        }
    }

    pub(super) fn crash_locator_for_a_while(&mut self) {
        self.fault(Fault::CrashLocator);
        self.after(100..3000, Event::Fault(Fault::StartLocator));
    }

    pub(super) fn answer(&mut self, to: Node, id: u64, mut reply: Reply) {
        let now = self.now;
        match to {
            Node::Host(number) => {
                if let Some(replica) = &mut self.hosts[number].replica {
                    replica.handle_reply(id, reply);
                }
            }
            Node::Client(number) => {
                let client = &mut self.clients[number];
                match &mut client.doing {
                    Some(Doing::Put { put, .. }) => put.handle_reply(now, id, reply),
                    Some(Doing::Get { get, .. }) => {
                        if self.bug == Some(Bug::RemembersLookups) {
                            let name = client.name.clone();
                            reply = client.lookups.entry(name).or_insert(reply).clone();
                        }
                        get.handle_reply(id, reply);
                    }
                    Some(Doing::List(list)) => list.handle_reply(now, id, reply),
                    None => {}
                }
            }
            Node::Locator => {}
        }
    }

    pub(super) fn arrival(&mut self, client: usize, epoch: u64, store: &Store, content: &[u8]) {
        let mut result = Ok(());
        for server in &store.to {
            let number = self.host_at(*server);
            if self.is_cut(Node::Client(client), Node::Host(number)) {
                result = Err("no answer".to_owned());
            } else if let Err(reason) = self.keep(number, &store.tract.to_string(), content) {
                result = Err(reason);
            }
        }
        if self.faulty && self.rng.random_bool(0.02) {
            result = Err("the confirmation is lost".to_owned());
        }
        let ms = if result.is_ok() { 1..20 } else { 300..1500 };
        let transfer = store.transfer;
        self.after(
            ms,
            Event::Stored {
                client,
                epoch,
                transfer,
                result,
            },
        );
    }

    pub(super) fn keep(&mut self, number: usize, name: &str, content: &[u8]) -> Result<(), String> {
        self.last_event += 1;
        let temporary = format!(".part-{}", self.last_event);
        let host = &mut self.hosts[number];
        let replica = host.replica.as_mut().ok_or("no answer")?;
        replica.check(name, content.len() as u64, Digest::of(content))?;
        let disk = &mut replica.disk;
        let kept = disk.write(&temporary, content.to_vec());
        let kept = kept.and_then(|()| keep(disk, &temporary, name));
        if kept.is_ok() {
            host.confirmed.insert(name.to_owned());
        } else if !disk.has_crashed() {
            let _ = disk.remove(&temporary);
        }
        self.crash_if_its_time(number);
        kept.map_err(|error| error.to_string())
    }

    pub(super) fn crash_if_its_time(&mut self, number: usize) {
        let replica = self.hosts[number].replica.as_ref();
        if replica.is_some_and(|replica| replica.disk.has_crashed()) {
            self.fault(Fault::CrashHost(number));
            self.after(100..5000, Event::Fault(Fault::StartHost(number)));
        }
    }

    pub(super) fn request(&mut self, to: Node, epoch: u64, fetch: &Fetch) {
        let name = fetch.tract.to_string();
        let servers = fetch.from.iter().map(|server| self.host_at(*server));
        let servers: Vec<_> = servers
            .filter(|n| !self.is_cut(to, Node::Host(*n)))
            .collect();
        let found = servers.iter().filter_map(|number| {
            let replica = self.hosts[*number].replica.as_ref()?;
            replica.disk.read(&name).map(<[u8]>::to_vec)
        });
        let mut found: Vec<_> = found.collect();
        let lost = self.faulty && self.rng.random_bool(0.02);
        let result = match found.len() {
            0 => Err("nobody has it".to_owned()),
            _ if lost => Err("no answer".to_owned()),
            n => Ok(found.swap_remove(self.rng.random_range(0..n))),
        };
        let ms = if result.is_ok() { 1..20 } else { 100..1000 };
        let transfer = fetch.transfer;
        self.after(
            ms,
            Event::Fetched {
                to,
                epoch,
                transfer,
                result,
            },
        );
    }

    pub(super) fn fetched(
        &mut self,
        to: Node,
        epoch: u64,
        transfer: u64,
        result: Result<Vec<u8>, String>,
    ) {
        match to {
            Node::Client(number) => {
                if let Some(Doing::Get { get, content }) = self.doing(number, epoch) {
                    let digest = result.as_ref().map(|bytes| Digest::of(bytes));
                    let digest = digest.map_err(Clone::clone);
                    if get.handle_fetched(transfer, digest)
                        && let Ok(bytes) = result
                    {
                        // The tract has a number in its own text.
                        let text = String::from_utf8_lossy(&bytes);
                        let index = text.split(' ').nth(3).and_then(|n| n.parse().ok());
                        content.insert(index.unwrap_or(u32::MAX), bytes);
                    }
                }
            }
            Node::Host(number) if epoch == self.hosts[number].epoch => {
                self.last_event += 1;
                let temporary = format!(".copy-{}", self.last_event);
                if let Some(replica) = &mut self.hosts[number].replica {
                    let written = result.and_then(|bytes| {
                        let written = replica.disk.write(&temporary, bytes);
                        written.map_err(|error| error.to_string())
                    });
                    replica.handle_fetched(transfer, written.map(|()| temporary));
                }
                self.crash_if_its_time(number);
            }
            _ => {}
        }
    }
}
