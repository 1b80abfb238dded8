//! Every option of p4c-bm2-ss and of the driver p4c: what it takes and what becomes of it here.

use std::path::PathBuf;

use super::{Arguments, InfoFormat, Stage};
use crate::architecture::Architecture;
use crate::diagnostics::{Action, Format};

/// Whether an option takes a value, and how the help calls that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A flag.
    Nothing,
    /// A value, in the same word or the next one.
    Value(&'static str),
    /// A value in the same word, or none.
    Maybe(&'static str),
}

type Apply = fn(&mut Arguments, &str) -> Result<(), String>;

/// Effect of an option.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Sets a field of the arguments.
    Does(Apply),
    /// Accepted, since build scripts have it; one line gives the reason why it changes nothing.
    Nothing(&'static str),
    /// Ignoring it would give a wrong result.
    Refused(&'static str),
    /// Prints something and ends.
    Print(fn() -> String),
    /// Its value is read as further options.
    Forwards,
}

/// An option of the command line.
#[derive(Debug)]
pub struct OptionSpec {
    /// All spellings of the option; the help shows the first one.
    pub names: &'static [&'static str],
    /// Whether it has a value.
    pub takes: Takes,
    /// Its effect here.
    pub effect: Effect,
    /// Its line in the help.
    pub about: &'static str,
}

use Effect::{Does, Forwards, Nothing, Print, Refused};
use Takes::{Maybe, Value};

const NO: Takes = Takes::Nothing;
const LOG: &str = "no log of the compiler's own work";
const PASSES: &str = "the passes of p4c do not exist here; see --dump STAGE";
const ONE_OUTPUT: &str = "there is one kind of output";

const fn option(
    names: &'static [&'static str],
    takes: Takes,
    effect: Effect,
    about: &'static str,
) -> OptionSpec {
    OptionSpec {
        names,
        takes,
        effect,
        about,
    }
}

/// All options, in the order of the help.
#[rustfmt::skip]
pub const OPTIONS: &[OptionSpec] = &[
    option(&["-o", "--output"], Value("FILE"), Does(output), "the BMv2 JSON; with the name p4c: the folder of NAME.json"),
    option(&["-I"], Value("DIR"), Does(include), "a folder of included files"),
    option(&["-D"], Value("NAME[=VALUE]"), Does(define), "defines a macro"),
    option(&["-U"], Value("NAME"), Does(undefine), "takes a macro back"),
    option(&["-E"], NO, Does(|a, _| { a.preprocess_only = true; Ok(()) }), "only the preprocessor, to stdout; with the name p4c to NAME.p4i"),
    option(&["--p4runtime-files"], Value("FILES"), Does(info_files), "P4Info, several with commas: .txtpb, .txt, .json, .bin"),
    option(&["--p4runtime-file"], Value("FILE"), Does(info_file), "P4Info in the format of --p4runtime-format"),
    option(&["--p4runtime-format"], Value("binary|json|text"), Does(info_format), "the default is binary"),
    option(&["--p4runtime-entries-files"], Value("FILES"), Does(entries_files), "the program's entries as a P4Runtime WriteRequest, formats as above"),
    option(&["--p4runtime-entries-file"], Value("FILE"), Does(entries_file), "likewise, in the format of --p4runtime-format"),
    option(&["--bf-rt-schema"], Value("FILE"), Does(bf_rt_schema), "the schema of BF Runtime, bf-rt.json"),
    option(&["--pp"], Value("FILE"), Does(pretty_print), "writes the program as the parser has read it"),
    option(&["-M"], NO, Does(|a, _| { a.dependencies.only = true; Ok(()) }), "only a make rule of the files that are read, to stdout"),
    option(&["-MD"], NO, Does(|a, _| { a.dependencies.beside = true; Ok(()) }), "a make rule beside the outputs, in NAME.d"),
    option(&["-MF"], Value("FILE"), Does(|a, v| { a.dependencies.file = Some(PathBuf::from(v)); Ok(()) }), "where the make rule goes"),
    option(&["-MT"], Value("TARGET"), Does(|a, v| { a.dependencies.targets.push(v.to_owned()); Ok(()) }), "the target of the make rule"),
    option(&["-MQ"], Value("TARGET"), Does(|a, v| { a.dependencies.targets.push(v.replace('$', "$$")); Ok(()) }), "likewise, quoted for make"),
    option(&["-MP"], NO, Does(|a, _| { a.dependencies.phony = true; Ok(()) }), "a rule without prerequisites for each included file"),
    option(&["-MG"], NO, Nothing("a missing file stays an error"), "missing files are no error"),
    option(&["-W"], Value("WARNING"), Nothing("a warning of the C preprocessor"), "warnings of the preprocessor"),
    option(&["--nocpp", "-e"], NO, Nothing("a program without directives goes through the preprocessor unchanged"), "no preprocessor"),
    option(&["--std", "-x"], Value("p4-16"), Does(language), "the language"),
    option(&["--p4v"], Value("16"), Does(language), "the language"),
    option(&["--target", "-b"], Value("bmv2|tofino|tofino2"), Does(target), "the target; programs for Tofino get JSON for ebb-switch"),
    option(&["--arch", "-a"], Value("v1model|tna|t2na|psa"), Does(architecture), "the architecture; by default that of the included file"),
    option(&["--Wdisable"], Maybe("NAME"), Does(|a, v| { a.diagnose(v, Action::Ignore); Ok(()) }), "leaves a warning out, or all"),
    option(&["--Winfo"], Maybe("NAME"), Does(|a, v| { if !v.is_empty() { a.diagnose(v, Action::Info); } Ok(()) }), "shows a warning as a remark"),
    option(&["--Wwarn"], Maybe("NAME"), Does(|a, v| { if !v.is_empty() { a.diagnose(v, Action::Warn); } Ok(()) }), "shows a warning as one"),
    option(&["--Werror"], Maybe("NAME"), Does(|a, v| { a.diagnose(v, Action::Error); Ok(()) }), "makes a warning an error, or all"),
    option(&["--error-format"], Value("long|short|json"), Does(error_format), "how messages are written: with lines of the program, a line each as gcc, or a JSON object a line"),
    option(&["--maxErrorCount"], Value("N"), Does(max_errors), "how many errors are shown; by default 50"),
    option(&["--disable-annotations", "--disable-annotation", "--disable-pragmas", "--disable-pragma"], Maybe("NAMES"), Does(annotations), "annotations that are ignored, with a warning"),
    option(&["--dump"], Value("STAGE"), Does(dump), "prints what a stage made: tokens, ast, ir, flat; another value is p4c's folder, which stays empty"),
    option(&["-O"], Maybe("LEVEL"), Nothing(ONE_OUTPUT), "optimisation level"),
    option(&["-g"], NO, Nothing(ONE_OUTPUT), "debug information"),
    option(&["--ndebug"], NO, Nothing(ONE_OUTPUT), "without debug information"),
    option(&["--emit-externs"], NO, Nothing("v1model's externs are always written"), "writes externs of the user"),
    option(&["--loopsUnroll"], NO, Nothing("loops of the parser stay loops"), "unrolls the parser's loops"),
    option(&["--parser-inline-opt"], NO, Nothing(ONE_OUTPUT), "inlines parsers once"),
    option(&["-v", "--debug"], NO, Nothing(LOG), "verbose"),
    option(&["-T"], Value("LEVELS"), Nothing(LOG), "log levels"),
    option(&["--top4"], Value("PASSES"), Nothing(PASSES), "writes the program after passes of p4c"),
    option(&["--excludeFrontendPasses"], Value("PASSES"), Nothing(PASSES), "leaves passes out"),
    option(&["--excludeMidendPasses"], Value("PASSES"), Nothing(PASSES), "leaves passes out"),
    option(&["--toJSON", "--toJson"], Value("FILE"), Nothing("p4c's inner representation does not exist here, no file is written"), "p4c's inner representation"),
    option(&["--testJson"], NO, Nothing(PASSES), "a self-test of p4c"),
    option(&["--doNotEmitIncludes"], NO, Nothing(PASSES), "form of --top4"),
    option(&["--metrics"], Value("NAMES"), Nothing("no metrics are collected"), "code metrics"),
    option(&["--fromJSON", "--fromJson"], Value("FILE"), Refused("p4c's inner representation cannot be read; give the P4 program"), "p4c's inner representation as input"),
    option(&["-c", "--compile"], NO, Nothing("that is all there is to do"), "preprocess, compile, assemble"),
    option(&["-S"], NO, Nothing("that is all there is to do"), "preprocess and compile"),
    option(&["-Xpreprocessor"], Value("OPTIONS"), Forwards, "further options"),
    option(&["-Xp4c"], Value("OPTIONS"), Forwards, "further options"),
    option(&["-Xassembler", "-Xlinker"], Value("OPTIONS"), Nothing("there is no such step"), "options of later steps"),
    option(&["-###", "--test-only"], NO, Refused("there are no commands to show; the compiler is one program"), "shows commands"),
    option(&["--gdb", "--cgdb", "--lldb"], NO, Refused("start the debugger with this program"), "runs a debugger"),
    option(&["--listFrontendPasses"], NO, Print(passes), "the stages of the compiler"),
    option(&["--help-targets", "--target-help", "--targets-help"], NO, Print(targets), "targets"),
    option(&["--help-pragmas", "--pragma-help", "--pragmas-help", "--help-annotations", "--annotation-help", "--annotations-help"], NO, Print(pragmas), "where the annotations are described"),
    option(&["--version", "-V"], NO, Print(version), "the version"),
    option(&["--help", "-h"], NO, Print(help), "this text"),
];

fn output(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.output = Some(PathBuf::from(value));
    Ok(())
}

fn include(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.preprocess.include_dirs.push(PathBuf::from(value));
    Ok(())
}

fn define(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.define(value);
    Ok(())
}

fn undefine(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.undefine(value);
    Ok(())
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').filter(|part| !part.is_empty())
}

fn info_files(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments
        .p4runtime_files
        .extend(list(value).map(PathBuf::from));
    Ok(())
}

fn info_file(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.p4runtime_file = Some(PathBuf::from(value));
    Ok(())
}

fn entries_files(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments
        .entries_files
        .extend(list(value).map(PathBuf::from));
    Ok(())
}

fn entries_file(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.entries_file = Some(PathBuf::from(value));
    Ok(())
}

fn bf_rt_schema(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.bf_rt_schema = Some(PathBuf::from(value));
    Ok(())
}

fn info_format(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.p4runtime_format = Some(match value {
        "binary" => InfoFormat::Binary,
        "json" => InfoFormat::Json,
        "text" => InfoFormat::Text,
        _ => return Err(format!("`{value}` is none of binary, json, text")),
    });
    Ok(())
}

fn pretty_print(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    arguments.pretty_print = Some(PathBuf::from(value));
    Ok(())
}

fn language(_: &mut Arguments, value: &str) -> Result<(), String> {
    match value {
        "16" | "1.2" | "p4-16" | "p4_16" | "P4₁₆" => Ok(()),
        _ => Err(format!(
            "`{value}` is not known, the only language is p4-16"
        )),
    }
}

/// p4c-bm2-ss takes any name; scripts have `bmv2`, `bmv2-v1model` and `bmv2-ss-p4org`.
fn target(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    match value {
        "tofino" => generation(arguments, "1"),
        "tofino2" => generation(arguments, "2"),
        "simple_switch" => {}
        _ if value.starts_with("bmv2") => {}
        _ => {
            return Err(format!(
                "`{value}` is not known, the targets are bmv2, tofino and tofino2"
            ));
        }
    }
    Ok(())
}

fn architecture(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    let known = match value {
        "v1model" => Architecture::V1model,
        "tna" => Architecture::Tna,
        "t2na" => Architecture::T2na,
        "psa" => Architecture::Psa,
        _ => {
            return Err(format!(
                "`{value}` is not known, the architectures are v1model, tna, t2na and psa"
            ));
        }
    };
    match known {
        Architecture::V1model | Architecture::Psa => {}
        Architecture::Tna => generation(arguments, "1"),
        Architecture::T2na => generation(arguments, "2"),
    }
    arguments.architecture = Some(known);
    Ok(())
}

/// Programs choose between tna.p4 and t2na.p4 by this macro of p4c's.
fn generation(arguments: &mut Arguments, number: &str) {
    arguments.undefine("__TARGET_BMV2__");
    arguments.define(&format!("__TARGET_TOFINO__={number}"));
}

fn error_format(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    match Format::ALL.iter().find(|(name, _)| *name == value) {
        Some((_, format)) => {
            arguments.error_format = *format;
            Ok(())
        }
        None => Err(format!("`{value}` is none of long, short, json")),
    }
}

fn max_errors(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    let number = value.parse().ok().filter(|n| *n > 0);
    let number = number.ok_or_else(|| format!("`{value}` is not a number from 1 on"))?;
    arguments.policy.max_errors = Some(number);
    Ok(())
}

fn annotations(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("names of annotations are needed: --disable-annotations=a,b".into());
    }
    let names = list(value).map(str::to_owned);
    arguments.preprocess.disabled_annotations.extend(names);
    Ok(())
}

fn dump(arguments: &mut Arguments, value: &str) -> Result<(), String> {
    match Stage::ALL.iter().find(|(name, _)| *name == value) {
        Some((_, stage)) => arguments.dump.push(*stage),
        None => arguments
            .without_effect
            .push((format!("--dump {value}"), PASSES)),
    }
    Ok(())
}

fn passes() -> String {
    "preprocess\nparse\ncheck\nelaborate\nbmv2\np4info\n".into()
}

fn targets() -> String {
    "Supported targets in \"target, arch\" tuple:\nbmv2-v1model\ntofino-tna\ntofino2-t2na\n".into()
}

fn pragmas() -> String {
    "The annotations that are known are those of the P4_16 and P4Runtime specifications and of BMv2; \
     see docs/p4c.md.\n"
        .into()
}

fn version() -> String {
    format!("ebb-p4c {}\n", ebb_version::text())
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Compiles P4_16 programs for v1model, PSA, TNA and T2NA to BMv2 JSON and P4Info.\n\n\
         Usage: ebb-p4c [OPTIONS] FILE.p4      (FILE.p4 may be - for standard input)\n\
         \x20      p4c [OPTIONS] FILE.p4          (another name of the same program: -o is a folder)\n\n\
         Options:\n",
    );
    for spec in OPTIONS {
        let value = match spec.takes {
            Takes::Nothing => String::new(),
            Value(what) => format!(" {what}"),
            Maybe(what) if spec.names[0].starts_with("--") => format!("[={what}]"),
            Maybe(what) => format!("[{what}]"),
        };
        let head = format!("  {}{value}", spec.names.join(", "));
        let effect = match spec.effect {
            Nothing(why) => format!(" (no effect: {why})"),
            Refused(why) => format!(" (refused: {why})"),
            _ => String::new(),
        };
        // A text that is longer than its column stands on a line of its own.
        if head.len() > 36 {
            text.push_str(&format!("{head}\n{:38}{}{effect}\n", "", spec.about));
        } else {
            text.push_str(&format!("{head:38}{}{effect}\n", spec.about));
        }
    }
    text
}
