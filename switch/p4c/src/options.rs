//! The command line, with p4c-bm2-ss's spellings, so that one can stand for the other.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Compiles P4_16 programs for the v1model architecture to BMv2 JSON and P4Info.
#[derive(Debug, Parser)]
#[command(name = "ebb-p4c", version)]
pub struct Arguments {
    /// The program to compile.
    #[arg(value_name = "FILE.p4")]
    pub input: PathBuf,

    /// Where to write the BMv2 JSON.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Folder to search for included files; may be repeated.
    #[arg(short = 'I', value_name = "DIR")]
    pub include_dirs: Vec<PathBuf>,

    /// Defines a preprocessor macro; may be repeated.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub defines: Vec<String>,

    /// Where to write P4Info: text for .txtpb, .txt and .pb.txt, JSON for .json; several with commas.
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub p4runtime_files: Vec<PathBuf>,

    /// One format for all P4Info files, instead of by extension.
    #[arg(long, value_name = "FORMAT")]
    pub p4runtime_format: Option<InfoFormat>,

    /// Prints what a stage of the compiler produced; may be repeated.
    #[arg(long, value_name = "STAGE")]
    pub dump: Vec<Stage>,

    /// Accepted for compatibility: the only target is bmv2.
    #[arg(short = 'b', long, default_value = "bmv2", value_parser = ["bmv2"])]
    pub target: String,

    /// Accepted for compatibility: the only architecture is v1model.
    #[arg(short = 'a', long, default_value = "v1model", value_parser = ["v1model"])]
    pub arch: String,

    /// Accepted for compatibility: the only language is P4_16.
    #[arg(long, default_value = "p4-16", value_parser = ["p4-16", "p4_16"])]
    pub std: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InfoFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

impl Arguments {
    pub fn defines(&self) -> Vec<(String, String)> {
        self.defines
            .iter()
            .map(|d| match d.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (d.clone(), "1".to_owned()),
            })
            .collect()
    }

    /// The format of one P4Info file; an error names the extensions that are known.
    pub fn info_format(&self, file: &std::path::Path) -> Result<InfoFormat, String> {
        if let Some(format) = self.p4runtime_format {
            return Ok(format);
        }
        match file.extension().and_then(|e| e.to_str()) {
            Some("txtpb" | "txt" | "textproto" | "prototxt") => Ok(InfoFormat::Text),
            Some("json") => Ok(InfoFormat::Json),
            _ => Err(format!(
                "the format of P4Info file `{}` is not known by its name; \
                 use .txtpb, .txt or .json, or --p4runtime-format text|json",
                file.display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4c_command_lines_are_understood() {
        let line = "ebb-p4c --target bmv2 --arch v1model --std p4-16 -DA -DB=2 -I x --p4runtime-files a.txtpb,b.json -o o.json f.p4";
        let arguments = Arguments::try_parse_from(line.split(' '));
        let arguments = arguments.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(arguments.defines()[1], ("B".into(), "2".into()));
        let formats: Vec<_> = arguments
            .p4runtime_files
            .iter()
            .map(|f| arguments.info_format(f))
            .collect();
        assert_eq!(formats, [Ok(InfoFormat::Text), Ok(InfoFormat::Json)]);
        assert!(Arguments::try_parse_from(["ebb-p4c", "--target", "tofino", "f.p4"]).is_err());
    }
}
