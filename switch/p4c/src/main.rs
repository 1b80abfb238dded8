//! `ebb-p4c`, also under the name `p4c`: see [`ebb_p4c`] for the stages and [`ebb_p4c::options`] for the command line.

mod outputs;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ebb_p4c::architecture::Architecture;
use ebb_p4c::diagnostics::{Diagnostic, Diagnostics, Format};
use ebb_p4c::options::{Arguments, InfoFormat, Program, Request, Stage};
use ebb_p4c::p4info;
use ebb_p4c::preprocess::{self, Preprocessed, preprocess};
use ebb_p4c::source::SourceMap;
use ebb_p4c::{dependencies, options, print};
use outputs::Outputs;
use prost::Name;

/// p4c finds more included files in the folder that this variable names.
const INCLUDE_VARIABLE: &str = "P4C_16_INCLUDE_PATH";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut arguments = match options::parse(&words) {
        Ok(Request::Compile(arguments)) => arguments,
        Ok(Request::Print(text)) => return print(&text),
        Err(problem) => {
            // Nothing is left to do if stderr is closed.
            let _ = writeln!(std::io::stderr(), "ebb-p4c: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let more = std::env::var_os(INCLUDE_VARIABLE).filter(|folder| !folder.is_empty());
    let include_dirs = &mut arguments.preprocess.include_dirs;
    include_dirs.extend(more.map(PathBuf::from));
    // Inlining recurses as deeply as the program is nested; the main thread's stack is too small for
    // what the parser accepts.
    let worker = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || run(&arguments));
    match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

const STACK_BYTES: usize = 256 << 20;

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(arguments: &Arguments) -> bool {
    let mut sources = SourceMap::default();
    let diagnostics = Diagnostics::with_policy(arguments.policy.clone());
    match arguments.note() {
        Some(note) if arguments.error_format == Format::Json => {
            diagnostics.report(Diagnostic::remark("without-effect", note));
        }
        Some(note) => {
            let _ = writeln!(std::io::stderr(), "{note}");
        }
        None => {}
    }
    if let Err(problem) = work(arguments, &mut sources, &diagnostics) {
        diagnostics.report(*problem);
    }
    let color = std::io::stderr().is_terminal();
    let text = diagnostics.show(&sources, arguments.error_format, color);
    let _ = std::io::stderr().write_all(text.as_bytes());
    !diagnostics.has_errors()
}

/// Reads, compiles and writes what the command line asks for. Errors of the program are in `diagnostics`.
fn work(
    arguments: &Arguments,
    sources: &mut SourceMap,
    diagnostics: &Diagnostics,
) -> Result<(), Box<Diagnostic>> {
    let name = arguments.input.display().to_string();
    let text = read(&arguments.input, &name)?;
    // Wrong names of outputs are reported before the work is done.
    arguments.info_outputs().map_err(output_problem)?;
    arguments.entries_outputs().map_err(output_problem)?;
    let file = sources.add(name.as_str(), text);
    let Preprocessed { text, tokens } =
        preprocess(file, sources, &arguments.preprocess, diagnostics);
    let outputs = Outputs::of(sources);
    if !diagnostics.has_errors() {
        write_preprocessed(arguments, &outputs, &text, sources)?;
    }
    if arguments.preprocess_only || arguments.dependencies.only {
        return Ok(());
    }
    let mut dump = |stage: Stage, content: &dyn Fn() -> String| {
        if arguments.dump.contains(&stage) {
            let written = write_stdout(&format!("{}\n", content()));
            written
                .err()
                .into_iter()
                .for_each(|problem| diagnostics.report(*problem));
        }
        if stage == Stage::Ast
            && !diagnostics.has_errors()
            && let Some(file) = &arguments.pretty_print
            && let Err(problem) = outputs.write(file, print::pretty(&tokens, sources).as_bytes())
        {
            diagnostics.report(*problem);
        }
    };
    let Some(program) = ebb_p4c::check_tokens(&tokens, diagnostics, &mut dump) else {
        return Ok(());
    };
    if let Some(wanted) = arguments.architecture {
        check_architecture(wanted, program.architecture)?;
    }
    if program.architecture != Architecture::V1model && arguments.output.is_none() {
        return match ebb_p4c::control_plane(&program, diagnostics, &mut dump) {
            Some(made) => {
                write_control_plane(arguments, &outputs, made.p4info)?;
                write_bf_rt(arguments, &outputs, &made.bf_rt)
            }
            None => Ok(()),
        };
    }
    let Some(compiled) = ebb_p4c::generate(&name, &program, sources, diagnostics, &mut dump) else {
        return Ok(());
    };
    write_bf_rt(arguments, &outputs, &compiled.bf_rt)?;
    write_control_plane(
        arguments,
        &outputs,
        p4info::Generated {
            p4info: compiled.p4info,
            problem: compiled.p4info_problem,
            entries: compiled.entries,
        },
    )?;
    match arguments.json_output() {
        Some(file) => outputs.write(&file, (compiled.json.to_json() + "\n").as_bytes()),
        None => Ok(()),
    }
}

/// Reports a program for another architecture than the one that is wanted.
fn check_architecture(wanted: Architecture, found: Architecture) -> Result<(), Box<Diagnostic>> {
    if wanted == found {
        return Ok(());
    }
    let (wanted, found) = (wanted.name(), found.name());
    let message = format!("the program is for {found}, --arch is {wanted}");
    let help = "leave --arch out: the included file tells the architecture";
    Err(Box::new(
        Diagnostic::global("other-architecture", message).help(help),
    ))
}

fn read(input: &Path, name: &str) -> Result<String, Box<Diagnostic>> {
    let found = match name {
        "-" => preprocess::read_to_end(std::io::stdin()),
        _ => File::open(input).and_then(preprocess::read_to_end),
    };
    let bytes =
        found.map_err(|e| Diagnostic::global("input", format!("cannot read `{name}`: {e}")))?;
    let found = preprocess::text(name.to_owned(), bytes);
    let found =
        found.map_err(|missing| Diagnostic::global("input", missing.problem).help(missing.help))?;
    Ok(found.text)
}

/// Results of the preprocessor alone: the text, and the files that were read.
fn write_preprocessed(
    arguments: &Arguments,
    outputs: &Outputs,
    text: &str,
    sources: &SourceMap,
) -> Result<(), Box<Diagnostic>> {
    if let (Program::Driver, Some(folder)) = (arguments.program, &arguments.output) {
        std::fs::create_dir_all(folder).map_err(|error| {
            output_problem(format!(
                "cannot make the folder `{}`: {error}",
                folder.display()
            ))
        })?;
    }
    match arguments.preprocessed_output() {
        Some(file) if !arguments.dependencies.only => outputs.write(&file, text.as_bytes())?,
        None if arguments.preprocess_only => write_stdout(text)?,
        _ => {}
    }
    let wanted = &arguments.dependencies;
    if wanted.only || wanted.beside {
        let json = arguments.json_output();
        let json = json.unwrap_or_else(|| arguments.input.with_extension("json"));
        let rule = dependencies::rule(wanted, &json.display().to_string(), sources);
        match &wanted.file {
            Some(file) => outputs.write(file, rule.as_bytes())?,
            None if wanted.only => write_stdout(&rule)?,
            None => outputs.write(&json.with_extension("d"), rule.as_bytes())?,
        }
    }
    Ok(())
}

/// P4Info and entries, where they are asked for.
fn write_control_plane(
    arguments: &Arguments,
    outputs: &Outputs,
    made: p4info::Generated,
) -> Result<(), Box<Diagnostic>> {
    let info_files = arguments.info_outputs().map_err(output_problem)?;
    let entries_files = arguments.entries_outputs().map_err(output_problem)?;
    let has_control_plane = !info_files.is_empty() || !entries_files.is_empty();
    if let Some(problem) = made.problem.filter(|_| has_control_plane) {
        return Err(problem);
    }
    for (file, format) in info_files {
        outputs.write(file, &serialised(&made.p4info, format))?;
    }
    if !entries_files.is_empty() {
        let entries = made.entries?;
        for (file, format) in entries_files {
            outputs.write(file, &serialised(&entries, format))?;
        }
    }
    Ok(())
}

/// The schema of BF Runtime, where it is asked for.
fn write_bf_rt(
    arguments: &Arguments,
    outputs: &Outputs,
    schema: &serde_json::Value,
) -> Result<(), Box<Diagnostic>> {
    match &arguments.bf_rt_schema {
        Some(file) => outputs.write(file, format!("{schema:#}\n").as_bytes()),
        None => Ok(()),
    }
}

fn serialised<M: Name>(message: &M, format: InfoFormat) -> Vec<u8> {
    match format {
        InfoFormat::Text => p4info::to_text(message).into_bytes(),
        InfoFormat::Json => format!("{:#}\n", p4info::to_json(message)).into_bytes(),
        InfoFormat::Binary => message.encode_to_vec(),
    }
}

fn write_stdout(text: &str) -> Result<(), Box<Diagnostic>> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // Who reads no more, as `head`, has enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(output_problem(
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

fn output_problem(problem: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::global("output", problem))
}
