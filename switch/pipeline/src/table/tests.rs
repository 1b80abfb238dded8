use proptest::prelude::*;

use super::*;
use crate::control::{ActionCall, MatchKey};
use crate::profile::BoundAction;

const BITS: [u32; 2] = [8, 6];

fn table(kinds: [MatchKind; 2]) -> Table {
    let key: Vec<KeyField> = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| KeyField {
            name: format!("f{i}"),
            kind: *kind,
            slot: Slot {
                at: i as u32,
                words: 1,
                bits: BITS[i],
                signed: false,
            },
            mask: None,
            first: i,
        })
        .collect();
    Table::new(TableSpec {
        name: "t".into(),
        needs_priority: needs_priority(&key),
        lpm: kinds.contains(&MatchKind::Lpm),
        key,
        max_size: 40,
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

fn one_key(kind: MatchKind, bits: u32) -> BoxedStrategy<MatchKey> {
    let top = (1u16 << bits) - 1;
    let value = 0..=top;
    let bytes = |n: u16| n.to_be_bytes().to_vec();
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

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// P4_16's and v1model's definition of a match, written down plainly.
fn field_matches(key: &MatchKey, value: u64, bits: u32) -> bool {
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

fn check(
    kinds: [MatchKind; 2],
    entries: Vec<(MatchKey, MatchKey, i32)>,
    removed: &[usize],
    probes: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let mut t = table(kinds);
    let mut installed: Vec<TableEntry> = Vec::new();
    for (n, (a, b, priority)) in entries.into_iter().enumerate() {
        let entry = TableEntry {
            key: vec![a, b],
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
    for i in removed {
        if !installed.is_empty() {
            let gone = installed.remove(i % installed.len());
            let slot = t.find(&gone.key, gone.priority).unwrap();
            t.remove(slot);
            prop_assert!(t.find(&gone.key, gone.priority).is_err());
        }
    }
    for (a, b) in probes {
        let found = t
            .lookup(&[*a, *b], &mut Vec::new(), &mut Vec::new())
            .map(|slot| t.entries[slot as usize].as_ref().unwrap().entry.clone());
        // Longest prefix, then highest priority, then oldest.
        let expected = installed
            .iter()
            .enumerate()
            .filter(|(_, e)| {
                field_matches(&e.key[0], *a, BITS[0]) && field_matches(&e.key[1], *b, BITS[1])
            })
            .max_by_key(|(n, e)| {
                let length = if t.spec.needs_priority { 0 } else { prefix(e) };
                (length, e.priority, std::cmp::Reverse(*n))
            })
            .map(|(_, e)| e.clone());
        prop_assert_eq!(found, expected);
    }
    Ok(())
}

fn kinds() -> impl Strategy<Value = [MatchKind; 2]> {
    use MatchKind::*;
    prop::sample::select(vec![
        [Exact, Exact],
        [Lpm, Exact],
        [Exact, Lpm],
        [Ternary, Exact],
        [Ternary, Lpm],
        [Range, Ternary],
        [Range, Range],
    ])
}

proptest! {
    #[test]
    fn lookups_find_what_the_definition_says(
        (kinds, entries) in kinds().prop_flat_map(|k| {
            let entry = (one_key(k[0], BITS[0]), one_key(k[1], BITS[1]), 1i32..4);
            (Just(k), proptest::collection::vec(entry, 0..30))
        }),
        removed in proptest::collection::vec(0usize..100, 0..5),
        probes in proptest::collection::vec((0u64..256, 0u64..64), 1..40),
    ) {
        check(kinds, entries, &removed, &probes)?;
    }
}

#[test]
fn a_full_table_says_its_size() {
    let mut t = table([MatchKind::Exact, MatchKind::Exact]);
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
