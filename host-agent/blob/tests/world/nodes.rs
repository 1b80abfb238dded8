//! Lets clients, replicas and the locator do what they want to, and notes what operations have done.

use super::*;

impl World {
    pub(super) fn drive(&mut self) {
        if let Some(locator) = &mut self.locator {
            let changes = locator.handle_deadline(self.now);
            self.write(changes);
        }
        for number in 0..HOSTS {
            while let Some(replica) = &mut self.hosts[number].replica {
                let action = replica.poll(self.now);
                self.crash_if_its_time(number);
                let from = Node::Host(number);
                match action {
                    Some(ReplicaAction::Ask(ask)) => self.ask(from, ask),
                    Some(ReplicaAction::Fetch(fetch)) => {
                        let epoch = self.epoch(from);
                        self.after(
                            1..20,
                            Event::Request {
                                to: from,
                                epoch,
                                fetch,
                            },
                        );
                    }
                    Some(ReplicaAction::Worked) => {}
                    None => break,
                }
            }
        }
        for number in 0..CLIENTS {
            while let Some(doing) = &mut self.clients[number].doing {
                let action = match doing {
                    Doing::Put { put, .. } => put.poll(self.now),
                    Doing::Get { get, .. } => get.poll(self.now),
                    Doing::List(list) => list.poll(self.now),
                };
                let Some(action) = action else { break };
                self.act(number, action);
            }
            self.finish(number);
        }
    }

    pub(super) fn ask(&mut self, from: Node, ask: Ask) {
        let (epoch, life) = (self.epoch(from), self.locator_life);
        let Ask { id, request } = ask;
        let call = Call { id, request };
        self.send(
            from,
            Node::Locator,
            Event::Question {
                from,
                epoch,
                life,
                call,
            },
        );
    }

    pub(super) fn act(&mut self, client: usize, action: Action) {
        let (from, epoch) = (Node::Client(client), self.clients[client].epoch);
        match action {
            Action::Ask(ask) => self.ask(from, ask),
            Action::Store(store) => {
                let Some(Doing::Put { number, .. }) = &self.clients[client].doing else {
                    return;
                };
                let content = contents(*number)[store.tract.index as usize].clone();
                let late = self.faulty && self.rng.random_bool(0.03);
                let ms = if late { 500..8000 } else { 5..100 };
                self.after(
                    ms,
                    Event::Arrival {
                        client,
                        epoch,
                        store,
                        content,
                    },
                );
            }
            Action::Fetch(fetch) => self.after(
                1..20,
                Event::Request {
                    to: from,
                    epoch,
                    fetch,
                },
            ),
        }
    }

    pub(super) fn begin(&mut self, number: usize) {
        let now = self.now;
        let client = &mut self.clients[number];
        let Some(left) = client.left.checked_sub(1) else {
            return;
        };
        client.left = left;
        client.epoch += 1;
        client.began = now.as_nanos();
        client.name = NAMES[self.rng.random_range(0..NAMES.len())].to_owned();
        let doing = match self.rng.random_range(0..10) {
            0..5 => {
                self.puts += 1;
                let pieces = contents(self.puts);
                let pieces = pieces.iter().map(|content| Piece {
                    bytes: content.len() as u64,
                    sha256: Digest::of(content),
                });
                let multicast = self.rng.random();
                Doing::Put {
                    put: Put::new(now, &client.name, pieces.collect(), multicast),
                    number: self.puts,
                }
            }
            5..8 => Doing::Get {
                get: Get::new(now, &client.name, self.rng.random()),
                content: BTreeMap::new(),
            },
            _ => {
                client.name.clear();
                Doing::List(List::new(now))
            }
        };
        client.doing = Some(doing);
    }

    pub(super) fn finish(&mut self, number: usize) {
        let Some(did) = self.outcome(number) else {
            return;
        };
        let client = &mut self.clients[number];
        client.doing = None;
        // Answers that come late for it are for nobody.
        client.epoch += 1;
        if let Some(did) = did {
            self.record(number, did);
        }
        self.after(0..800, Event::Begin { client: number });
    }

    pub(super) fn record(&mut self, number: usize, did: Did) {
        let client = &self.clients[number];
        let ended = match did {
            Did::MayPut { .. } => u64::MAX,
            _ => self.now.as_nanos(),
        };
        self.history.push(Operation {
            name: client.name.clone(),
            began: client.began,
            ended,
            did,
        });
    }

    pub(super) fn outcome(&mut self, number: usize) -> Option<Option<Did>> {
        let counts = &mut self.counts;
        let did = match self.clients[number].doing.as_ref()? {
            Doing::Put { put, number } => match put.outcome()? {
                PutOutcome::Stored { version, lacking } => {
                    counts.stored += 1;
                    counts.with_fewer_replicas += u64::from(!lacking.is_empty());
                    Some(Did::Put {
                        content: *number,
                        version: *version,
                    })
                }
                PutOutcome::Conflict { .. } => {
                    counts.conflicts += 1;
                    Some(Did::Lost)
                }
                PutOutcome::Unknown(_) => {
                    counts.unknown += 1;
                    Some(Did::MayPut { content: *number })
                }
                PutOutcome::Failed(_) => {
                    counts.failed_puts += 1;
                    None
                }
            },
            Doing::Get { get, content } => match get.outcome()? {
                GetOutcome::Got(got) => {
                    counts.got += 1;
                    counts.complaints += u64::from(!got.complaints.is_empty());
                    let parts = (0..got.blob.tracts.len()).filter_map(|i| content.get(&(i as u32)));
                    let parts: Vec<_> = parts.cloned().collect();
                    match author(&parts) {
                        Some(author) => Some(Did::Get {
                            found: Some((author, got.blob.version)),
                        }),
                        None => {
                            self.problems.push(format!("a mixed object: {parts:?}"));
                            None
                        }
                    }
                }
                GetOutcome::Missing => Some(Did::Get { found: None }),
                GetOutcome::Failed(_) => {
                    counts.failed_gets += 1;
                    None
                }
            },
            Doing::List(list) => match list.outcome()? {
                ListOutcome::Blobs(blobs) => {
                    counts.lists += 1;
                    let blobs = blobs
                        .iter()
                        .map(|listed| (listed.name.clone(), listed.version));
                    Some(Did::List {
                        blobs: blobs.collect(),
                    })
                }
                ListOutcome::Failed(_) => None,
            },
        };
        Some(did)
    }
}
