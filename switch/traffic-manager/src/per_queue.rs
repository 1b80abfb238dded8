//! A value for each queue of a port. Most ports use only the first eight queues, whose values are in
//! one piece of memory with the port; those of the others are allocated separately.

use std::ops::{Index, IndexMut};

use crate::limits::{CLASSES, MAX_QUEUES};

/// Number of values that are allocated separately.
const FURTHER: usize = MAX_QUEUES - CLASSES;

/// A value for each queue; those beyond the first eight queues exist once one of them has been
/// [reached](Self::reach).
#[derive(Debug)]
pub(crate) struct PerQueue<T> {
    first: [T; CLASSES],
    further: Option<Box<[T; FURTHER]>>,
}

impl<T> PerQueue<T> {
    /// Values for the first eight queues.
    pub(crate) fn new(make: impl Fn() -> T) -> Self {
        Self {
            first: std::array::from_fn(|_| make()),
            further: None,
        }
    }

    /// Makes sure that a queue has a value.
    #[inline]
    pub(crate) fn reach(&mut self, id: usize, make: impl Fn() -> T) {
        if id >= CLASSES {
            self.make_further(make);
        }
    }

    #[cold]
    #[inline(never)]
    fn make_further(&mut self, make: impl Fn() -> T) {
        (self.further).get_or_insert_with(|| Box::new(std::array::from_fn(|_| make())));
    }

    /// The value of a queue that may not have been reached.
    pub(crate) fn get(&self, id: usize) -> Option<&T> {
        match self.first.get(id) {
            Some(value) => Some(value),
            None => self.further_ones().get(id.checked_sub(CLASSES)?),
        }
    }

    /// The existing values, by queue.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.further_ones())
    }

    /// The existing values, by queue.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let further = self.further.iter_mut();
        self.first
            .iter_mut()
            .chain(further.flat_map(|all| all.iter_mut()))
    }

    fn further_ones(&self) -> &[T] {
        self.further.as_deref().map_or(&[], |all| all)
    }

    #[cold]
    #[inline(never)]
    fn further(&self, id: usize) -> &T {
        &self.further_ones()[id - CLASSES]
    }

    #[cold]
    #[inline(never)]
    fn further_mut(&mut self, id: usize) -> &mut T {
        let further: &mut [T] = self.further.as_deref_mut().map_or(&mut [], |all| all);
        &mut further[id - CLASSES]
    }
}

impl<T> Index<usize> for PerQueue<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: usize) -> &T {
        match self.first.get(id) {
            Some(value) => value,
            None => self.further(id),
        }
    }
}

impl<T> IndexMut<usize> for PerQueue<T> {
    #[inline]
    fn index_mut(&mut self, id: usize) -> &mut T {
        if id < CLASSES {
            &mut self.first[id]
        } else {
            self.further_mut(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_further_values_are_there_once_one_is_reached() {
        let mut values = PerQueue::new(|| 1);
        values.reach(7, || 1);
        assert_eq!(
            (values.iter().count(), values.get(8), values[7]),
            (CLASSES, None, 1)
        );
        values.reach(31, || 2);
        values[31] += 5;
        values.reach(8, || 3);
        assert_eq!((values.iter().count(), values.get(32)), (MAX_QUEUES, None));
        assert_eq!((values[0], values[8], values.get(31)), (1, 2, Some(&7)));
        values.iter_mut().for_each(|value| *value = 4);
        assert!(values.iter().all(|value| *value == 4));
    }
}
