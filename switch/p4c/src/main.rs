//! `ebb-p4c`: see [`ebb_p4c`] for the stages.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use ebb_p4c::diagnostics::{Diagnostic, Diagnostics};
use ebb_p4c::options::{Arguments, InfoFormat, Stage};
use ebb_p4c::source::SourceMap;
use ebb_p4c::{Compiled, p4info, preprocess};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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

fn run(arguments: &Arguments) -> bool {
    let mut sources = SourceMap::default();
    let diagnostics = Diagnostics::default();
    if let Some(compiled) = compile(arguments, &mut sources, &diagnostics)
        && let Err(problem) = write_outputs(arguments, &compiled)
    {
        diagnostics.report(Diagnostic::global("output", problem));
    }
    let color = std::io::stderr().is_terminal();
    let text = diagnostics.render(&sources, color);
    // Nothing is left to do if stderr is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
    !diagnostics.has_errors()
}

fn compile(
    arguments: &Arguments,
    sources: &mut SourceMap,
    diagnostics: &Diagnostics,
) -> Option<Compiled> {
    let name = arguments.input.display().to_string();
    let text = match read(arguments, &name) {
        Ok(text) => text,
        Err((problem, help)) => {
            let mut diagnostic = Diagnostic::global("input", problem);
            diagnostic.help = help;
            diagnostics.report(diagnostic);
            return None;
        }
    };
    let options = preprocess::Options {
        include_dirs: arguments.include_dirs.clone(),
        defines: arguments.defines(),
    };
    let mut dump = |stage: Stage, content: &dyn Fn() -> String| {
        if arguments.dump.contains(&stage) {
            let _ = writeln!(std::io::stdout(), "{}", content());
        }
    };
    ebb_p4c::compile_with(&name, &text, &options, sources, diagnostics, &mut dump)
}

/// Or why there is none, and what to do.
fn read(arguments: &Arguments, name: &str) -> Result<String, (String, Option<String>)> {
    let bytes = std::fs::read(&arguments.input)
        .map_err(|error| (format!("cannot read `{name}`: {error}"), None))?;
    let found = preprocess::text(name.to_owned(), bytes);
    let found = found.map_err(|missing| (missing.problem, Some(missing.help)))?;
    Ok(found.text)
}

fn write_outputs(arguments: &Arguments, compiled: &Compiled) -> Result<(), String> {
    for file in &arguments.p4runtime_files {
        let text = match arguments.info_format(file)? {
            InfoFormat::Text => p4info::to_text(&compiled.p4info),
            InfoFormat::Json => format!("{:#}\n", compiled.p4info.to_json()),
        };
        write(file, &text)?;
    }
    match &arguments.output {
        Some(file) => write(file, &(compiled.json.to_json() + "\n")),
        None => Ok(()),
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text)
        .map_err(|error| format!("cannot write `{}`: {error}", file.display()))
}
