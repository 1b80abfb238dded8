//! Work of several owners, done by several threads in turns: the owner with the least recent turn is
//! next, and none occupies all threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::machine::lock::lock;

/// Work that waits, by owner.
pub struct FairQueue<Owner, Work> {
    /// Most pieces of work of one owner that are taken at a time.
    most: usize,
    /// Owners with work that waits or is taken, next one first.
    owners: Mutex<VecDeque<OwnerQueue<Owner, Work>>>,
    changed: Condvar,
}

struct OwnerQueue<Owner, Work> {
    owner: Owner,
    waiting: VecDeque<Work>,
    /// Pieces of its work that are taken and not given back.
    taken: usize,
}

impl<Owner: Copy + Eq, Work> FairQueue<Owner, Work> {
    pub fn new(most: usize) -> Self {
        FairQueue {
            most,
            owners: Mutex::new(VecDeque::new()),
            changed: Condvar::new(),
        }
    }

    pub fn push(&self, owner: Owner, work: Work) {
        let mut owners = lock(&self.owners);
        match owners.iter_mut().find(|own| own.owner == owner) {
            Some(own) => own.waiting.push_back(work),
            None => owners.push_back(OwnerQueue {
                owner,
                waiting: VecDeque::from([work]),
                taken: 0,
            }),
        }
        self.changed.notify_one();
    }

    /// Waits for something to do. [`give_back`](Self::give_back) follows.
    pub fn take(&self) -> (Owner, Work) {
        let mut owners = lock(&self.owners);
        loop {
            let may =
                |own: &OwnerQueue<Owner, Work>| own.taken < self.most && !own.waiting.is_empty();
            if let Some(index) = owners.iter().position(may)
                && let Some(mut own) = owners.remove(index)
                && let Some(work) = own.waiting.pop_front()
            {
                own.taken += 1;
                let owner = own.owner;
                owners.push_back(own);
                return (owner, work);
            }
            let woken = self.changed.wait(owners);
            owners = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the turn of an owner; `rest` is left for another one.
    pub fn give_back(&self, owner: Owner, rest: Option<Work>) {
        let mut owners = lock(&self.owners);
        let Some(index) = owners.iter().position(|own| own.owner == owner) else {
            return;
        };
        let own = &mut owners[index];
        own.taken -= 1;
        own.waiting.extend(rest);
        if own.taken == 0 && own.waiting.is_empty() {
            owners.remove(index);
        }
        // An owner that waits may have been at the limit.
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_turns_and_their_own_work_is_in_order() {
        let queue = FairQueue::new(2);
        for work in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] {
            queue.push(work.0, work);
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let (owner, work) = queue.take();
            order.push(work.1);
            queue.give_back(owner, None);
        }
        assert_eq!(order, [1, 4, 5, 2, 6, 3]);
        assert!(lock(&queue.owners).is_empty());
    }

    #[test]
    fn one_owner_has_no_more_than_its_share_at_a_time() {
        let queue = FairQueue::new(2);
        for work in 0..4 {
            queue.push("a", work);
        }
        assert_eq!(queue.take().1, 0);
        assert_eq!(queue.take().1, 1);
        queue.push("b", 10);
        assert_eq!(queue.take(), ("b", 10));
        queue.give_back("a", Some(0));
        assert_eq!(queue.take().1, 2);
        queue.give_back("a", None);
        assert_eq!(queue.take().1, 3);
        queue.give_back("a", None);
        assert_eq!(queue.take().1, 0);
    }
}
