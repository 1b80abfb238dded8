//! Result of a test.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Pass,
    /// Other packets or counts than expected.
    Mismatch,
    /// The program is for an architecture that the switch does not run.
    OtherArchitecture,
    /// The compiler refused the program.
    CompileError,
    /// The switch refused what the compiler wrote.
    LoadError,
    /// The STF file cannot be read, or the switch refused one of its commands.
    BadTest,
    /// The process that ran the test ended by a panic or a signal.
    Crash,
    /// It did not end in time.
    Hang,
}

impl Outcome {
    pub const FAILURES: [Outcome; 6] = [
        Outcome::Mismatch,
        Outcome::CompileError,
        Outcome::LoadError,
        Outcome::BadTest,
        Outcome::Crash,
        Outcome::Hang,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Mismatch => "mismatch",
            Outcome::OtherArchitecture => "other architecture",
            Outcome::CompileError => "compile error",
            Outcome::LoadError => "load error",
            Outcome::BadTest => "bad test",
            Outcome::Crash => "crash",
            Outcome::Hang => "hang",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// Reasons as lines of text, the most informative one first.
    pub details: Vec<String>,
    /// Traces of the packets that a mismatch is about.
    pub traces: Vec<String>,
    /// Output of the test's commands (`register_read` and the like).
    pub output: Vec<String>,
}

impl Verdict {
    pub fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Verdict {
            outcome,
            details: vec![detail.into()],
            traces: Vec::new(),
            output: Vec::new(),
        }
    }
}
