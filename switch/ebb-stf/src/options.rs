//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::program::Compiler;
use crate::run::Mode;

/// Runs packet tests in p4c's STF format on the switch, in this process, under a virtual clock.
///
/// A folder: every .p4 (or .json) in it and below that has an .stf beside it. A program and an .stf
/// file: that test. An .stf file, or a program: with the other one of the same name.
#[derive(Clone, Debug, Parser)]
#[command(name = "ebb-stf", version = ebb_version::text())]
pub struct Arguments {
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// A line for every test, and all that is known of failures, with what the switch did to their packets;
    /// otherwise the first line of each. A single test that fails is always printed in full.
    #[arg(short, long)]
    pub verbose: bool,

    /// Compile with this command instead: p4c-bm2-ss, or one that takes the same options.
    #[arg(long, value_name = "COMMAND")]
    pub json_from: Option<PathBuf>,

    /// Folder to search for included files; may be repeated.
    #[arg(short = 'I', value_name = "DIR")]
    pub include_dirs: Vec<PathBuf>,

    /// Defines a preprocessor macro; may be repeated.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub defines: Vec<String>,

    /// Tests at the same time [default: one per core].
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<usize>,

    /// A test that takes longer is ended, and counts as a hang.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,

    /// Run programs in the interpreter instead of as native code.
    #[arg(long)]
    pub interpreted: bool,

    /// Compares nothing, but prints the frames that leave: for each a line with the number of the `packet` that it
    /// is of (from 1), the port and the bytes, and a line `refused`, with line and reason, for each command that the
    /// switch refuses. One test only.
    #[arg(long, conflicts_with = "verbose")]
    pub print_frames: bool,

    /// One test in this process; writes the verdict as JSON. For the processes that it starts itself.
    #[arg(long, hide = true)]
    pub worker: bool,
}

impl Arguments {
    pub fn mode(&self) -> Mode {
        Mode {
            interpreted: self.interpreted,
        }
    }

    pub fn compiler(&self) -> Compiler {
        let define = |text: &String| match text.split_once('=') {
            Some((name, value)) => (name.into(), value.into()),
            None => (text.clone(), "1".into()),
        };
        Compiler {
            command: self.json_from.clone(),
            include_dirs: self.include_dirs.clone(),
            defines: self.defines.iter().map(define).collect(),
        }
    }
}
