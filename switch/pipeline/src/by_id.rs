//! Objects that the control plane numbers: found in constant time and listed in order.

use std::collections::BTreeMap;

use crate::table::WordMap;

/// Objects by their numbers.
#[derive(Debug)]
pub(crate) struct ById<T> {
    /// From the number of an object to its index in `things`.
    places: WordMap,
    /// The objects; `None` marks a free index.
    things: Vec<Option<T>>,
    /// The free indices.
    free: Vec<u32>,
    /// From the number to the index again, in order.
    in_order: BTreeMap<u32, u32>,
}

impl<T> Default for ById<T> {
    fn default() -> Self {
        ById {
            places: WordMap::default(),
            things: Vec::new(),
            free: Vec::new(),
            in_order: BTreeMap::new(),
        }
    }
}

impl<T> ById<T> {
    /// The object with this number.
    #[inline]
    pub fn get(&self, id: &u32) -> Option<&T> {
        let place = self.places.get(u64::from(*id))?;
        self.things[place as usize].as_ref()
    }

    /// The object with this number.
    pub fn get_mut(&mut self, id: &u32) -> Option<&mut T> {
        let place = self.places.get(u64::from(*id))?;
        self.things[place as usize].as_mut()
    }

    /// Whether there is an object with this number.
    pub fn contains_key(&self, id: &u32) -> bool {
        self.in_order.contains_key(id)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Adds an object, or replaces the one with this number.
    pub fn insert(&mut self, id: u32, thing: T) {
        if let Some(old) = self.get_mut(&id) {
            *old = thing;
            return;
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.things[place as usize] = Some(thing);
                place
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        };
        self.places.insert(u64::from(id), place);
        self.in_order.insert(id, place);
    }

    /// Removes the object with this number, if there is one.
    pub fn remove(&mut self, id: &u32) {
        if let Some(place) = self.in_order.remove(id) {
            self.places.remove(u64::from(*id));
            self.things[place as usize] = None;
            self.free.push(place);
        }
    }

    /// All objects, in any order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.iter_mut().flatten()
    }

    /// All objects, ordered by number.
    pub fn iter(&self) -> impl Iterator<Item = (&u32, &T)> {
        let present = self.in_order.iter();
        present.filter_map(|(id, place)| Some((id, self.things[*place as usize].as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((any::<bool>(), 0u32..6, 0u32..9), 0..40)) {
            let mut by_id = ById::default();
            let mut model = BTreeMap::new();
            for (insert, id, thing) in steps {
                if insert {
                    by_id.insert(id, thing);
                    model.insert(id, thing);
                } else {
                    by_id.remove(&id);
                    model.remove(&id);
                }
                prop_assert!(by_id.iter().eq(model.iter()));
                prop_assert_eq!(by_id.len(), model.len());
                for id in 0..7 {
                    prop_assert_eq!(by_id.get(&id), model.get(&id));
                    prop_assert_eq!(by_id.contains_key(&id), model.contains_key(&id));
                }
            }
        }
    }
}
