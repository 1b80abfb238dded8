//! Digest lists: what is buffered, what is sent, what is not acknowledged yet (spec,
//! "DigestEntry"). Without clock and I/O.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::proto::p4::digest_entry::Config;

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
/// A list is sent when its values take so much, however long it may be: clients accept messages of 4 MiB.
const LIST_BYTES: usize = 1 << 20;
/// Most bytes of lists of one digest that wait for acknowledgements. Beyond that the oldest lists are forgotten, and
/// their digests may come again.
const UNACKNOWLEDGED_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub struct Digests {
    learners: BTreeMap<u32, Learner>,
    last_list: u64,
}

#[derive(Debug, Default)]
struct Learner {
    config: Config,
    buffer: Vec<Values>,
    buffer_bytes: usize,
    /// When the first of the buffer came; `None`: it is empty.
    oldest: Option<Instant>,
    sent: VecDeque<Sent>,
    sent_bytes: usize,
    /// The digests in the buffer and in lists that wait for their acknowledgement, which are not sent again.
    known: HashSet<Values>,
}

#[derive(Debug)]
struct Sent {
    list_id: u64,
    at: Instant,
    items: Vec<Values>,
    bytes: usize,
}

impl Digests {
    /// Sets the digests that controllers want. Digests that nobody wants any more are forgotten.
    pub fn configure(&mut self, wanted: &BTreeMap<u32, Config>) {
        self.learners.retain(|id, _| wanted.contains_key(id));
        for (id, learner) in &mut self.learners {
            learner.config = wanted.get(id).copied().unwrap_or_default();
        }
    }

    /// The data plane sent a digest.
    pub fn handle_digest(&mut self, now: Instant, id: u32, config: Config, values: Values) {
        let learner = self.learners.entry(id).or_default();
        learner.config = config;
        learner.expire(now);
        if !learner.known.insert(values.clone()) {
            return;
        }
        learner.buffer_bytes += size(&values);
        learner.buffer.push(values);
        learner.oldest.get_or_insert(now);
    }

    /// A controller acknowledged a list: its digests may be sent again.
    pub fn handle_ack(&mut self, id: u32, list_id: u64) {
        if let Some(learner) = self.learners.get_mut(&id)
            && let Some(at) = learner.sent.iter().position(|s| s.list_id == list_id)
        {
            let sent = learner.sent.remove(at);
            learner.forget(sent);
        }
    }

    /// The next list that is full or has waited long enough.
    pub fn poll_list(&mut self, now: Instant) -> Option<List> {
        let ready = |l: &Learner| l.is_full() || l.deadline().is_some_and(|at| at <= now);
        let (id, learner) = self.learners.iter_mut().find(|(_, l)| ready(l))?;
        self.last_list += 1;
        let items = learner.take_buffer(now, self.last_list);
        Some(List {
            digest_id: *id,
            list_id: self.last_list,
            items,
        })
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.learners.values().filter_map(Learner::deadline).min()
    }

    /// Another pipeline was installed: what waits is of the old one.
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
        self.buffer.len() >= size || self.buffer_bytes >= LIST_BYTES
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.oldest? + nanos(self.config.max_timeout_ns))
    }

    fn take_buffer(&mut self, now: Instant, list_id: u64) -> Vec<Values> {
        let items = std::mem::take(&mut self.buffer);
        let bytes = std::mem::take(&mut self.buffer_bytes);
        self.oldest = None;
        self.sent_bytes += bytes;
        self.sent.push_back(Sent {
            list_id,
            at: now,
            items: items.clone(),
            bytes,
        });
        self.expire(now);
        items
    }

    fn expire(&mut self, now: Instant) {
        let timeout = nanos(self.config.ack_timeout_ns);
        let is_old = |sent: &Sent| now >= sent.at + timeout;
        while self.sent_bytes > UNACKNOWLEDGED_BYTES || self.sent.front().is_some_and(is_old) {
            let oldest = self.sent.pop_front();
            self.forget(oldest);
        }
    }

    fn forget(&mut self, sent: Option<Sent>) {
        let Some(sent) = sent else { return };
        self.sent_bytes -= sent.bytes;
        for values in &sent.items {
            self.known.remove(values);
        }
    }
}

/// How many bytes the values take in memory, about.
fn size(values: &Values) -> usize {
    values.iter().map(|v| v.len() + 32).sum()
}

fn nanos(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0) as u64)
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

    #[test]
    fn a_list_that_is_never_full_and_acknowledgements_that_never_come_take_a_bounded_memory() {
        let mut d = Digests::default();
        let (now, c) = (Instant::now(), config(i32::MAX, i64::MAX, i64::MAX));
        let value = |n: u32| vec![n.to_be_bytes().to_vec(), vec![0; 1000]];
        let (mut lists, mut items) = (0, 0);
        let total = 3 * UNACKNOWLEDGED_BYTES / 1000;
        for n in 0..total as u32 {
            d.handle_digest(now, 7, c, value(n));
            while let Some(list) = d.poll_list(now) {
                lists += 1;
                items += list.items.len();
            }
        }
        assert!(lists > 90, "{lists}");
        assert!(items + 1000 > total, "{items} of {total}");
        let learner = &d.learners[&7];
        assert!(learner.sent_bytes <= UNACKNOWLEDGED_BYTES);
        let kept: usize = learner.known.iter().map(size).sum();
        assert_eq!(kept, learner.sent_bytes + learner.buffer_bytes);
        // The first is forgotten, the last is not.
        d.handle_digest(now, 7, c, value(total as u32 - 1));
        let before = d.learners[&7].buffer.len();
        d.handle_digest(now, 7, c, value(0));
        assert_eq!(d.learners[&7].buffer.len(), before + 1);
    }

    #[test]
    fn what_is_configured_later_holds_for_what_waits() {
        let mut d = Digests::default();
        let (now, slow) = (Instant::now(), config(10, SECOND, 0));
        d.handle_digest(now, 7, slow, vec![vec![1]]);
        d.handle_digest(now, 8, slow, vec![vec![1]]);
        assert_eq!(d.poll_list(now), None);
        d.configure(&BTreeMap::from([(8, config(1, SECOND, 0))]));
        assert_eq!(d.poll_list(now).map(|l| l.digest_id), Some(8));
        assert_eq!((d.poll_list(now), d.next_deadline()), (None, None));
    }
}
