//! Native code for a program: the same as the interpreter does, without looking at the program again.
//!
//! ```text
//!  Program ──compile──► begin    parser; of v1model also checksum verification ┐
//!                       ingress  tables, conditions, actions                   ├─ functions of a `Context`
//!                       egress   the same                                      │
//!                       deparse  checksum update, headers into bytes           ┘
//!                                of Tofino: what the deparser asks for
//!                          └──► calls.rs: tables, and everything rare, stays with the interpreter
//! ```
//!
//! Fields live at constant places of [`Packet::words`](crate::Packet), so a field is a load and a branch is a
//! branch. Coverage is per primitive, parser operation and expression: what has no instructions here is a
//! call of the interpreter's function for it. So it is only a matter of speed what this module knows.
//!
//! # Safety
//!
//! * Offsets into the words come from `Layout`, and a packet has as many words as `Layout::initial`.
//! * Reads of the frame are behind a comparison with its length. Before the deparser writes headers, the frame
//!   gets as many bytes as they are.
//! * Addresses in the code are of parts of the `Program` that owns the code. They stay where they are: each
//!   is behind a `Vec` or `Box` that does not change until both are dropped together.
//! * Memory that can be executed cannot be written (`cranelift-jit`).

mod action;
mod apart;
mod arrays;
mod calls;
mod cells;
mod code;
mod control;
mod deparser;
mod entries;
mod expr;
mod hash;
mod initial;
mod parser;
mod rows;
mod standard;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::atomic::Ordering;

use cranelift_codegen::ir::{Function, UserFuncName, Value};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};

use crate::machine::Machine;
use crate::outcome::{EgressInput, IngressInput};
use crate::program::{Next, Program};
use crate::tofino::{Blocks, Gress, Half};
use calls::Context;
pub(crate) use cells::Cells;
use code::Code;
pub(crate) use rows::{ActionSet, Tables};

type Generated = unsafe extern "C" fn(*mut Context) -> u64;
/// Initialises the words of a packet.
type Initialising = unsafe extern "C" fn(*mut u64);

/// The code of a program.
pub(crate) struct Native {
    initialise: Initialising,
    begin: Generated,
    /// `None` if the control graph has a cycle, as for `egress`: the interpreter runs it.
    ingress: Option<Generated>,
    egress: Option<Generated>,
    deparse: Generated,
    /// Ingress and egress of each pipeline of Tofino; the functions above are of the first one then. Empty for v1model.
    halves: Vec<[HalfCode; 2]>,
    /// Owns the memory; `None` once it is dropped.
    module: Option<JITModule>,
}

/// The code of half a pipeline of Tofino.
#[derive(Clone, Copy)]
struct HalfCode<F = Generated> {
    parser: F,
    /// `None` if the control graph has a cycle.
    control: Option<F>,
    /// Whether the parser reads bytes apart from the frame.
    apart: bool,
    /// Requests of the deparser: headers, copies.
    deparser: F,
    /// Writes headers into the frame; `None` where the deparser does not always emit the same ones.
    write: Option<F>,
}

impl<F> HalfCode<F> {
    fn map<G>(self, f: impl Fn(F) -> G) -> HalfCode<G> {
        HalfCode {
            parser: f(self.parser),
            control: self.control.map(&f),
            apart: self.apart,
            deparser: f(self.deparser),
            write: self.write.map(&f),
        }
    }
}

// SAFETY: the code is not changed any more, and the module is touched only to free it.
unsafe impl Send for Native {}
// SAFETY: as above.
unsafe impl Sync for Native {}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native").finish_non_exhaustive()
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the functions are reached only through this, which is gone.
            unsafe { module.free_memory() };
        }
    }
}

impl Native {
    /// `None` where there is no code generator for the machine; then the interpreter does everything.
    pub fn compile(program: &Program) -> Option<Native> {
        match Compiler::new(program).and_then(Compiler::all) {
            Ok(native) => Some(native),
            Err(e) => {
                tracing::warn!("no native code, the program is interpreted: {e}");
                None
            }
        }
    }

    /// Initialises the words of a packet of the program that must be, whatever they held.
    pub fn initialise(&self, program: &Program, words: &mut [u64]) {
        assert_eq!(
            words.len(),
            program.layout.initial.len(),
            "a packet of another program"
        );
        // SAFETY: it stores within as many words; see the module's documentation.
        unsafe { (self.initialise)(words.as_mut_ptr()) }
    }
}

struct Compiler<'a> {
    program: &'a Program,
    module: JITModule,
    /// Work memory.
    context: cranelift_codegen::Context,
    builder: FunctionBuilderContext,
}

type Result<T> = std::result::Result<T, String>;

impl<'a> Compiler<'a> {
    fn new(program: &'a Program) -> Result<Compiler<'a>> {
        // Where a C function returns two words in two registers, as `calls` needs it.
        if !cfg!(all(
            unix,
            target_endian = "little",
            any(
                target_arch = "x86_64",
                target_arch = "aarch64",
                target_arch = "riscv64"
            )
        )) {
            return Err("it is made for x86-64, AArch64 and RISC-V 64 under Unix".to_owned());
        }
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            (
                "enable_verifier",
                if cfg!(debug_assertions) {
                    "true"
                } else {
                    "false"
                },
            ),
        ] {
            flags.set(name, value).map_err(|e| e.to_string())?;
        }
        let isa = cranelift_native::builder()?
            .finish(settings::Flags::new(flags))
            .map_err(|e| e.to_string())?;
        let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        Ok(Compiler {
            program,
            context: module.make_context(),
            module,
            builder: FunctionBuilderContext::new(),
        })
    }

    fn all(mut self) -> Result<Native> {
        let program = self.program;
        let initialise = self.initialising()?;
        let mut halves = Vec::new();
        for blocks in program.tofino().iter().flat_map(|tofino| &tofino.pipes) {
            halves.push([
                self.half(blocks, Gress::Ingress)?,
                self.half(blocks, Gress::Egress)?,
            ]);
        }
        let (begin, ingress, egress, deparse) = match halves.first() {
            None => self.v1model()?,
            Some([i, e]) => (i.parser, i.control, e.control, i.deparser),
        };
        self.module
            .finalize_definitions()
            .map_err(|e| e.to_string())?;
        let entry = |id: FuncId| {
            let code = self.module.get_finalized_function(id);
            // SAFETY: it was generated with this signature, in the host's calling convention.
            unsafe { std::mem::transmute::<*const u8, Generated>(code) }
        };
        let initialise = self.module.get_finalized_function(initialise);
        Ok(Native {
            // SAFETY: it was generated with this signature, in the host's calling convention.
            initialise: unsafe { std::mem::transmute::<*const u8, Initialising>(initialise) },
            begin: entry(begin),
            ingress: ingress.map(entry),
            egress: egress.map(entry),
            deparse: entry(deparse),
            halves: halves
                .into_iter()
                .map(|pipe| pipe.map(|half| half.map(entry)))
                .collect(),
            module: Some(self.module),
        })
    }

    /// Parser, ingress, egress and deparser of v1model.
    fn v1model(&mut self) -> Result<(FuncId, Option<FuncId>, Option<FuncId>, FuncId)> {
        let program = self.program;
        let begin = self.function(|code| code.begin())?;
        let ingress = self.pipeline(program.ingress, |_| {})?;
        let egress = self.pipeline(program.egress, |code| code.set_on_departure())?;
        let deparse = self.function(|code| code.deparse())?;
        Ok((begin, ingress, egress, deparse))
    }

    /// Half a pipeline of Tofino.
    fn half(&mut self, blocks: &Blocks, gress: Gress) -> Result<HalfCode<FuncId>> {
        let write = match blocks.emits(gress) {
            Some(emits) => Some(self.function(|code| code.write_emitted(emits))?),
            None => None,
        };
        let start = blocks.parsers[gress as usize];
        let apart = Code::parses_apart(self.program, start);
        let program = self.program;
        let selectors = program.tofino().map(|tofino| tofino.selectors(gress));
        let parser = self.function(|code| {
            for place in selectors.into_iter().flatten() {
                code.set_word_to(place.at, place.mask);
            }
            match apart {
                true => code.parse_apart(start).0,
                false => code.parse(start).0,
            }
        })?;
        Ok(HalfCode {
            parser,
            apart,
            control: self.pipeline(blocks.controls[gress as usize], |_| {})?,
            deparser: self.function(|code| code.deparser_of(blocks.before_emits(gress)))?,
            write,
        })
    }

    /// A pipeline behind what `before` generates.
    fn pipeline(&mut self, start: Next, before: fn(&mut Code)) -> Result<Option<FuncId>> {
        if control::is_cyclic(&self.program.nodes, start) {
            return Ok(None);
        }
        let generate = |code: &mut Code| {
            before(code);
            code.pipeline(start)
        };
        self.function(generate).map(Some)
    }

    /// The function that initialises the words that must be.
    fn initialising(&mut self) -> Result<FuncId> {
        let program = self.program;
        self.function_of(0, |mut b, _| {
            initial::generate(&mut b, &program.layout.initial, &program.usage.unset);
            b.seal_all_blocks();
            b.finalize();
        })
    }

    /// A function of a [`Context`], whose result is what `generate` gives.
    fn function(&mut self, generate: impl FnOnce(&mut Code) -> Value) -> Result<FuncId> {
        let program = self.program;
        self.function_of(1, |b, convention| {
            let mut code = Code::start(program, b, convention);
            let result = generate(&mut code);
            code.finish(result);
        })
    }

    /// A function of one argument, with this many results.
    fn function_of(
        &mut self,
        results: usize,
        generate: impl FnOnce(FunctionBuilder<'_>, CallConv),
    ) -> Result<FuncId> {
        let convention = self.module.isa().default_call_conv();
        let signature = code::signature(convention, 1, results);
        let id = self
            .module
            .declare_anonymous_function(&signature)
            .map_err(|e| e.to_string())?;
        self.context.func = Function::with_name_signature(UserFuncName::default(), signature);
        let b = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        generate(b, convention);
        self.module
            .define_function(id, &mut self.context)
            .map_err(|e| format!("{e:?}"))?;
        self.module.clear_context(&mut self.context);
        Ok(id)
    }
}

impl Machine<'_> {
    /// The argument of generated code that runs on the packet.
    #[inline]
    fn context(&mut self) -> Context {
        assert_eq!(
            self.packet.words.len(),
            self.program.layout.initial.len(),
            "a packet of another program"
        );
        let packet = std::ptr::from_mut(self.packet);
        Context {
            words: self.packet.words.as_mut_ptr(),
            frame: self.packet.frame.as_mut_ptr(),
            frame_length: self.packet.frame.len() as u64,
            packet,
            drop_port: u64::from(self.state.drop_port),
            views: self.state.tables.views(),
            counters: self.state.counters.as_mut_ptr(),
            registers: self.state.registers.arrays.as_mut_ptr(),
            machine: std::ptr::null_mut(),
            input: std::ptr::null(),
            now_us: self.now.as_micros(),
        }
    }

    /// Runs generated code on the packet, whose frame and words are where they were when the context
    /// was made.
    #[inline]
    fn run_native(&mut self, function: Generated, context: &mut Context) -> u64 {
        context.machine = std::ptr::from_mut(self).cast();
        // SAFETY: the code belongs to this machine's program; see the module's documentation.
        unsafe { function(context) }
    }

    /// Parser and checksum verification.
    pub fn begin_native(&mut self, native: &Native) {
        let mut context = self.context();
        self.begin_in(native, &mut context);
    }

    #[inline(always)]
    fn begin_in(&mut self, native: &Native, context: &mut Context) {
        let result = self.run_native(native.begin, context);
        if context.input.is_null() {
            // Headers may have been valid before, and somebody may read any field.
            self.measure();
            self.fetch_fields();
        }
        self.note_beginning(result as u32, result >> 32 != 0);
    }

    /// Parser, checksum verification and ingress. The words are set from the input first; `None`: they are set.
    #[inline]
    pub fn arrive_native(&mut self, native: &Native, input: Option<&IngressInput>) {
        let mut context = self.context();
        context.input = input.map_or(std::ptr::null(), |input| std::ptr::from_ref(input).cast());
        self.begin_in(native, &mut context);
        match native.ingress {
            Some(function) => self.pipeline_in(function, &mut context),
            None => self.ingress_interpreted(),
        }
    }

    /// Egress, and the deparser, unless the packet is dropped or asks for something. The words are set from the input
    /// first; `None`: they are set. Returns whether the headers are written.
    #[inline]
    pub fn egress_native(&mut self, native: &Native, input: Option<&EgressInput>) -> bool {
        let Some(function) = native.egress else {
            self.egress_interpreted();
            return false;
        };
        let mut context = self.context();
        context.input = input.map_or(std::ptr::null(), |input| std::ptr::from_ref(input).cast());
        self.pipeline_in(function, &mut context);
        let egress_spec = self.program.standard.egress_spec.get(&self.packet.words);
        if self.packet.requests.any() || egress_spec == context.drop_port {
            return false;
        }
        self.packet.requests.exit = false;
        self.deparse_in(native, &mut context);
        true
    }

    #[inline]
    fn pipeline_in(&mut self, function: Generated, context: &mut Context) {
        // An action of the parser may have ended it all.
        if self.packet.requests.exit {
            self.measure();
        } else {
            self.run_native(function, context);
        }
    }

    #[inline]
    fn deparse_in(&mut self, native: &Native, context: &mut Context) {
        self.run_native(native.deparse, context);
        let whole = self.packet.truncated_to;
        self.packet.frame.truncate(whole);
    }

    /// Parser, control and deparser of half a pipeline of Tofino. `accepts` gets the error of the parser, and decides
    /// whether the packet is processed. Returns the error, and whether the headers are written: not if the
    /// deparser does not always emit the same ones, or if the frame is needed as it came in.
    pub fn half_native(
        &mut self,
        native: &Native,
        half: Half,
        accepts: impl FnOnce(&mut Self, u32) -> bool,
    ) -> (u32, bool) {
        let code = &native.halves[half.pipe][half.gress as usize];
        if !code.apart {
            self.packet.join_front();
        }
        let mut context = self.context();
        let error = self.run_native(code.parser, &mut context) as u32;
        if self.packet.metadata_bytes > 0 {
            // The parser may have put them into the frame.
            context = self.context();
        }
        if !accepts(self, error) {
            return (error, false);
        }
        if self.state.sets_all.load(Ordering::Relaxed) {
            // Others than the program may read any field.
            self.fetch_fields();
        }
        match code.control {
            Some(function) if !self.packet.requests.exit => {
                self.run_native(function, &mut context);
            }
            Some(_) => {}
            None => {
                self.fetch_fields();
                self.interpret(|m| m.control(half));
            }
        }
        self.end_control();
        self.run_native(code.deparser, &mut context);
        match code.write {
            Some(write) if !self.wants_original(half.gress) => {
                self.packet.front.clear();
                self.run_native(write, &mut context);
                (error, true)
            }
            _ => (error, false),
        }
    }

    /// Writes the headers that a deparser of Tofino always emits. False if it does not always emit the same ones.
    pub fn write_native(&mut self, native: &Native, half: Half) -> bool {
        let Some(write) = native.halves[half.pipe][half.gress as usize].write else {
            return false;
        };
        let mut context = self.context();
        self.run_native(write, &mut context);
        true
    }

    /// Updates checksums and writes the headers into the frame.
    pub fn deparse_native(&mut self, native: &Native) {
        let mut context = self.context();
        self.deparse_in(native, &mut context);
    }
}
