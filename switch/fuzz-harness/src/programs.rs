//! Programs, and what may be said instead of one.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use ebb_bmv2_json::Program;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::{Pipeline, Program as Executor};
use serde_json::Value;

use crate::world::World;

/// Names and texts of the programs for [`packets`](crate::packets).
pub const PROGRAMS: [(&str, &str); 2] = [
    ("kitchen_sink.p4", include_str!("kitchen_sink.p4")),
    (
        "router.p4",
        include_str!("../../pipeline/examples/tables/router.p4"),
    ),
];

/// A program with what the harness knows of it.
pub struct Loaded {
    pub(crate) source: Program,
    /// What entries can be for.
    pub(crate) pipeline: Pipeline,
    /// With native code, for the interpreter, and for its plain form. Compiled once, since that takes longer than an input.
    executors: [Arc<Executor>; 3],
}

fn compile(name: &str, text: &str) -> Option<Program> {
    let mut sources = SourceMap::default();
    let diagnostics = Diagnostics::default();
    let compiled = ebb_p4c::compile(name, text, &Options::default(), &mut sources, &diagnostics);
    assert_eq!(compiled.is_none(), diagnostics.has_errors(), "{name}");
    compiled.map(|compiled| compiled.json)
}

impl Loaded {
    /// One of [`PROGRAMS`].
    pub fn compile((name, text): (&str, &str)) -> Loaded {
        Loaded::new(compile(name, text).expect("a right program"))
    }

    /// A BMv2 JSON file.
    pub fn read(json: &[u8]) -> Loaded {
        Loaded::new(Program::from_json(json).expect("a right file"))
    }

    fn new(source: Program) -> Loaded {
        let executors = [
            Executor::load,
            Executor::load_interpreted,
            Executor::load_plain,
        ]
        .map(|load| load(&source).expect("a right program"));
        Loaded {
            pipeline: Pipeline::new(executors[1].clone()),
            source,
            executors,
        }
    }

    /// A fresh switch for each executor.
    pub(crate) fn worlds(&self) -> [World; 3] {
        let fresh = |program: &Arc<Executor>| World::new(Pipeline::new(program.clone()));
        self.executors.each_ref().map(fresh)
    }
}

/// Longer texts find no more.
const LONGEST_TEXT: usize = 100_000;

/// Compiles the bytes, or the kitchen sink with some of its pieces exchanged; loads the result.
pub fn p4(bytes: &[u8]) {
    let text = match bytes.split_first() {
        Some((b'=', text)) => String::from_utf8_lossy(text).into_owned(),
        _ => changed_text(&mut Unstructured::new(bytes), PROGRAMS[0].1).unwrap_or_default(),
    };
    if text.len() > LONGEST_TEXT {
        return;
    }
    if let Some(program) = compile("changed.p4", &text) {
        let json = serde_json::to_vec(&program).expect("it can be written");
        let again = Program::from_json(&json).expect("it can be read");
        load_and_try(&again);
    }
}

/// Lines and words of a text in other places.
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

/// Loads the bytes, or the kitchen sink's file with some of its values exchanged.
pub fn bmv2_json(base: &Loaded, bytes: &[u8]) {
    let json = match bytes.split_first() {
        Some((b'{', _)) => bytes.to_vec(),
        _ => {
            let mut value = serde_json::to_value(&base.source).expect("it can be written");
            if change(&mut Unstructured::new(bytes), &mut value).is_err() {
                return;
            }
            value.to_string().into_bytes()
        }
    };
    if let Ok(program) = Program::from_json(&json) {
        load_and_try(&program);
    }
}

/// Puts values of the file, or others, in the place of values.
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

/// A value somewhere inside.
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

/// What is loaded takes packets, in native code as in the interpreter.
fn load_and_try(program: &Program) {
    let (Ok(native), Ok(interpreted)) =
        (Pipeline::load(program), Pipeline::load_interpreted(program))
    else {
        return;
    };
    let mut worlds = [native, interpreted].map(World::new);
    for kind in [0x10, 0x20, 0x30, 0x40, 0x50, 0xff] {
        let frame: Vec<u8> = [kind, 0x21].into_iter().chain(1..60).collect();
        let [native, interpreted] = worlds.each_mut().map(|w| w.send(1, &frame));
        assert_eq!(native, interpreted);
    }
}
