//! Whether a history of operations is linearizable: whether each can be given one moment between its
//! beginning and its end so that, one after the other, they do what they say that they did.
//!
//! Wing and Gong, *Testing and Verifying Concurrent Objects* (1993), with the memory of Lowe, *Testing for
//! linearizability* (2017): an order is not tried on from a state and a set of operations that were seen.

use std::collections::{BTreeMap, HashSet};

/// The content of a blob, by the put that wrote it.
pub type Content = u64;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Did {
    /// The content became that of this version.
    Put {
        content: Content,
        version: u64,
    },
    /// It is not known whether the put took effect.
    MayPut {
        content: Content,
    },
    /// The put took no effect, because another one did.
    Lost,
    Get {
        found: Option<(Content, u64)>,
    },
    /// Names and versions of all blobs.
    List {
        blobs: BTreeMap<String, u64>,
    },
}

#[derive(Clone, Debug)]
pub struct Operation {
    /// Name of the blob; empty for a list.
    pub name: String,
    pub began: u64,
    /// `u64::MAX`: it may take effect at any later time.
    pub ended: u64,
    pub did: Did,
}

/// Versions and contents of all blobs.
type State = BTreeMap<String, (Content, u64)>;

/// The state after the operation, if it can have done that.
fn step(state: &State, operation: &Operation) -> Option<State> {
    let before = state.get(&operation.name).copied();
    let version = before.map_or(0, |(_, version)| version);
    let put = |content| {
        let mut after = state.clone();
        after.insert(operation.name.clone(), (content, version + 1));
        after
    };
    match &operation.did {
        Did::Put {
            content,
            version: told,
        } => (*told == version + 1).then(|| put(*content)),
        Did::MayPut { content } => Some(put(*content)),
        Did::Lost => Some(state.clone()),
        Did::Get { found } => (*found == before).then(|| state.clone()),
        Did::List { blobs } => {
            let all = state.iter().map(|(name, (_, version))| (name, *version));
            all.eq(blobs.iter().map(|(name, version)| (name, *version)))
                .then(|| state.clone())
        }
    }
}

/// An order in which the operations can have taken effect, by their numbers.
pub fn linearize(history: &[Operation]) -> Option<Vec<usize>> {
    assert!(history.len() <= 128, "{} operations", history.len());
    let all = u128::MAX
        .checked_shr(128 - history.len() as u32)
        .unwrap_or(0);
    let mut seen = HashSet::new();
    let mut order = Vec::new();
    search(history, all, &State::new(), &mut seen, &mut order).then_some(order)
}

fn search(
    history: &[Operation],
    left: u128,
    state: &State,
    seen: &mut HashSet<(u128, State)>,
    order: &mut Vec<usize>,
) -> bool {
    let numbers = (0..history.len()).filter(|number| left >> number & 1 == 1);
    // A write that may never have taken effect need not have a place in the order.
    let optional = |number: usize| matches!(history[number].did, Did::MayPut { .. });
    let Some(first_end) = numbers
        .clone()
        .filter(|number| !optional(*number))
        .map(|number| history[number].ended)
        .min()
    else {
        return true;
    };
    if !seen.insert((left, state.clone())) {
        return false;
    }
    // No operation begins after another one that is not placed yet has ended.
    for number in numbers.filter(|number| history[*number].began <= first_end) {
        if let Some(after) = step(state, &history[number]) {
            order.push(number);
            if search(history, left & !(1 << number), &after, seen, order) {
                return true;
            }
            order.pop();
        }
    }
    false
}

/// A put may be told that another one was faster only if there was one of the same name meanwhile.
pub fn unfounded_conflicts(history: &[Operation]) -> Vec<&Operation> {
    let lost = history
        .iter()
        .filter(|operation| operation.did == Did::Lost);
    let founded = |lost: &&Operation| {
        history.iter().any(|other| {
            matches!(other.did, Did::Put { .. } | Did::MayPut { .. })
                && other.name == lost.name
                && other.began <= lost.ended
                && lost.began <= other.ended
        })
    };
    lost.filter(|lost| !founded(lost)).collect()
}

pub mod tests {
    use super::*;

    fn operation(name: &str, time: std::ops::Range<u64>, did: Did) -> Operation {
        Operation {
            name: name.to_owned(),
            began: time.start,
            ended: time.end,
            did,
        }
    }

    fn put(name: &str, time: std::ops::Range<u64>, content: Content, version: u64) -> Operation {
        operation(name, time, Did::Put { content, version })
    }

    fn get(name: &str, time: std::ops::Range<u64>, found: Option<(Content, u64)>) -> Operation {
        operation(name, time, Did::Get { found })
    }

    fn list(time: std::ops::Range<u64>, blobs: &[(&str, u64)]) -> Operation {
        let blobs = blobs
            .iter()
            .map(|(name, version)| ((*name).to_owned(), *version));
        let blobs = blobs.collect();
        operation("", time, Did::List { blobs })
    }

    #[test]
    fn what_happens_at_the_same_time_has_some_order() {
        for history in [
            vec![],
            vec![
                put("a", 0..10, 7, 1),
                get("a", 5..6, None),
                get("a", 7..8, Some((7, 1))),
            ],
            // The later one of two puts began first.
            vec![
                put("a", 0..10, 7, 2),
                put("a", 5..8, 8, 1),
                get("a", 11..12, Some((7, 2))),
            ],
            // Only the one of the two that is seen was done.
            vec![
                operation("a", 0..u64::MAX, Did::MayPut { content: 7 }),
                operation("a", 0..u64::MAX, Did::MayPut { content: 8 }),
                get("a", 50..51, Some((8, 1))),
            ],
            vec![
                put("a", 0..1, 7, 1),
                put("b", 2..9, 8, 1),
                list(3..4, &[("a", 1)]),
            ],
        ] {
            assert!(linearize(&history).is_some(), "{history:?}");
        }
    }

    #[test]
    fn what_cannot_have_happened_is_found() {
        for (what, history) in [
            (
                "a lost put",
                vec![put("a", 0..1, 7, 1), get("a", 2..3, None)],
            ),
            (
                "an old content",
                vec![
                    put("a", 0..1, 7, 1),
                    put("a", 2..3, 8, 2),
                    get("a", 4..5, Some((7, 1))),
                ],
            ),
            (
                "back to an old content",
                vec![
                    put("a", 0..1, 7, 1),
                    put("a", 2..9, 8, 2),
                    get("a", 3..4, Some((8, 2))),
                    get("a", 5..6, Some((7, 1))),
                ],
            ),
            (
                "two winners",
                vec![put("a", 0..9, 7, 1), put("a", 0..9, 8, 1)],
            ),
            (
                "a put that was seen and then was not",
                vec![
                    operation("a", 0..u64::MAX, Did::MayPut { content: 7 }),
                    get("a", 2..3, Some((7, 1))),
                    get("a", 4..5, None),
                ],
            ),
            (
                "a list of two moments",
                vec![
                    put("a", 0..1, 7, 1),
                    put("a", 2..3, 8, 2),
                    put("b", 4..9, 9, 1),
                    list(4..9, &[("a", 1), ("b", 1)]),
                ],
            ),
        ] {
            assert!(linearize(&history).is_none(), "{what}: {history:?}");
        }
    }

    #[test]
    fn a_conflict_needs_another_put() {
        let lost = operation("a", 5..9, Did::Lost);
        let early = put("a", 0..4, 7, 1);
        assert_eq!(unfounded_conflicts(&[lost.clone(), early]).len(), 1);
        let other = put("b", 5..9, 7, 1);
        assert_eq!(unfounded_conflicts(&[lost.clone(), other]).len(), 1);
        let meanwhile = put("a", 0..6, 7, 1);
        assert_eq!(unfounded_conflicts(&[lost, meanwhile]).len(), 0);
    }
}
