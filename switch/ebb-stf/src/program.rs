//! From a P4 program to BMv2 JSON: by our compiler, or by another one.

use std::path::{Path, PathBuf};
use std::process::Command;

use ebb_bmv2_json::Program;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::{self, preprocess};
use ebb_p4c::source::SourceMap;

use crate::verdict::{Outcome, Verdict};

/// Files that a program includes if it is for an architecture that the switch runs.
const ARCHITECTURES: [&str; 4] = ["v1model.p4", "tna.p4", "t2na.p4", "psa.p4"];

#[derive(Clone, Debug, Default)]
pub struct Compiler {
    /// The compiler to run, which takes the options of p4c-bm2-ss; none: ours, in this process.
    pub command: Option<PathBuf>,
    pub include_dirs: Vec<PathBuf>,
    pub defines: Vec<(String, String)>,
}

impl Compiler {
    /// The program, or why there is none. BMv2 JSON is taken as it is.
    pub fn program(&self, path: &Path) -> Result<Program, Verdict> {
        if path.extension().is_some_and(|e| e == "json") {
            let json = read(path)?;
            return parse_json(&json);
        }
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        self.check_architecture(path, &text)?;
        match &self.command {
            None => self.compile(path, &text),
            Some(command) => self.compile_with(command, path),
        }
    }

    fn options(&self) -> preprocess::Options {
        preprocess::Options {
            include_dirs: self.include_dirs.clone(),
            defines: self.defines.clone(),
            ..preprocess::Options::default()
        }
    }

    fn check_architecture(&self, path: &Path, text: &str) -> Result<(), Verdict> {
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let file = sources.add(path.display().to_string(), text);
        preprocess(file, &mut sources, &self.options(), &diagnostics);
        let includes = |name: &str| {
            let name = name.trim_matches(['<', '>']);
            ARCHITECTURES.iter().any(|file| name.ends_with(file))
        };
        let found = diagnostics.list();
        let other = found.iter().any(|d| d.code == "other-architecture");
        // A program whose other includes cannot be found is the compiler's business.
        if !other && (diagnostics.has_errors() || sources.names().any(includes)) {
            return Ok(());
        }
        Err(Verdict::new(
            Outcome::OtherArchitecture,
            format!("the program includes none of {}", ARCHITECTURES.join(", ")),
        ))
    }

    fn compile(&self, path: &Path, text: &str) -> Result<Program, Verdict> {
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let name = path.display().to_string();
        let compiled = ebb_p4c::compile(&name, text, &self.options(), &mut sources, &diagnostics);
        match compiled {
            Some(compiled) => Ok(compiled.json),
            None => {
                let first = diagnostics.list().into_iter().find(|d| d.is_error());
                let first = first.map_or_else(String::new, |d| match d.span {
                    Some(span) => {
                        let (file, line, column) = sources.position(span);
                        format!("{file}:{line}:{column}: {}", d.message)
                    }
                    None => d.message,
                });
                let mut verdict = Verdict::new(Outcome::CompileError, first);
                verdict.details.push(diagnostics.render(&sources, false));
                Err(verdict)
            }
        }
    }

    fn compile_with(&self, command: &Path, path: &Path) -> Result<Program, Verdict> {
        let mut run = Command::new(command);
        for dir in &self.include_dirs {
            run.arg("-I").arg(dir);
        }
        for (name, value) in &self.defines {
            run.arg(format!("-D{name}={value}"));
        }
        let output = run.arg("-o").arg("/dev/stdout").arg(path).output();
        let output = output.map_err(|error| {
            let problem = format!("cannot run {}: {error}", command.display());
            Verdict::new(Outcome::BadTest, problem)
        })?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = errors.lines().find(|line| line.contains("error"));
            let mut verdict = Verdict::new(Outcome::CompileError, first.unwrap_or_default());
            verdict.details.push(errors);
            return Err(verdict);
        }
        parse_json(&output.stdout)
    }
}

fn parse_json(json: &[u8]) -> Result<Program, Verdict> {
    Program::from_json(json).map_err(|error| Verdict::new(Outcome::LoadError, error.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, Verdict> {
    ebb_files::read(path).map_err(|error| {
        let problem = format!("cannot read {}: {error}", path.display());
        Verdict::new(Outcome::BadTest, problem)
    })
}
