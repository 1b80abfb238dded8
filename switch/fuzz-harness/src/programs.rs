//! Arbitrary inputs in the place of programs.

use arbitrary::{Result, Unstructured};
use ebb_bmv2_json::Program;
use ebb_p4c::Compiled;
use ebb_p4runtime::Offline;
use ebb_p4runtime::proto::p4;
use ebb_pipeline::LoadError;
use serde_json::Value;

use crate::loaded::{Loaded, PROGRAMS, compile};
use crate::state::{Operation, perform_all};

/// Longest text that is compiled; longer ones find no more.
const LONGEST_TEXT: usize = 100_000;

/// Most operations on a program that is used once, because loading it takes longer than many of
/// them.
const FEW_OPERATIONS: usize = 20;

/// Compiles the bytes, or the kitchen sink with some pieces exchanged; loads the result and sends
/// packets.
pub fn p4(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let text = match bytes.split_first() {
        Some((b'=', text)) => String::from_utf8_lossy(text).into_owned(),
        _ => changed_text(&mut input, PROGRAMS[0].1).unwrap_or_default(),
    };
    if text.len() > LONGEST_TEXT {
        return;
    }
    let Some(compiled) = compile("changed.p4", &text) else {
        return;
    };
    let json = serde_json::to_vec(&compiled.json).expect("it can be written");
    let again = Program::from_json(&json).expect("it can be read");
    assert_eq!(again, compiled.json, "what is read is what was written");
    match Loaded::load(again) {
        Ok(loaded) => {
            serve(&compiled);
            try_it(&loaded, &mut input);
        }
        Err(error) => assert!(is_limit(&error), "what is compiled is loaded: {error}"),
    }
}

/// The P4Runtime server takes what the compiler made, and tables start with the program's entries.
fn serve(compiled: &Compiled) {
    let server = Offline::new(compiled.pipeline_config(), true);
    let server = server.unwrap_or_else(|e| panic!("what is compiled is served: {e}"));
    let Ok(entries) = &compiled.entries else {
        return;
    };
    for update in &entries.updates {
        let mut entry = update.entity.clone().expect("an entity");
        // The entry is read whatever its priority is. Controllers are told the order of the
        // entries; the annotation `@priority`, which may say something else, is only for BMv2.
        if let Some(p4::entity::Entity::TableEntry(entry)) = &mut entry.entity {
            entry.priority = 0;
        }
        let found = server.read(&entry);
        let found = found.unwrap_or_else(|e| panic!("{entry:?} cannot be read: {e}"));
        assert!(!found.is_empty(), "{entry:?} is not there");
    }
}

/// Whether the program asks for more than the switch has, which the compiler cannot know.
fn is_limit(error: &LoadError) -> bool {
    error.problem.contains("at most") || error.problem.contains("more than")
}

/// A text with some of its lines and words moved elsewhere.
fn changed_text(input: &mut Unstructured, text: &str) -> Result<String> {
    let mut pieces: Vec<&str> = text
        .split_inclusive([' ', ';', '(', '{', '\n', '.'])
        .collect();
    for _ in 0..input.int_in_range(1..=4)? {
        let from = input.choose_index(pieces.len())?;
        let to = input.choose_index(pieces.len())?;
        match input.int_in_range(0..=3u8)? {
            0 => drop(pieces.remove(to)),
            1 => pieces.insert(to, pieces[from]),
            2 => pieces.swap(from, to),
            _ => pieces[to] = pieces[from],
        }
    }
    Ok(pieces.concat())
}

/// Loads the bytes, or the kitchen sink's file with some values exchanged; sends packets if it is
/// taken.
pub fn bmv2_json(base: &Loaded, bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let json = match bytes.split_first() {
        Some((b'{', _)) => bytes.to_vec(),
        _ => {
            let mut value = serde_json::to_value(&base.source).expect("it can be written");
            if change(&mut input, &mut value).is_err() {
                return;
            }
            value.to_string().into_bytes()
        }
    };
    let Ok(program) = Program::from_json(&json) else {
        return;
    };
    let again = Program::from_json(program.to_json().as_bytes()).expect("it can be read again");
    assert_eq!(again, program, "what is read is what was written");
    if let Ok(loaded) = Loaded::load(program) {
        try_it(&loaded, &mut input);
    }
}

/// Replaces a value by another one of the file, or by any other.
fn change(input: &mut Unstructured, value: &mut Value) -> Result<()> {
    for _ in 0..input.int_in_range(1..=3)? {
        let donor = walk(input, value)?.clone();
        let new = match input.int_in_range(0..=6u8)? {
            0 => Value::Null,
            1 => Value::from(input.int_in_range(0..=300u32)?),
            2 => Value::from(u32::MAX),
            3 => Value::from(format!("{:#x}", input.arbitrary::<u64>()?)),
            _ => donor,
        };
        *walk(input, value)? = new;
    }
    Ok(())
}

/// A value somewhere inside another one.
fn walk<'a>(input: &mut Unstructured, mut value: &'a mut Value) -> Result<&'a mut Value> {
    loop {
        let children = match value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if children == 0 || input.ratio(1, 12)? {
            return Ok(value);
        }
        let chosen = input.choose_index(children)?;
        let child = match value {
            Value::Array(items) => items.get_mut(chosen),
            Value::Object(fields) => fields.values_mut().nth(chosen),
            _ => None,
        };
        value = child.expect("it was counted");
    }
}

/// A loaded program takes packets, as it is and with the entries and other state that the rest of
/// the input describes, and every executor does the same.
fn try_it(program: &Loaded, input: &mut Unstructured) {
    let mut worlds = program.worlds();
    for kind in [0x10, 0x20, 0x30, 0x40, 0x50, 0xff] {
        let frame: Vec<u8> = [kind, 0x21].into_iter().chain(1..60).collect();
        Operation::Packet(1, frame).perform_alike(&mut worlds);
    }
    perform_all(program, &mut worlds, input, FEW_OPERATIONS);
}
