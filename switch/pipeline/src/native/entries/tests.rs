//! Tables with random constant entries, through native code, the interpreter and the plain way.

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;
use ebb_units::Instant;
use proptest::prelude::*;

use super::constants;
use crate::control::TableAction;
use crate::{EgressInput, IngressInput, IngressVerdict, Pipeline};

/// A table of three fields, which sets a byte of the packet.
#[derive(Clone, Debug)]
struct Shape {
    kinds: [&'static str; 3],
    /// By entry, what it asks of each field.
    entries: Vec<[String; 3]>,
    const_default: bool,
}

fn key(kind: &str, width: u32, (value, more, any): (u32, u32, bool)) -> String {
    let value = value % 5;
    match kind {
        _ if any && kind != "exact" => "_".to_owned(),
        "ternary" => format!("{value} &&& {}", more % 8),
        "range" => format!("{value}..{}", value + more % 4),
        "lpm" => {
            let mask = u32::MAX << (more % 4) & (u32::MAX >> (32 - width));
            format!("{} &&& {mask}", value & mask)
        }
        _ => value.to_string(),
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let kinds = prop::sample::select(vec![
        ["exact", "exact", "exact"],
        ["exact", "lpm", "exact"],
        ["ternary", "exact", "range"],
        ["exact", "exact", "range"],
        ["ternary", "ternary", "ternary"],
    ]);
    let part = (0u32..5, 0u32..8, any::<bool>());
    let entries = prop::collection::vec([part.clone(), part.clone(), part], 1..7);
    (kinds, entries, any::<bool>()).prop_map(|(kinds, parts, const_default)| {
        let one = |parts: [(u32, u32, bool); 3]| {
            let [a, b, c] = parts;
            [
                key(kinds[0], 8, a),
                key(kinds[1], 16, b),
                key(kinds[2], 32, c),
            ]
        };
        let mut entries: Vec<[String; 3]> = parts.into_iter().map(one).collect();
        entries.sort();
        entries.dedup();
        Shape {
            kinds,
            entries,
            const_default,
        }
    })
}

fn source(shape: &Shape) -> String {
    let [a, b, c] = shape.kinds;
    let entries = shape.entries.iter().enumerate();
    let entries = entries.map(|(i, [a, b, c])| format!("({a}, {b}, {c}) : set({});\n", i + 1));
    let (entries, constant) = (
        entries.collect::<String>(),
        if shape.const_default { "const" } else { "" },
    );
    format!(
        "#include <core.p4>
        #include <v1model.p4>
        header h_t {{ bit<8> a; bit<16> b; bit<32> c; bit<64> wide; bit<8> made; }}
        struct headers_t {{ h_t h; }}
        struct metadata_t {{ }}
        parser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{
            state start {{ p.extract(hdr.h); transition accept; }}
        }}
        control V(inout headers_t hdr, inout metadata_t m) {{ apply {{ }} }}
        control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{
            action set(bit<8> n) {{ hdr.h.made = n; }}
            table t {{
                key = {{ hdr.h.a : {a}; hdr.h.b : {b}; hdr.h.c : {c}; }}
                actions = {{ set; NoAction; }}
                {constant} default_action = set(99);
                const entries = {{ {entries} }}
            }}
            apply {{
                s.egress_spec = 1;
                if (!t.apply().hit) {{ hdr.h.wide = 7; }}
            }}
        }}
        control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
        control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.h); }} }}
        V1Switch(P(), V(), I(), E(), V(), D()) main;"
    )
}

/// The frame that leaves.
fn pass(pipeline: &mut Pipeline, frame: &[u8]) -> String {
    let outcome = pipeline.ingress(Instant::ZERO, frame.to_vec(), &IngressInput::default());
    let IngressVerdict::Unicast { packet, .. } = outcome.verdict else {
        return format!("{outcome:?}");
    };
    let input = EgressInput::default();
    format!(
        "{:02x?}",
        pipeline.egress(Instant::ZERO, packet, &input).verdict
    )
}

/// Makes no action the default one, if it may be changed.
fn change_default(pipeline: &mut Pipeline) {
    let table = pipeline.table("I.t").unwrap();
    let action = pipeline.table_action(table, "NoAction").unwrap();
    let call = crate::control::ActionCall {
        action,
        params: Vec::new(),
    };
    let _ = pipeline.set_default_entry(table, Some(TableAction::Direct(call)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(64)))]

    #[test]
    fn comparisons_find_the_entries(
        shape in shape(),
        packets in prop::collection::vec((0u8..8, 0u16..8, 0u32..8), 1..40),
    ) {
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let text = source(&shape);
        let compiled = ebb_p4c::compile("t.p4", &text, &Options::default(), &mut sources, &diagnostics);
        let program = compiled.expect("it compiles").json;
        let mut native = Pipeline::load(&program).unwrap();
        let mut interpreted = Pipeline::load_interpreted(&program).unwrap();
        let mut plain = Pipeline::load_plain(&program).unwrap();
        prop_assert!(native.program.native.is_some());
        let table = native.table("I.t").unwrap();
        let is_compared = constants(&native.program.blueprint.tables[table.index()]).is_some();
        prop_assert!(is_compared, "{} entries", shape.entries.len());
        for changed in [false, true] {
            for (a, b, c) in &packets {
                let frame = [&[*a][..], &b.to_be_bytes(), &c.to_be_bytes(), &[0; 9]].concat();
                let all = [&mut native, &mut interpreted, &mut plain];
                let [native, interpreted, plain] = all.map(|pipeline| pass(pipeline, &frame));
                prop_assert_eq!(&native, &interpreted);
                prop_assert_eq!(&interpreted, &plain);
            }
            if !changed {
                [&mut native, &mut interpreted, &mut plain].into_iter().for_each(change_default);
            }
        }
    }
}
