//! Objects to be used again, about as many as are in use: what nobody needed for a while is freed.

/// Lists with fewer objects than this are left alone.
const FEW: usize = 1024;

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
    pub fn take(&mut self) -> Option<T> {
        let item = self.items.pop();
        self.fewest = self.fewest.min(self.items.len());
        item
    }

    /// Keeps an object. Now and then it returns objects that are too many: half of those that were
    /// not needed while a quarter of all was given.
    pub fn give(&mut self, item: T) -> impl Iterator<Item = T> + '_ {
        self.items.push(item);
        self.given += 1;
        let mut surplus = 0;
        if self.given >= (self.items.len() / 4).max(FEW) {
            surplus = self.fewest / 2;
            (self.fewest, self.given) = (self.items.len() - surplus, 0);
        }
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

    #[test]
    fn what_is_only_given_is_freed_but_for_a_few() {
        let mut list = FreeList::default();
        let mut freed = 0;
        for number in 0..100_000 {
            freed += list.give(number).count();
            assert!(list.len() <= 4 * FEW, "{} after {number}", list.len());
        }
        assert_eq!(list.len() + freed, 100_000);
    }

    #[test]
    fn what_is_needed_stays() {
        let mut list: FreeList<u32> = FreeList::default();
        for number in 0..10_000 {
            list.give(number).for_each(drop);
        }
        for _ in 0..1000 {
            let used: Vec<u32> = (0..500).filter_map(|_| list.take()).collect();
            assert_eq!(used.len(), 500);
            for number in used {
                list.give(number).for_each(drop);
            }
        }
    }

    #[test]
    fn after_a_peak_it_shrinks_to_what_is_used() {
        let mut list: FreeList<u32> = FreeList::default();
        let peak: Vec<u32> = (0..100_000).collect();
        for number in peak {
            list.give(number).for_each(drop);
        }
        for _ in 0..200_000 {
            let item = list.take().unwrap_or_default();
            list.give(item).for_each(drop);
        }
        assert!(list.len() <= 4 * FEW, "{}", list.len());
    }
}
