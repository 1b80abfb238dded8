//! Objects to be used again, about as many as are in use: what nobody needed for a while is freed.

/// Lists with fewer objects than this are left alone: twice the frames that a thread reads from 16 interfaces in a turn
/// (128 of each) and then sends, so that none of them is freed between two turns.
const FEW: usize = 4096;

/// Objects to be used again. The last one given comes back first, since it is still in the caches.
#[derive(Debug)]
pub(crate) struct FreeList<T> {
    /// The objects.
    items: Vec<T>,
    /// The fewest objects there were since the last review: as many were not needed.
    fewest: usize,
    /// How many objects were given since the last review.
    given: usize,
}

impl<T> Default for FreeList<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            fewest: 0,
            given: 0,
        }
    }
}

impl<T> FreeList<T> {
    /// An object, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        let item = self.items.pop();
        self.fewest = self.fewest.min(self.items.len());
        item
    }

    /// Keeps an object.
    #[inline]
    pub fn give(&mut self, item: T) {
        self.items.push(item);
        self.given += 1;
    }

    /// Whether it is time to take the [`surplus`](Self::surplus): when a quarter of all was given
    /// since the last time.
    #[inline]
    pub fn has_surplus(&self) -> bool {
        self.given >= (self.items.len() / 4).max(FEW)
    }

    /// Returns objects that are too many: half of those that were not needed since the last time.
    #[cold]
    pub fn surplus(&mut self) -> impl Iterator<Item = T> + '_ {
        let surplus = self.fewest / 2;
        (self.fewest, self.given) = (self.items.len() - surplus, 0);
        self.items.drain(..surplus)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    #[cfg(test)]
    pub fn last(&self) -> Option<&T> {
        self.items.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives an object, and says how many are freed for it.
    fn give(list: &mut FreeList<u32>, item: u32) -> usize {
        list.give(item);
        match list.has_surplus() {
            true => list.surplus().count(),
            false => 0,
        }
    }

    #[test]
    fn what_is_only_given_is_freed_but_for_a_few() {
        let mut list = FreeList::default();
        let mut freed = 0;
        for number in 0..100_000 {
            freed += give(&mut list, number);
            assert!(list.len() <= 4 * FEW, "{} after {number}", list.len());
        }
        assert_eq!(list.len() + freed, 100_000);
    }

    #[test]
    fn what_is_needed_stays() {
        let mut list: FreeList<u32> = FreeList::default();
        for number in 0..10_000 {
            give(&mut list, number);
        }
        for _ in 0..1000 {
            let used: Vec<u32> = (0..500).filter_map(|_| list.take()).collect();
            assert_eq!(used.len(), 500);
            for number in used {
                give(&mut list, number);
            }
        }
    }

    #[test]
    fn what_is_needed_now_and_then_stays() {
        let mut list: FreeList<u32> = FreeList::default();
        for number in 0..FEW as u32 / 2 {
            list.give(number);
        }
        let mut freed = 0;
        for _ in 0..1000 {
            let used: Vec<u32> = std::iter::from_fn(|| list.take()).collect();
            freed += used
                .into_iter()
                .map(|item| give(&mut list, item))
                .sum::<usize>();
        }
        assert_eq!(freed, 0);
    }

    #[test]
    fn after_a_peak_it_shrinks_to_what_is_used() {
        let mut list: FreeList<u32> = FreeList::default();
        let peak: Vec<u32> = (0..100_000).collect();
        for number in peak {
            give(&mut list, number);
        }
        for _ in 0..200_000 {
            let item = list.take().unwrap_or_default();
            give(&mut list, item);
        }
        assert!(list.len() <= 4 * FEW, "{}", list.len());
    }
}
