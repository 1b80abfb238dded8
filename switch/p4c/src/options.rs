//! The command line, with the spellings of p4c-bm2-ss and of the driver p4c, so that one can stand for the other.
//!
//! Reads a command line by [`table`], which has the names, values and effects of all options.

use std::path::{Path, PathBuf};

use crate::architecture::Architecture;
use crate::diagnostics::{Action, Format, Policy, nearest};
use crate::preprocess;

mod table;

pub use table::{Effect, OPTIONS, OptionSpec, Takes, help};

/// Under which name the compiler was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// As p4c-bm2-ss: `-o` is the JSON file.
    #[default]
    Compiler,
    /// As the driver `p4c`: `-o` is a folder, and the program after the preprocessor is left beside the JSON.
    Driver,
}

impl Program {
    /// The program that the name in `argv[0]` asks for.
    pub fn named(path: &str) -> Program {
        match Path::new(path).file_name().and_then(|name| name.to_str()) {
            Some("p4c") => Program::Driver,
            _ => Program::Compiler,
        }
    }
}

/// The format of a P4Info or entries file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoFormat {
    /// Protobuf text format (`.txtpb`).
    Text,
    /// Protobuf JSON.
    Json,
    /// Protobuf wire format.
    Binary,
}

/// Representation of the program that `--dump` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// After the preprocessor.
    Tokens,
    /// The syntax tree.
    Ast,
    /// After name resolution and type checking.
    Ir,
    /// After instantiation and inlining.
    Flat,
}

impl Stage {
    /// All stages with their names on the command line.
    pub const ALL: [(&str, Stage); 4] = [
        ("tokens", Stage::Tokens),
        ("ast", Stage::Ast),
        ("ir", Stage::Ir),
        ("flat", Stage::Flat),
    ];
}

/// `make` rules, as the C preprocessor writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// `-M`: to stdout, and nothing is compiled.
    pub only: bool,
    /// `-MD`: beside the compilation.
    pub beside: bool,
    /// `-MF`
    pub file: Option<PathBuf>,
    /// `-MT`, `-MQ`
    pub targets: Vec<String>,
    /// `-MP`: a rule without prerequisites for each included file.
    pub phony: bool,
}

/// Command line of a compilation.
#[derive(Debug, Default)]
pub struct Arguments {
    /// Name under which it was called, which decides about outputs.
    pub program: Program,
    /// The file of the program; `-` is standard input.
    pub input: PathBuf,
    /// `-o`: the JSON file, or for the driver the folder of all outputs.
    pub output: Option<PathBuf>,
    /// `--arch`. None: that of the included file.
    pub architecture: Option<Architecture>,
    /// `-I`, `-D`, `-U`, `--disable-annotations`.
    pub preprocess: preprocess::Options,
    /// `--p4runtime-files`: P4Info files, whose names decide about their format.
    pub p4runtime_files: Vec<PathBuf>,
    /// The file of BF Runtime's schema. None: it is not written.
    pub bf_rt_schema: Option<PathBuf>,
    /// `--p4runtime-file`, whose format does not depend on its name but is [`Self::p4runtime_format`].
    pub p4runtime_file: Option<PathBuf>,
    /// `--p4runtime-format`. None: binary.
    pub p4runtime_format: Option<InfoFormat>,
    /// `--p4runtime-entries-files`: entries of the program as Write requests.
    pub entries_files: Vec<PathBuf>,
    /// `--p4runtime-entries-file`
    pub entries_file: Option<PathBuf>,
    /// `-E`.
    pub preprocess_only: bool,
    /// `-M` and its kin.
    pub dependencies: Dependencies,
    /// `--pp`
    pub pretty_print: Option<PathBuf>,
    /// `--dump`.
    pub dump: Vec<Stage>,
    /// `--Wdisable`, `--Werror`, `--maxErrorCount` and their kin.
    pub policy: Policy,
    /// `--error-format`.
    pub error_format: Format,
    /// Options that were given and change nothing, with the reason.
    pub without_effect: Vec<(String, &'static str)>,
}

/// Action that a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Compiles a program.
    Compile(Box<Arguments>),
    /// Prints a text to stdout, and does nothing else.
    Print(String),
}

/// Reads a command line, whose first word is the name of the program. The error is a sentence.
pub fn parse(words: &[String]) -> Result<Request, String> {
    let (name, words) = match words.split_first() {
        Some((name, words)) => (name.as_str(), words),
        None => ("ebb-p4c", words),
    };
    let mut arguments = Arguments {
        program: Program::named(name),
        ..Arguments::default()
    };
    let mut inputs = Vec::new();
    if let Some(text) = read(&mut arguments, &mut inputs, words)? {
        return Ok(Request::Print(text));
    }
    match &inputs[..] {
        [] => Err("no program to compile; give the name of a P4 file, or see --help".into()),
        [input] => {
            arguments.input = PathBuf::from(input);
            Ok(Request::Compile(Box::new(arguments)))
        }
        [first, second, ..] => Err(format!(
            "one program at a time, but `{first}` and `{second}` are given"
        )),
    }
}

/// Reads words into the arguments and inputs. If an option asks for it, returns a text to print instead of compiling.
fn read(
    arguments: &mut Arguments,
    inputs: &mut Vec<String>,
    words: &[String],
) -> Result<Option<String>, String> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            inputs.push(word.clone());
            continue;
        }
        let (spec, attached) = find(word)?;
        let value = match (spec.takes, attached) {
            (Takes::Nothing, None) => None,
            (Takes::Nothing, Some(_)) if word.starts_with("-vv") => None,
            (Takes::Nothing, Some(_)) => {
                return Err(format!("the option {} takes no value", spec.names[0]));
            }
            (Takes::Value(_) | Takes::Maybe(_), Some(value)) => Some(value),
            (Takes::Value(what), None) => match rest.next() {
                Some(value) => Some(value.clone()),
                None => return Err(format!("the option {word} needs a value: {what}")),
            },
            (Takes::Maybe(_), None) => None,
        };
        match spec.effect {
            Effect::Nothing(why) => arguments.without_effect.push((word.clone(), why)),
            Effect::Refused(why) => return Err(format!("the option {word}: {why}")),
            Effect::Print(text) => return Ok(Some(text())),
            Effect::Does(apply) => {
                let value = value.unwrap_or_default();
                apply(arguments, &value).map_err(|why| format!("the option {word}: {why}"))?;
            }
            // The words of `-Xp4c "--ndebug --pp x"` are options of the compiler itself.
            Effect::Forwards => {
                let value = value.unwrap_or_default();
                let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                let text = read(arguments, inputs, &words)?;
                if text.is_some() {
                    return Ok(text);
                }
            }
        }
    }
    Ok(None)
}

/// The option that a word names, and the value if it is part of the word: `--std=p4-16`, `-Ifolder`.
fn find(word: &str) -> Result<(&'static OptionSpec, Option<String>), String> {
    let exact = |name: &str| OPTIONS.iter().find(|spec| spec.names.contains(&name));
    if let Some(spec) = exact(word) {
        return Ok((spec, None));
    }
    // A word and its value, or one letter and its value.
    let long = word.split_once('=').filter(|(name, _)| name.len() > 2);
    let short = word.char_indices().nth(2).map(|(at, _)| word.split_at(at));
    let short = short.filter(|_| !word.starts_with("--"));
    let known = |(name, value)| Some((exact(name)?, value));
    // `-vvv` is three times `-v`; other letters that take no value stand alone.
    let has_value =
        |(spec, _): &(&OptionSpec, _)| spec.takes != Takes::Nothing || word.starts_with("-vv");
    let short = || short.and_then(known).filter(has_value);
    let found = long.and_then(known).or_else(short);
    match found {
        Some((spec, value)) => Ok((spec, Some(value.to_owned()))),
        None => Err(unknown(word)),
    }
}

/// Error for a word that names no option.
fn unknown(word: &str) -> String {
    let bare = |name: &'static str| (name, name.trim_start_matches('-'));
    let names = OPTIONS.iter().flat_map(|spec| spec.names);
    let known: Vec<_> = names.map(|name| bare(name)).collect();
    let written = word.split_once('=').map_or(word, |(name, _)| name);
    let written = written.trim_start_matches('-');
    // The dashes alone may be wrong.
    let is_right = known.iter().any(|(_, bare)| *bare == written);
    let meant = match is_right {
        true => Some(written),
        false => nearest(written, known.iter().map(|(_, bare)| *bare)),
    };
    match known.iter().find(|(_, bare)| Some(*bare) == meant) {
        Some((name, _)) => format!("unknown option {word}; did you mean {name}?"),
        None => format!("unknown option {word}; see --help"),
    }
}

impl Arguments {
    /// The format of a file of `--p4runtime-files`; an error names the extensions that are known.
    fn format_by_name(&self, file: &Path) -> Result<InfoFormat, String> {
        match file.extension().and_then(|e| e.to_str()) {
            Some("txtpb" | "txt" | "textproto" | "prototxt") => Ok(InfoFormat::Text),
            Some("json") => Ok(InfoFormat::Json),
            Some("bin") => Ok(InfoFormat::Binary),
            _ => self.p4runtime_format.ok_or_else(|| {
                format!(
                    "the format of `{}` is not known by its name; \
                     use .txtpb, .txt, .json or .bin, or --p4runtime-format text|json|binary",
                    file.display()
                )
            }),
        }
    }

    /// Where P4Info goes, and how.
    pub fn info_outputs(&self) -> Result<Vec<(&Path, InfoFormat)>, String> {
        self.outputs(&self.p4runtime_files, self.p4runtime_file.as_deref())
    }

    /// Where the entries that the program has go, and how.
    pub fn entries_outputs(&self) -> Result<Vec<(&Path, InfoFormat)>, String> {
        self.outputs(&self.entries_files, self.entries_file.as_deref())
    }

    fn outputs<'a>(
        &self,
        by_name: &'a [PathBuf],
        by_format: Option<&'a Path>,
    ) -> Result<Vec<(&'a Path, InfoFormat)>, String> {
        let format = self.p4runtime_format.unwrap_or(InfoFormat::Binary);
        let mut files: Vec<_> = by_format.map(|file| (file, format)).into_iter().collect();
        for file in by_name {
            files.push((file.as_path(), self.format_by_name(file)?));
        }
        Ok(files)
    }

    /// The JSON file, if one is asked for. The driver names it after the program.
    pub fn json_output(&self) -> Option<PathBuf> {
        match self.program {
            Program::Compiler => self.output.clone(),
            Program::Driver => Some(self.beside("json")),
        }
    }

    /// The program after the preprocessor, which the driver leaves beside the JSON.
    pub fn preprocessed_output(&self) -> Option<PathBuf> {
        (self.program == Program::Driver).then(|| self.beside("p4i"))
    }

    fn beside(&self, extension: &str) -> PathBuf {
        let folder = self.output.clone().unwrap_or_default();
        let name = self.input.file_stem().unwrap_or(self.input.as_os_str());
        let mut name = name.to_owned();
        name.push(".");
        name.push(extension);
        folder.join(name)
    }

    /// One line about all options that were given and change nothing.
    pub fn note(&self) -> Option<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (option, why) in &self.without_effect {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, options)) => options.push(option),
                None => reasons.push((why, vec![option])),
            }
        }
        let parts = reasons
            .iter()
            .map(|(why, options)| format!("{} ({why})", options.join(", ")));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("ebb-p4c: without effect: {}", parts.join("; ")))
    }

    /// `NAME`, `NAME=VALUE`, or with parameters `NAME(A, B)=VALUE`.
    fn define(&mut self, text: &str) {
        let (name, value) = text.split_once('=').unwrap_or((text, "1"));
        let macro_name = without_parameters(name);
        self.preprocess
            .undefines
            .retain(|known| known != macro_name);
        let define = (name.to_owned(), value.to_owned());
        self.preprocess.defines.push(define);
    }

    /// Takes back what was defined before it, on the command line or by the compiler.
    fn undefine(&mut self, name: &str) {
        let defines = &mut self.preprocess.defines;
        defines.retain(|(known, _)| without_parameters(known) != name);
        self.preprocess.undefines.push(name.to_owned());
    }

    /// `--Werror[=name]` and its kin. Nothing is said about names of warnings that are never given.
    fn diagnose(&mut self, name: &str, action: Action) {
        match name {
            "" => self.policy.all = Some(action),
            name => self.policy.named.push((name.to_owned(), action)),
        }
    }
}

/// The name of a macro of the command line.
fn without_parameters(name: &str) -> &str {
    name.split('(').next().unwrap_or(name).trim_end()
}

#[cfg(test)]
mod tests;
