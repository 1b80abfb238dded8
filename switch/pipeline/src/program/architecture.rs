//! The blocks of a program by architecture: v1model's one parser and deparser, two of each in every pipeline of
//! Tofino and PSA.

use ebb_bmv2_json as json;

use super::actions::ActionCompiler;
use super::tables::Builder;
use super::{Emit, Next, Other};
use crate::action::Primitive;
use crate::calculation::Filled;
use crate::error::LoadError;
use crate::parser::{Parser, ParserLoader};
use crate::psa::Psa;
use crate::tofino::{self, Blocks, MAX_PIPES, Tofino};

type Result<T> = std::result::Result<T, LoadError>;

/// The architecture that a program is for.
#[derive(Clone, Copy)]
pub(super) enum Architecture {
    V1model,
    /// With the generation of the chip.
    Tofino(u8),
    Psa,
}

impl Architecture {
    pub fn of(source: &json::Program) -> Result<Architecture> {
        match source.architecture.as_deref() {
            None => Ok(Architecture::V1model),
            Some("tna") => Ok(Architecture::Tofino(1)),
            Some("t2na") => Ok(Architecture::Tofino(2)),
            Some("psa") => Ok(Architecture::Psa),
            Some(other) => Err(LoadError::new(
                format!("architecture {other:?}"),
                "it is not known; the architectures are tna, t2na and psa, and v1model, which has no key",
            )),
        }
    }

    /// How many pipes have registers for themselves.
    pub fn pipes(self) -> usize {
        match self {
            Architecture::Tofino(_) => MAX_PIPES,
            Architecture::V1model | Architecture::Psa => 1,
        }
    }

    /// Where inputs of hashes that are no whole bytes are filled up. P4 Studio and p4c's back end for Tofino have it in
    /// the library that makes the chip's matrices of a CRC, which extends the input with zeros above its highest bit.
    pub fn filled(self) -> Filled {
        match self {
            Architecture::Tofino(_) => Filled::InFront,
            Architecture::V1model | Architecture::Psa => Filled::AtTheEnd,
        }
    }

    /// The states of all parsers; and for other architectures than v1model, the first ones of ingress and egress of
    /// each pipeline.
    pub fn parsers(
        self,
        source: &json::Program,
        loader: &mut ParserLoader,
    ) -> Result<(Parser, Vec<[Option<u32>; 2]>)> {
        if !matches!(self, Architecture::V1model) {
            return parsers_of_pipes(source, loader);
        }
        let parser = match named(&source.parsers, "parser", |p| &p.name) {
            Some(parser) => loader.load(parser, 0)?,
            None => Parser::default(),
        };
        Ok((parser, Vec::new()))
    }

    /// The headers that v1model's deparser emits, and the primitives that it runs first.
    pub fn deparser(
        self,
        source: &json::Program,
        compiler: &ActionCompiler,
    ) -> Result<(Vec<Emit>, Vec<Primitive>)> {
        let deparser = named(&source.deparsers, "deparser", |d| &d.name);
        let (Architecture::V1model, Some(deparser)) = (self, deparser) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let within = |e: LoadError| e.within("deparser");
        let emit =
            |header: &String| Ok(Emit::new(compiler.layout, compiler.layout.header(header)?));
        let emits = deparser.order.iter().map(emit).collect::<Result<_>>();
        let calls = deparser_calls(compiler, deparser);
        Ok((emits.map_err(within)?, calls.map_err(within)?))
    }

    /// The parts of a program that v1model does not have; `starts` and `controls`: where the parsers of each
    /// pipeline begin, and the controls of the first.
    pub fn other(
        self,
        built: &mut Builder,
        compiler: &ActionCompiler,
        starts: &[[Option<u32>; 2]],
        controls: [Next; 2],
    ) -> Result<Option<Other>> {
        let (source, layout) = (built.source, built.layout);
        let mut pipes = Vec::new();
        for (&parsers, number) in starts.iter().zip(0..) {
            pipes.push(blocks(built, compiler, number, parsers, controls)?);
        }
        Ok(match self {
            Architecture::V1model => None,
            Architecture::Tofino(generation) => {
                let tofino = Tofino::load(layout, generation, pipes)?;
                Some(Other::Tofino(Box::new(tofino)))
            }
            Architecture::Psa => {
                let psa = Psa::load(source, layout, pipes.swap_remove(0))?;
                Some(Other::Psa(Box::new(psa)))
            }
        })
    }
}

/// The blocks of the pipeline with this number; `first`: the controls of the first one.
fn blocks(
    built: &mut Builder,
    compiler: &ActionCompiler,
    number: u32,
    parsers: [Option<u32>; 2],
    first: [Next; 2],
) -> Result<Blocks> {
    let name = |part| part_name(built.source, number, part);
    let [ingress, egress, ghost] = ["ingress", "egress", "ghost"].map(name);
    let errors = name("ingress_intrinsic_metadata_from_parser_t.parser_err");
    let controls = match number {
        0 => first,
        _ => [built.pipeline(&ingress)?, built.pipeline(&egress)?],
    };
    let deparsers = both_deparsers(built.source, number, compiler)?;
    Ok(Blocks {
        parsers,
        controls,
        tails: deparsers
            .each_ref()
            .map(|body| tofino::tail(body, built.layout)),
        deparsers,
        ghost: built.pipeline(&ghost)?,
        ingress_errors: tofino::place(built.layout, &errors)?,
    })
}

/// How many pipelines a program for Tofino has.
fn pipes(source: &json::Program) -> u32 {
    source.pipes.len().clamp(1, MAX_PIPES) as u32
}

/// The name of a part of the pipeline with this number.
fn part_name(source: &json::Program, number: u32, part: &str) -> String {
    let name = source.pipes.get(number as usize).map_or("", String::as_str);
    json::in_pipe(name, number, part)
}

/// The states of the parsers of all pipelines, and the first ones of ingress and egress of each.
fn parsers_of_pipes(
    source: &json::Program,
    loader: &mut ParserLoader,
) -> Result<(Parser, Vec<[Option<u32>; 2]>)> {
    let mut all = Parser::default();
    let mut starts = Vec::new();
    for number in 0..pipes(source) {
        let mut of_pipe = [None; 2];
        for (start, gress) in of_pipe.iter_mut().zip(["ingress", "egress"]) {
            let name = part_name(source, number, gress);
            let parser = source.parsers.iter().find(|p| p.name == name);
            let parser = parser.ok_or_else(|| LoadError::missing("parser", &name))?;
            let loaded = loader.load(parser, all.states.len() as u32)?;
            all.states.extend(loaded.states);
            *start = loaded.start;
        }
        starts.push(of_pipe);
    }
    all.start = starts[0][0];
    Ok((all, starts))
}

/// The primitives of the deparsers of both gresses of a pipeline, which are run as actions are.
fn both_deparsers(
    source: &json::Program,
    number: u32,
    compiler: &ActionCompiler,
) -> Result<[Vec<Primitive>; 2]> {
    let of = |gress: &str| {
        let name = part_name(source, number, gress);
        match source.deparsers.iter().find(|d| d.name == name) {
            Some(deparser) => {
                let body = compiler.body(&deparser.primitives, &[]);
                body.map_err(|e| e.within(format_args!("deparser {name}")))
            }
            None => Err(LoadError::missing("deparser", &name)),
        }
    };
    Ok([of("ingress")?, of("egress")?])
}

/// The primitives of the deparser. BMv2 runs each by itself, so that a jump does nothing.
fn deparser_calls(compiler: &ActionCompiler, deparser: &json::Deparser) -> Result<Vec<Primitive>> {
    let calls = compiler.body(&deparser.primitives, &[])?;
    let jumps = |call: &Primitive| matches!(call, Primitive::Jump(_) | Primitive::JumpUnless(..));
    match calls.iter().position(jumps) {
        None => Ok(calls),
        Some(i) => Err(LoadError::new(
            format!("primitive `{}`", deparser.primitives[i].op),
            "a deparser cannot jump; its primitives run one after the other",
        )),
    }
}

/// The object with the name that v1model has for it, or the only object there is.
fn named<'a, T>(all: &'a [T], name: &str, name_of: impl Fn(&T) -> &str) -> Option<&'a T> {
    all.iter().find(|o| name_of(o) == name).or(match all {
        [only] => Some(only),
        _ => None,
    })
}
