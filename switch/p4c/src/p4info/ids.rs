//! Ids and aliases of control-plane objects.
//!
//! Ids follow the scheme that p4c documents and P4Runtime programs rely on to be stable: the type of the
//! object in the top 8 bits, a hash of its name in the rest (P4Runtime specification, section 6.3).

use std::collections::{BTreeMap, HashMap, HashSet};

pub use ebb_p4_proto::config::p4_ids::Prefix as Kind;

#[derive(Debug, Default)]
pub struct Symbols {
    /// Ids by kind and name; `None` until [`Symbols::assign`].
    ids: BTreeMap<(Kind, String), Option<u32>>,
    taken: HashSet<u32>,
    /// How many names have each suffix.
    suffixes: HashMap<String, usize>,
    names: HashSet<String>,
}

/// Two objects claim the same `@id`, or its prefix is that of another kind.
#[derive(Debug, PartialEq, Eq)]
pub struct BadId(pub u32);

impl Symbols {
    /// Registers a name; `id` comes from an `@id` annotation.
    pub fn add(&mut self, kind: Kind, name: &str, id: Option<u32>) -> Result<(), BadId> {
        if self.ids.contains_key(&(kind, name.to_owned())) {
            return Ok(());
        }
        let full = id.map(|id| {
            if id >> 24 == 0 {
                (kind as u32) << 24 | id
            } else {
                id
            }
        });
        if let Some(id) = full
            && (id >> 24 != kind as u32 || !self.taken.insert(id))
        {
            return Err(BadId(id));
        }
        self.ids.insert((kind, name.to_owned()), full);
        if self.names.insert(name.to_owned()) {
            for suffix in suffixes(name) {
                *self.suffixes.entry(suffix.to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Gives every name without `@id` its number. Names are visited in order, so that the outcome of
    /// hash collisions does not depend on the order of declaration. For Tofino, p4c hashes names of all but actions
    /// behind that of the pipeline: `pipe` is given where they do not begin with it.
    pub fn assign(&mut self, pipe: Option<&str>) {
        for ((kind, name), id) in &mut self.ids {
            if id.is_some() {
                continue;
            }
            let mut hash = match pipe.filter(|_| *kind != Kind::Action) {
                Some(pipe) => one_at_a_time(format!("{pipe}.{name}").as_bytes()),
                None => one_at_a_time(name.as_bytes()),
            };
            loop {
                let candidate = (*kind as u32) << 24 | hash & 0x00ff_ffff;
                if self.taken.insert(candidate) {
                    *id = Some(candidate);
                    break;
                }
                hash = hash.wrapping_add(1);
            }
        }
    }

    pub fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids
            .get(&(kind, name.to_owned()))
            .copied()
            .flatten()
            .unwrap_or(0)
    }

    /// The shortest dotted suffix that no other name has.
    pub fn alias<'a>(&self, name: &'a str) -> &'a str {
        suffixes(name)
            .find(|s| self.suffixes.get(*s).is_none_or(|n| *n < 2))
            .unwrap_or(name)
    }
}

/// The parts of a name that could be its alias, shortest first: `c`, `b.c`, `a.b.c` of `a.b.c`.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.')
        .map(|(i, _)| &name[i + 1..])
        .chain(std::iter::once(name))
}

/// Bob Jenkins' one-at-a-time hash.
pub fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = 0u32;
    for &byte in key {
        hash = hash.wrapping_add(u32::from(byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_p4c() {
        let mut symbols = Symbols::default();
        for (kind, name) in [
            (Kind::Action, "NoAction"),
            (Kind::Table, "I.t"),
            (Kind::Register, "I.r"),
        ] {
            assert_eq!(symbols.add(kind, name, None), Ok(()));
        }
        symbols.assign(None);
        assert_eq!(symbols.id(Kind::Action, "NoAction"), 21_257_015);
        assert_eq!(symbols.id(Kind::Table, "I.t"), 49_059_515);
        assert_eq!(symbols.id(Kind::Register, "I.r"), 384_619_250);
    }

    #[test]
    fn chosen_ids_get_their_prefix_and_must_differ() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.add(Kind::Table, "t", Some(5)), Ok(()));
        assert_eq!(symbols.id(Kind::Table, "t"), 0x0200_0005);
        assert_eq!(
            symbols.add(Kind::Table, "u", Some(5)),
            Err(BadId(0x0200_0005))
        );
        assert_eq!(
            symbols.add(Kind::Table, "v", Some(0x0100_0005)),
            Err(BadId(0x0100_0005))
        );
    }

    #[test]
    fn aliases_are_as_short_as_they_can_be() {
        let mut symbols = Symbols::default();
        for name in ["I.a.t", "I.b.t", "I.x"] {
            assert_eq!(symbols.add(Kind::Table, name, None), Ok(()));
        }
        assert_eq!(symbols.alias("I.a.t"), "a.t");
        assert_eq!(symbols.alias("I.x"), "x");
    }
}
