//! Output of the compiler for controllers, read back by the messages that the server has.

use std::path::Path;

use ebb_p4_generator::program;
use ebb_p4c::{Compiled, p4info};
use ebb_p4runtime::Offline;
use ebb_p4runtime::proto::p4::action::Param;
use ebb_p4runtime::proto::p4::field_match::{self, FieldMatchType};
use ebb_p4runtime::proto::p4::table_action::Type as ActionType;
use ebb_p4runtime::proto::p4::{
    Action, FieldMatch, TableAction, TableEntry, Update, entity::Entity, update,
};
use ebb_switch_fuzz_harness::PROGRAMS;
use ebb_testkit::Folder;
use prost::Message;

fn compile(name: &str, text: &str) -> Compiled {
    ebb_p4c::compile_text(name, text).unwrap_or_else(|errors| panic!("{name}: {errors}"))
}

/// The text form and the binary form are the same P4Info, in the programs of the compiler's own tests, which have every
/// kind of object, and in some that were made up.
#[test]
fn binary_p4info_is_that_of_the_text() {
    let folder = Folder::new("protobuf");
    let json = folder.write("none.json", b"{}");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4c/tests/programs");
    let mut programs: Vec<(String, String)> = PROGRAMS.map(|(n, t)| (n.into(), t.into())).to_vec();
    for entry in std::fs::read_dir(own).expect("the compiler's programs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "p4") {
            let text = std::fs::read_to_string(&path).expect("a program");
            programs.push((path.display().to_string(), text));
        }
    }
    programs.extend((0..10).map(|seed| (format!("seed {seed}"), program(seed))));
    let mut tables = 0;
    for (name, text) in programs {
        let compiled = compile(&name, &text);
        let read = |file: &Path| {
            let config = ebb_p4runtime::read_config(&json, file);
            let info = config.unwrap_or_else(|e| panic!("{name}: {e}")).p4info;
            info.expect("P4Info")
        };
        let text = p4info::to_text(&compiled.p4info);
        let text = read(&folder.write("info.txtpb", text.as_bytes()));
        let binary = compiled.p4info.encode_to_vec();
        let binary = read(&folder.write("info.bin", &binary));
        tables += text.tables.len();
        assert_eq!(text, binary, "{name}");
    }
    assert!(tables > 50, "{tables} tables in all programs");
}

const ENTRIES: &str = r#"
#include <v1model.p4>
enum bit<16> Kind { A = 0x800 }
header h_t { bit<8> a; bit<16> b; int<8> c; bit<32> d; bool e; bit<7> f; }
struct headers { h_t h; }
struct metadata {}
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {} }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action go(@id(7) bit<9> port, int<8> n) { s.egress_spec = port; hdr.h.c = n; }
    table exact_one {
        key = { hdr.h.a: exact; hdr.h.e: exact @id(9); }
        actions = { go; NoAction; }
        const entries = { (1, true): go(2, -1); (8w2, false): NoAction(); }
    }
    table masks {
        key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.d: optional; }
        actions = { go; }
        entries = {
            const priority = 10: (8w0xf5 &&& 8w0xf0, 1 .. 2, 5): go(1, 1);
            priority = 5: (_, 0 .. 0xffff, _): go(2, 2);
        }
    }
    table prefixes {
        key = { hdr.h.d: lpm; }
        actions = { go; }
        const entries = { 0x0a0b0c0d &&& 0xffff0000: go(1, 1); 0x01020304: go(1, 2); _: go(1, 3); }
    }
    @hidden table unseen { key = { hdr.h.a: exact; } actions = { NoAction; } const entries = { 3: NoAction(); } }
    apply { exact_one.apply(); masks.apply(); prefixes.apply(); unseen.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout metadata m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn table_entry(update: &Update) -> &TableEntry {
    assert_eq!(update.r#type, update::Type::Insert as i32);
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Entity::TableEntry(entry)) => entry,
        other => panic!("{other:?}"),
    }
}

/// In short: field, kind, bytes.
fn matches(entry: &TableEntry) -> Vec<String> {
    let show = |kind: &FieldMatchType| match kind {
        FieldMatchType::Exact(m) => format!("exact {:02x?}", m.value),
        FieldMatchType::Ternary(m) => format!("ternary {:02x?} {:02x?}", m.value, m.mask),
        FieldMatchType::Lpm(m) => format!("lpm {:02x?} {}", m.value, m.prefix_len),
        FieldMatchType::Range(m) => format!("range {:02x?} {:02x?}", m.low, m.high),
        FieldMatchType::Optional(m) => format!("optional {:02x?}", m.value),
        FieldMatchType::Other(_) => "other".into(),
    };
    let fields = entry.r#match.iter();
    fields
        .map(|m| {
            format!(
                "{}: {}",
                m.field_id,
                show(m.field_match_type.as_ref().expect("a kind"))
            )
        })
        .collect()
}

#[test]
fn entries_of_the_program_are_insertions() {
    let compiled = compile("entries.p4", ENTRIES);
    let request = compiled.entries.expect("entries");
    let entries: Vec<&TableEntry> = request.updates.iter().map(table_entry).collect();
    let found: Vec<_> = entries
        .iter()
        .map(|e| (matches(e).join(", "), e.priority, e.is_const))
        .collect();
    let row = |text: &str, priority, is_const| (text.to_owned(), priority, is_const);
    assert_eq!(
        found,
        [
            row("1: exact [01], 9: exact [01]", 0, true),
            row("1: exact [02], 9: exact [00]", 0, true),
            row(
                "1: ternary [f0] [f0], 2: range [00, 01] [00, 02], 3: optional [00, 00, 00, 05]",
                10,
                true
            ),
            // A match of everything has no field.
            row("", 5, false),
            row("1: lpm [0a, 0b, 00, 00] 16", 0, true),
            row("1: lpm [01, 02, 03, 04] 32", 0, true),
            row("", 0, true),
        ]
    );
    let action = entries[0].action.as_ref().and_then(|a| a.r#type.as_ref());
    let Some(ActionType::Action(action)) = action else {
        panic!("{action:?}");
    };
    let params: Vec<_> = action
        .params
        .iter()
        .map(|p| (p.param_id, p.value.clone()))
        .collect();
    // Negative numbers are their bits.
    assert_eq!(params, [(7, vec![0, 2]), (2, vec![0xff])]);
    let text = p4info::to_text(&request);
    assert!(
        text.starts_with("# proto-file: p4/v1/p4runtime.proto\n"),
        "{text}"
    );
}

const NO_NUMBERS: &str = r#"
#include <v1model.p4>
enum Colour { red, green, blue }
header h_t { bit<8> a; }
struct headers { h_t h; }
struct metadata { Colour colour; error problem; Colour other; }
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout metadata m) { apply {} }
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {
    action paint(Colour with) { m.other = with; }
    table painted {
        key = { m.colour: exact; m.problem: exact; }
        actions = { paint; NoAction; }
    }
    apply { painted.apply(); }
}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout metadata m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The P4Info has no width for them; the server did not take the program.
#[test]
fn keys_and_parameters_that_are_no_numbers_are_written_as_what_they_are_in_the_switch() {
    let compiled = compile("no-numbers.p4", NO_NUMBERS);
    let info = compiled.p4info.clone();
    let table = &info.tables[0];
    let widths: Vec<_> = table.match_fields.iter().map(|f| f.bitwidth).collect();
    assert_eq!(widths, [0, 0]);
    let action_id = table.action_refs[0].id;
    let exact = |field_id, value: u8| FieldMatch {
        field_id,
        field_match_type: Some(FieldMatchType::Exact(field_match::Exact {
            value: vec![value],
        })),
    };
    let entry = TableEntry {
        table_id: table.preamble.as_ref().expect("it has one").id,
        r#match: vec![exact(1, 2), exact(2, 3)],
        action: Some(TableAction {
            r#type: Some(ActionType::Action(Action {
                action_id,
                params: vec![Param {
                    param_id: 1,
                    value: vec![1],
                }],
            })),
        }),
        ..TableEntry::default()
    };
    let server = Offline::new(compiled.pipeline_config(), true).expect("it is served");
    let entity = ebb_p4runtime::proto::p4::Entity {
        entity: Some(Entity::TableEntry(entry)),
    };
    let insert = Update {
        r#type: update::Type::Insert as i32,
        entity: Some(entity.clone()),
    };
    server.write(&insert).expect("it is written");
    assert_eq!(server.read(&entity).expect("it is read"), [entity]);
}

/// The P4Info has it and the JSON has not; the server did not take the program.
#[test]
fn a_program_with_a_profile_that_no_table_has_is_served() {
    let text = ENTRIES.replace(
        "    action go(",
        "    action_profile(4) unused;\n    action go(",
    );
    let compiled = compile("unused-profile.p4", &text);
    assert_eq!(compiled.p4info.action_profiles.len(), 1);
    assert!(Offline::new(compiled.pipeline_config(), true).is_ok());
}
