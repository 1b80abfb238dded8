//! Digest lists: what is buffered, what is sent, what is not acknowledged yet (spec,
//! "DigestEntry"). Without clock and I/O.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::proto::config::p4_data_type_spec::TypeSpec;
use crate::proto::config::{P4DataTypeSpec, P4TypeInfo};
use crate::proto::p4::digest_entry::Config;
use crate::proto::p4::p4_data::Data;
use crate::proto::p4::{P4Data, P4Header, P4StructLike};

/// The fields of one digest.
pub type Values = Vec<Vec<u8>>;

/// A list that is ready for the controllers.
#[derive(Debug, PartialEq, Eq)]
pub struct List {
    pub digest_id: u32,
    pub list_id: u64,
    pub items: Vec<Values>,
}

/// `max_list_size` 0 leaves the size to the server.
const DEFAULT_LIST_SIZE: usize = 1024;

#[derive(Debug, Default)]
pub struct Digests {
    learners: BTreeMap<u32, Learner>,
    last_list: u64,
}

#[derive(Debug, Default)]
struct Learner {
    config: Config,
    buffer: Vec<Values>,
    oldest: Option<Instant>,
    sent: VecDeque<Sent>,
}

#[derive(Debug)]
struct Sent {
    list_id: u64,
    at: Instant,
    items: HashSet<Values>,
}

impl Digests {
    /// The data plane sent a digest.
    pub fn handle_digest(&mut self, now: Instant, id: u32, config: Config, values: Values) {
        let learner = self.learners.entry(id).or_default();
        learner.config = config;
        learner.expire(now);
        let known = |sent: &Sent| sent.items.contains(&values);
        if learner.buffer.contains(&values) || learner.sent.iter().any(known) {
            return;
        }
        learner.buffer.push(values);
        learner.oldest.get_or_insert(now);
    }

    /// A controller acknowledged a list: its digests may be sent again.
    pub fn handle_ack(&mut self, id: u32, list_id: u64) {
        if let Some(learner) = self.learners.get_mut(&id) {
            learner.sent.retain(|sent| sent.list_id != list_id);
        }
    }

    /// The next list that is full or has waited long enough.
    pub fn poll_list(&mut self, now: Instant) -> Option<List> {
        let ready = |l: &Learner| l.is_full() || l.deadline().is_some_and(|at| at <= now);
        let (id, learner) = self.learners.iter_mut().find(|(_, l)| ready(l))?;
        self.last_list += 1;
        let items = std::mem::take(&mut learner.buffer);
        learner.oldest = None;
        if learner.config.ack_timeout_ns > 0 {
            learner.sent.push_back(Sent {
                list_id: self.last_list,
                at: now,
                items: items.iter().cloned().collect(),
            });
        }
        Some(List {
            digest_id: *id,
            list_id: self.last_list,
            items,
        })
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.learners.values().filter_map(Learner::deadline).min()
    }

    /// Another pipeline, or another primary.
    pub fn clear(&mut self) {
        self.learners.clear();
    }
}

impl Learner {
    fn is_full(&self) -> bool {
        let size = match self.config.max_list_size {
            0 => DEFAULT_LIST_SIZE,
            size => size as usize,
        };
        self.buffer.len() >= size
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.oldest? + nanos(self.config.max_timeout_ns))
    }

    fn expire(&mut self, now: Instant) {
        let timeout = nanos(self.config.ack_timeout_ns);
        self.sent.retain(|sent| now < sent.at + timeout);
    }
}

fn nanos(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0) as u64)
}

/// The values of a digest, in the shape of its P4 type.
pub fn encode_data(spec: Option<&P4DataTypeSpec>, types: &P4TypeInfo, values: Values) -> P4Data {
    let mut values = values.into_iter();
    encode(spec, types, &mut values)
}

fn encode(
    spec: Option<&P4DataTypeSpec>,
    types: &P4TypeInfo,
    values: &mut impl Iterator<Item = Vec<u8>>,
) -> P4Data {
    let data = match spec.and_then(|s| s.type_spec.as_ref()) {
        Some(TypeSpec::Struct(name)) => {
            let members = types.structs.get(&name.name).map(|s| &s.members);
            let members = members.into_iter().flatten();
            Data::Struct(P4StructLike {
                members: members
                    .map(|m| encode(m.type_spec.as_ref(), types, values))
                    .collect(),
            })
        }
        Some(TypeSpec::Tuple(tuple)) => Data::Tuple(P4StructLike {
            members: tuple
                .members
                .iter()
                .map(|m| encode(Some(m), types, values))
                .collect(),
        }),
        Some(TypeSpec::Header(name)) => {
            let fields = types.headers.get(&name.name).map_or(0, |h| h.members.len());
            let bitstrings = values.by_ref().take(fields);
            Data::Header(P4Header {
                is_valid: true,
                bitstrings: bitstrings
                    .map(|v| crate::bytes::strip(&v).to_vec())
                    .collect(),
            })
        }
        Some(TypeSpec::Bool(_)) => {
            Data::Bool(values.next().is_some_and(|v| !crate::bytes::is_zero(&v)))
        }
        _ => Data::Bitstring(crate::bytes::strip(&values.next().unwrap_or_default()).to_vec()),
    };
    P4Data { data: Some(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn config(size: i32, timeout_ns: i64, ack_ns: i64) -> Config {
        Config {
            max_list_size: size,
            max_timeout_ns: timeout_ns,
            ack_timeout_ns: ack_ns,
        }
    }

    #[test]
    fn lists_are_sent_when_full_and_hold_no_duplicates() {
        let mut d = Digests::default();
        let (now, c) = (Instant::now(), config(2, SECOND, SECOND));
        d.handle_digest(now, 7, c, vec![vec![1]]);
        d.handle_digest(now, 7, c, vec![vec![1]]);
        assert_eq!(d.poll_list(now), None);
        d.handle_digest(now, 7, c, vec![vec![2]]);
        let list = d.poll_list(now).unwrap();
        assert_eq!((list.digest_id, list.items.len()), (7, 2));
        assert_eq!(d.poll_list(now), None);
    }

    #[test]
    fn what_is_not_acknowledged_is_not_sent_again_until_the_timeout() {
        let mut d = Digests::default();
        let (now, c) = (Instant::now(), config(1, 0, SECOND));
        d.handle_digest(now, 7, c, vec![vec![1]]);
        let list = d.poll_list(now).unwrap();
        d.handle_digest(now, 7, c, vec![vec![1]]);
        assert_eq!(d.poll_list(now), None);
        d.handle_ack(7, list.list_id);
        d.handle_digest(now, 7, c, vec![vec![1]]);
        assert!(d.poll_list(now).is_some());
        let later = now + Duration::from_secs(1);
        d.handle_digest(later, 7, c, vec![vec![1]]);
        assert!(d.poll_list(later).is_some());
    }

    #[test]
    fn the_oldest_digest_waits_for_the_timeout_at_most() {
        let mut d = Digests::default();
        let (now, c) = (Instant::now(), config(0, SECOND, 0));
        d.handle_digest(now, 7, c, vec![vec![1]]);
        let due = now + Duration::from_secs(1);
        assert_eq!(d.next_deadline(), Some(due));
        assert_eq!(d.poll_list(now), None);
        assert!(d.poll_list(due).is_some());
        assert_eq!(d.next_deadline(), None);
    }
}
