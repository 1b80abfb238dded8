use proptest::prelude::*;

use super::*;
use crate::control::{ActionCall, MatchKey};
use crate::profile::BoundAction;

/// A field: its match kind and its width. Wide ones have values in both of their words.
type Field = (MatchKind, u32);

const NARROW: u32 = 8;
const SMALL: u32 = 6;
const MEDIUM: u32 = 20;
const WIDE: u32 = 70;

fn table(fields: &[Field], max_size: u32) -> Table {
    let mut at = 0;
    let key: Vec<KeyField> = fields
        .iter()
        .enumerate()
        .map(|(i, (kind, bits))| {
            let words = bits.div_ceil(64);
            at += words;
            KeyField {
                name: format!("f{i}"),
                kind: *kind,
                slot: Slot {
                    at: at - words,
                    words,
                    bits: *bits,
                    signed: false,
                },
                mask: None,
                first: (at - words) as usize,
            }
        })
        .collect();
    Table::new(TableSpec {
        name: "t".into(),
        needs_priority: needs_priority(&key),
        lpm: fields.iter().any(|(kind, _)| *kind == MatchKind::Lpm),
        key,
        max_size,
        actions: Vec::new(),
        profile: None,
        with_counter: false,
        meter: None,
        support_timeout: false,
        is_const: false,
        const_default_action: None,
        const_default_entry: false,
    })
}

/// Numbers that meet each other; those of wide fields are in both words, in the same order.
fn value(bits: u32) -> BoxedStrategy<u128> {
    match bits {
        MEDIUM => (0u128..1 << SMALL).prop_map(|n| n << 14 | n).boxed(),
        WIDE => (0u128..1 << SMALL).prop_map(|n| n << 61 | n).boxed(),
        _ => (0u128..1 << bits).boxed(),
    }
}

fn one_key((kind, bits): Field) -> BoxedStrategy<MatchKey> {
    let value = value(bits);
    let bytes = |n: u128| n.to_be_bytes().to_vec();
    match kind {
        MatchKind::Exact | MatchKind::Valid => {
            value.prop_map(move |v| MatchKey::Exact(bytes(v))).boxed()
        }
        MatchKind::Lpm => (value, 0..=bits)
            .prop_map(move |(v, prefix_len)| MatchKey::Lpm {
                value: bytes(v),
                prefix_len,
            })
            .boxed(),
        MatchKind::Ternary => (value.clone(), value)
            .prop_map(move |(v, m)| MatchKey::Ternary {
                value: bytes(v),
                mask: bytes(m),
            })
            .boxed(),
        MatchKind::Range => (value.clone(), value)
            .prop_map(move |(a, b)| MatchKey::Range {
                low: bytes(a.min(b)),
                high: bytes(a.max(b)),
            })
            .boxed(),
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// P4_16's and v1model's definition of a match, written down plainly.
fn field_matches(key: &MatchKey, value: u128, bits: u32) -> bool {
    match key {
        MatchKey::Exact(v) => number(v) == value,
        MatchKey::Lpm {
            value: v,
            prefix_len,
        } => number(v) >> (bits - prefix_len) == value >> (bits - prefix_len),
        MatchKey::Ternary { value: v, mask } => number(v) & number(mask) == value & number(mask),
        MatchKey::Range { low, high } => (number(low)..=number(high)).contains(&value),
        _ => false,
    }
}

fn prefix(entry: &TableEntry) -> u32 {
    entry
        .key
        .iter()
        .map(|k| match k {
            MatchKey::Lpm { prefix_len, .. } => *prefix_len,
            _ => 0,
        })
        .sum()
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<MatchKey>, i32),
    Remove(usize),
    /// With the packet of this number.
    Probe(prop::sample::Index),
}

/// The packet's words.
fn words(fields: &[Field], values: &[u128]) -> Vec<u64> {
    let mut words = Vec::new();
    for ((_, bits), value) in fields.iter().zip(values) {
        if *bits > 64 {
            words.push((value >> 64) as u64);
        }
        words.push(*value as u64);
    }
    words
}

fn check(fields: &[Field], packets: &[Vec<u128>], steps: Vec<Step>) -> Result<(), TestCaseError> {
    // Large ones have shortcuts.
    let mut t = table(fields, 2000);
    let mut installed: Vec<TableEntry> = Vec::new();
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(key, priority) => {
                let entry = TableEntry {
                    key,
                    priority: if t.spec.needs_priority { priority } else { 0 },
                    action: TableAction::Direct(ActionCall {
                        action: crate::ids::ActionId(0),
                        params: Vec::new(),
                    }),
                    idle_timeout: None,
                    metadata: Vec::new(),
                };
                let action = Resolved::Action(BoundAction {
                    action: n as u32,
                    data: [].as_slice().into(),
                });
                if t.insert(entry.clone(), action, Instant::ZERO, false)
                    .is_ok()
                {
                    installed.push(entry);
                }
            }
            Step::Remove(i) if !installed.is_empty() => {
                let gone = installed.remove(i % installed.len());
                let slot = t.find(&gone.key, gone.priority).unwrap();
                t.remove(slot);
                prop_assert!(t.find(&gone.key, gone.priority).is_err());
            }
            Step::Remove(_) => {}
            Step::Probe(packet) => {
                let values = packet.get(packets);
                // Longest prefix, then highest priority, then oldest.
                let expected = installed
                    .iter()
                    .enumerate()
                    .filter(|(_, e)| {
                        let fields = fields.iter().zip(values);
                        let mut fields = fields.zip(&e.key);
                        fields.all(|((field, value), key)| field_matches(key, *value, field.1))
                    })
                    .max_by_key(|(n, e)| {
                        let length = if t.spec.needs_priority { 0 } else { prefix(e) };
                        (length, e.priority, std::cmp::Reverse(*n))
                    })
                    .map(|(_, e)| (t.compile(&e.key).unwrap(), e.priority));
                let words = words(fields, values);
                let entry = |t: &Table, slot: Option<u32>| {
                    let entry = slot.map(|slot| t.entries[slot as usize].as_ref().unwrap());
                    entry.map(|e| (e.key.clone(), e.priority))
                };
                let slot = t.lookup(&words, &mut key, &mut scratch);
                prop_assert_eq!(entry(&t, slot), expected.clone());
                // The second time it may be remembered.
                for _ in 0..2 {
                    let seen = (0, Instant::ZERO);
                    let slot = t.hit(&words, seen, &mut key, &mut scratch);
                    prop_assert_eq!(entry(&t, slot), expected.clone());
                }
            }
        }
    }
    Ok(())
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    use MatchKind::*;
    prop::sample::select(vec![
        vec![(Exact, NARROW), (Exact, SMALL)],
        vec![(Exact, WIDE)],
        vec![(Lpm, NARROW)],
        vec![(Lpm, MEDIUM)],
        vec![(Lpm, NARROW), (Exact, SMALL)],
        vec![(Exact, NARROW), (Lpm, WIDE)],
        vec![(Ternary, NARROW)],
        vec![(Ternary, NARROW), (Exact, SMALL)],
        vec![(Ternary, WIDE), (Lpm, SMALL)],
        vec![(Range, NARROW)],
        vec![(Range, NARROW), (Ternary, WIDE)],
        vec![(Range, SMALL), (Range, WIDE)],
    ])
}

fn step(fields: &[Field]) -> impl Strategy<Value = Step> + use<> {
    let keys: Vec<_> = fields.iter().map(|f| one_key(*f)).collect();
    prop_oneof![
        3 => (keys, 1i32..6).prop_map(|(key, priority)| Step::Insert(key, priority)),
        1 => any::<usize>().prop_map(Step::Remove),
        3 => any::<prop::sample::Index>().prop_map(Step::Probe),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lookups_find_what_the_definition_says(
        (fields, packets, steps) in fields().prop_flat_map(|fields| {
            let values: Vec<_> = fields.iter().map(|(_, bits)| value(*bits)).collect();
            // Few, so that they come again after a change.
            let packets = proptest::collection::vec(values, 1..6);
            let steps = proptest::collection::vec(step(&fields), 0..80);
            (Just(fields), packets, steps)
        }),
    ) {
        check(&fields, &packets, steps)?;
    }
}

#[test]
fn a_full_table_says_its_size() {
    let mut t = table(&[(MatchKind::Exact, NARROW), (MatchKind::Exact, SMALL)], 40);
    for n in 0..41u8 {
        let entry = TableEntry {
            key: vec![MatchKey::Exact(vec![n]), MatchKey::Exact(vec![0])],
            priority: 0,
            action: TableAction::Member(0),
            idle_timeout: None,
            metadata: Vec::new(),
        };
        let result = t.insert(entry, Resolved::Member(0), Instant::ZERO, false);
        assert_eq!(result.is_ok(), n < 40);
        if let Err(e) = result {
            assert_eq!(e.to_string(), "table `t` is full: it holds 40 entries");
        }
    }
}

#[test]
fn entries_of_a_table_that_was_emptied_are_stored_in_their_order() {
    let mut t = table(&[(MatchKind::Exact, NARROW)], 8);
    let fill = |t: &mut Table, keys: [u8; 3]| {
        for n in keys {
            let entry = TableEntry {
                key: vec![MatchKey::Exact(vec![n])],
                priority: 0,
                action: TableAction::Member(0),
                idle_timeout: None,
                metadata: Vec::new(),
            };
            let stored = t.insert(entry, Resolved::Member(0), Instant::ZERO, false);
            stored.expect("there is room");
        }
        t.entries
            .iter()
            .flatten()
            .map(|e| e.sequence)
            .collect::<Vec<_>>()
    };
    assert_eq!(fill(&mut t, [3, 1, 2]), [0, 1, 2]);
    for slot in [1, 0, 2] {
        t.remove(slot);
    }
    assert_eq!(fill(&mut t, [2, 3, 1]), [3, 4, 5]);
}
