//! Compiler from P4_16 for v1model, TNA and T2NA to BMv2 JSON and P4Info.
//!
//! ```text
//! text -> preprocess -> lex -> parse -> check -> elaborate -> bmv2   -> program.json
//!         text          tokens ast      ir       flat      \> p4info -> program.p4info.txtpb
//!                                                                   \> bf_rt -> bf-rt.json
//! ```
//!
//! Every stage reports errors through [`diagnostics`] and continues where it can; the next stage only
//! starts on a program without errors. [`compile`] runs them all.

pub mod annotations;
pub mod architecture;
pub mod ast;
mod bf_rt;
pub mod bmv2;
pub mod budget;
pub mod check;
pub mod dependencies;
pub mod diagnostics;
mod digests;
pub mod elaborate;
pub mod eval;
mod fold;
mod hashes;
pub mod ir;
pub mod lex;
pub mod limits;
mod names;
pub mod options;
mod p4_14;
pub mod p4info;
pub mod parse;
pub mod preprocess;
pub mod print;
mod printable;
pub mod source;
pub mod types;
pub mod value;
mod warnings;

use ebb_p4_proto::config::P4Info;
use ebb_p4_proto::p4::{ForwardingPipelineConfig, WriteRequest};

use diagnostics::{Diagnostic, Diagnostics};
use options::Stage;
use source::SourceMap;

/// Outputs of a successful compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The program for BMv2 and ebb-switch.
    pub json: ebb_bmv2_json::Program,
    /// The program for the control plane.
    pub p4info: P4Info,
    /// An error about objects that the P4Info does not distinguish; the program runs without it. None: there is none.
    pub p4info_problem: Option<Box<Diagnostic>>,
    /// The entries of the program's tables, or the reason why P4Runtime cannot have them.
    pub entries: Result<WriteRequest, Box<Diagnostic>>,
    /// The contents of `bf-rt.json`.
    pub bf_rt: serde_json::Value,
}

impl Compiled {
    /// The config by which a controller installs the program.
    pub fn pipeline_config(&self) -> ForwardingPipelineConfig {
        ForwardingPipelineConfig {
            p4info: Some(self.p4info.clone()),
            p4_device_config: self.json.to_json().into_bytes(),
            cookie: None,
        }
    }
}

/// Compiles one program. `name` is its path, for messages and for `#include "..."`. None if there were errors; messages
/// are in `diagnostics` either way.
pub fn compile(
    name: &str,
    text: &str,
    options: &preprocess::Options,
    sources: &mut SourceMap,
    diagnostics: &Diagnostics,
) -> Option<Compiled> {
    let file = sources.add(name, text);
    let program = preprocess::preprocess(file, sources, options, diagnostics);
    compile_tokens(name, &program.tokens, sources, diagnostics, &mut |_, _| {})
}

/// As [`compile`], for a program that includes only what comes with the compiler. The error: its messages.
pub fn compile_text(name: &str, text: &str) -> Result<Compiled, String> {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let options = preprocess::Options::default();
    let compiled = compile(name, text, &options, &mut sources, &diagnostics);
    compiled.ok_or_else(|| diagnostics.render(&sources, false))
}

/// As [`compile`], for a preprocessed program; `dump` is called after each stage, and may print its
/// output.
pub fn compile_tokens(
    name: &str,
    tokens: &[lex::Token],
    sources: &SourceMap,
    diagnostics: &Diagnostics,
    dump: &mut dyn FnMut(Stage, &dyn Fn() -> String),
) -> Option<Compiled> {
    let program = check_tokens(tokens, diagnostics, dump)?;
    generate(name, &program, sources, diagnostics, dump)
}

/// The stages that do not depend on a target: programs of every [`architecture`] go through them.
pub fn check_tokens(
    tokens: &[lex::Token],
    diagnostics: &Diagnostics,
    dump: &mut dyn FnMut(Stage, &dyn Fn() -> String),
) -> Option<ir::Program> {
    dump(Stage::Tokens, &|| annotations::text(tokens));
    if let Some(error) = p4_14::recognise(tokens) {
        diagnostics.report_only(error);
        return None;
    }
    let tree = parse::parse(tokens, diagnostics);
    dump(Stage::Ast, &|| format!("{tree:#?}"));
    if diagnostics.has_errors() {
        return None;
    }
    warnings::read_settings(&tree, diagnostics);
    let program = check::check(&tree, diagnostics);
    dump(Stage::Ir, &|| format!("{program:#?}"));
    if diagnostics.has_errors() {
        return None;
    }
    warnings::report(&program, diagnostics);
    Some(program)
}

/// The stages after [`check_tokens`].
pub fn generate(
    name: &str,
    program: &ir::Program,
    sources: &SourceMap,
    diagnostics: &Diagnostics,
    dump: &mut dyn FnMut(Stage, &dyn Fn() -> String),
) -> Option<Compiled> {
    let flat = flat(program, diagnostics, dump)?;
    let json = bmv2::generate(program, &flat, sources, diagnostics, name);
    let control_plane = p4info::generate(program, &flat, diagnostics);
    (!diagnostics.has_errors()).then_some(Compiled {
        bf_rt: bf_rt::schema(&flat, &control_plane.p4info),
        json,
        p4info: control_plane.p4info,
        p4info_problem: control_plane.problem,
        entries: control_plane.entries,
    })
}

/// The control plane's view of a program.
#[derive(Debug)]
pub struct ControlPlane {
    /// For P4Runtime.
    pub p4info: p4info::Generated,
    /// For BF Runtime: the contents of `bf-rt.json`.
    pub bf_rt: serde_json::Value,
}

/// The control plane's view of a program of any architecture.
pub fn control_plane(
    program: &ir::Program,
    diagnostics: &Diagnostics,
    dump: &mut dyn FnMut(Stage, &dyn Fn() -> String),
) -> Option<ControlPlane> {
    let flat = flat(program, diagnostics, dump)?;
    let p4info = p4info::generate(program, &flat, diagnostics);
    (!diagnostics.has_errors()).then_some(ControlPlane {
        bf_rt: bf_rt::schema(&flat, &p4info.p4info),
        p4info,
    })
}

/// The program, instantiated and inlined.
fn flat(
    program: &ir::Program,
    diagnostics: &Diagnostics,
    dump: &mut dyn FnMut(Stage, &dyn Fn() -> String),
) -> Option<elaborate::flat::Flat> {
    let flat = elaborate::elaborate(program, diagnostics)?;
    dump(Stage::Flat, &|| format!("{flat:#?}"));
    (!diagnostics.has_errors()).then_some(flat)
}
