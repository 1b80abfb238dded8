//! Tests of a file with `harness = false`, some of which need what not every machine has. Rust's own
//! harness can only ignore what was known when it was compiled, so that such a test would have to
//! return early and be told as passed. Here it is told as ignored, with what is missing.
//!
//! ```no_run
//! use ebb_test_needs::Need;
//!
//! fn frames_cross() {}
//! fn texts_are_read() {}
//!
//! ebb_test_needs::tests! {
//!     Need::Root => [frames_cross],
//!     Need::Nothing => [texts_are_read],
//! }
//! ```
//!
//! What nobody lists is dead code, which the lints refuse.

use std::process::{Command, ExitCode, Stdio};

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Completion, Failed};

/// What a test cannot do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Nothing,
    /// Network namespaces and packet sockets.
    Root,
    /// A command on PATH that knows `--version` or `--help`.
    Command(&'static str),
    /// An environment variable.
    Variable(&'static str),
}

impl Need {
    /// What is missing; none: nothing is.
    fn missing(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Root if rustix::process::geteuid().is_root() => None,
            Self::Root => Some("needs root for network namespaces".into()),
            Self::Command(name) if starts(name) => None,
            Self::Command(name) => Some(format!("needs {name} on PATH")),
            Self::Variable(name) if std::env::var_os(name).is_some() => None,
            Self::Variable(name) => Some(format!("needs the environment variable {name}")),
        }
    }
}

fn starts(command: &str) -> bool {
    Command::new(command)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// A test that runs in a thread of its own, with its name, as in Rust's own harness: a thread may
/// have entered a namespace.
pub fn trial(name: &'static str, need: Need, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || match need.missing() {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => run_alone(name, test).map(|()| Completion::Completed),
    })
}

fn run_alone(name: &str, test: fn()) -> Result<(), Failed> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(test)?;
    // What it says was printed when it panicked.
    thread.join().map_err(|_| Failed::without_message())
}

/// Runs them as the command line says.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The `main` of a file of tests: `NEED => [FUNCTION, ..], ..`.
#[macro_export]
macro_rules! tests {
    ($($need:expr => [$($test:ident),+ $(,)?]),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::run(vec![$($($crate::trial(stringify!($test), $need, $test)),+),+])
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(Need::Nothing.missing(), None);
        assert_eq!(Need::Command("cargo").missing(), None);
        let command = Need::Command("no-such-command").missing();
        assert_eq!(command.as_deref(), Some("needs no-such-command on PATH"));
        let variable = Need::Variable("EBB_NOBODY_SETS_THIS").missing();
        assert!(variable.is_some_and(|text| text.contains("EBB_NOBODY_SETS_THIS")));
    }

    #[test]
    fn a_test_without_what_it_needs_is_ignored_and_not_passed() {
        fn must_not_run() {
            panic!("it ran");
        }
        let trials = vec![
            trial("absent", Need::Command("no-such-command"), must_not_run),
            trial("broken", Need::Nothing, must_not_run),
            trial("fine", Need::Nothing, || ()),
        ];
        // Its report is not one of this harness: whoever counts what is printed would count it.
        let elsewhere = Arguments::from_iter(["test", "--logfile", "/dev/null"]);
        let told = libtest_mimic::run(&elsewhere, trials);
        let counts = (told.num_passed, told.num_failed, told.num_ignored);
        assert_eq!(counts, (1, 1, 1));
    }
}
