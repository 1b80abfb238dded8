//! Compiled programs in the three executors.

use std::sync::Arc;

use ebb_bmv2_json::Program;
use ebb_p4c::Compiled;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::{LoadError, Pipeline, Program as Executor};

use crate::world::{Arrays, World};

/// Names and texts of the programs for [`packets`](crate::packets).
pub const PROGRAMS: [(&str, &str); 2] = [
    ("kitchen_sink.p4", include_str!("kitchen_sink.p4")),
    (
        "router.p4",
        include_str!("../../pipeline/examples/tables/router.p4"),
    ),
];

/// A loaded program with what the harness knows of it.
pub struct Loaded {
    pub(crate) source: Program,
    /// The tables and arrays that operations can be on.
    pub(crate) pipeline: Pipeline,
    pub(crate) arrays: Arrays,
    /// The program with native code, for the interpreter, and in its plain form. Compiling takes
    /// longer than an input, so it is done once.
    executors: [Arc<Executor>; 3],
}

/// Compiles a text; its messages must be printable.
pub(crate) fn compile(name: &str, text: &str) -> Option<Compiled> {
    let mut sources = SourceMap::default();
    let diagnostics = Diagnostics::default();
    let compiled = ebb_p4c::compile(name, text, &Options::default(), &mut sources, &diagnostics);
    let shown = diagnostics.render(&sources, false);
    assert_eq!(compiled.is_none(), diagnostics.has_errors(), "{shown}");
    assert_eq!(shown.is_empty(), diagnostics.list().is_empty(), "{shown}");
    let is_control = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(is_control), "a terminal obeys {shown:?}");
    compiled
}

impl Loaded {
    /// Compiles one of [`PROGRAMS`].
    pub fn compile((name, text): (&str, &str)) -> Loaded {
        Loaded::new(compile(name, text).expect("a right program").json)
    }

    /// The program of the fabric's switches.
    pub fn fabric() -> Loaded {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/fabric.p4");
        let text = std::fs::read_to_string(path).expect("a file of this repository");
        Loaded::compile((path, &text))
    }

    fn new(source: Program) -> Loaded {
        Loaded::load(source).expect("a right program")
    }

    /// Loads a program: every executor takes it, or all refuse it for the same reason.
    pub(crate) fn load(source: Program) -> Result<Loaded, LoadError> {
        let native = Executor::load(&source);
        let interpreted = Executor::load_interpreted(&source);
        let plain = Executor::load_plain(&source);
        assert_eq!(native.as_ref().err(), interpreted.as_ref().err());
        assert_eq!(interpreted.as_ref().err(), plain.as_ref().err());
        let executors = [native?, interpreted?, plain?];
        let pipeline = Pipeline::new(executors[1].clone());
        Ok(Loaded {
            arrays: Arrays::new(&source, &pipeline),
            pipeline,
            source,
            executors,
        })
    }

    /// A fresh switch for each executor.
    pub(crate) fn worlds(&self) -> [World; 3] {
        let fresh = |program: &Arc<Executor>| World::new(Pipeline::new(program.clone()));
        self.executors.each_ref().map(fresh)
    }
}
