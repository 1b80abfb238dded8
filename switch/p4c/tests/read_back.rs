//! Output of the compiler, as its readers read it.

use ebb_bmv2_json::Program;

use crate::compiled;

#[test]
fn long_chains_are_no_deeper_than_readers_take() {
    let text = include_str!("../../ebb-stf/tests/passing/language/long_chains.p4");
    let json = compiled(text).json.to_json();
    Program::from_json(json.as_bytes()).expect("a program");
}

#[test]
fn constant_keys_are_called_by_their_numbers() {
    let text = include_str!("../../ebb-stf/tests/passing/language/constant_keys.p4");
    let info = compiled(text).p4info;
    let names = info.tables[0].match_fields.iter().map(|field| &field.name);
    assert_eq!(names.collect::<Vec<_>>(), ["1", "0x2a", "h.item.x"]);
}
