//! Harness for tests with requirements that not every machine meets, such as root or a command. Rust's own harness
//! decides at compile time which tests it ignores, so such a test would have to return early and count as passed. Here
//! it is reported as ignored, with the missing requirement.
//!
//! An executable of such tests has `harness = false` in its crate's `Cargo.toml`. Its functions have no `#[test]`; each
//! module of it lists its own with [`tests!`](crate::tests), and its `main` runs those of all modules:
//!
//! ```text
//! // tests/crossing.rs                       // tests/main.rs
//! fn frames_cross() { .. }                   mod crossing;
//! fn texts_are_read() { .. }
//!                                            fn main() -> std::process::ExitCode {
//! ebb_testkit::tests! {                          ebb_testkit::run_trials([crossing::trials()])
//!     Need::Root => [frames_cross],          }
//!     Need::Nothing => [texts_are_read],
//! }
//! ```
//!
//! A function that nobody lists and a module that `main` forgets are dead code, which the lints refuse.

use std::process::{Command, ExitCode, Stdio};

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Completion, Failed};

/// Requirement of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It runs everywhere.
    Nothing,
    /// Network namespaces and packet sockets.
    Root,
    /// The same, on Linux of at least this version.
    RootOnLinux(u32, u32),
    /// A command on PATH that knows `--version`.
    Command(&'static str),
    /// An environment variable.
    Variable(&'static str),
}

impl Need {
    /// The missing requirement. None: all are met.
    fn missing(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Root if rustix::process::geteuid().is_root() => None,
            Self::Root => Some("needs root for network namespaces".into()),
            Self::RootOnLinux(major, minor) => match linux() {
                Some(version) if version >= (major, minor) => Self::Root.missing(),
                _ => Some(format!("needs Linux {major}.{minor}")),
            },
            Self::Command(name) if starts(name) => None,
            Self::Command(name) => Some(format!("needs {name} on PATH")),
            Self::Variable(name) if std::env::var_os(name).is_some() => None,
            Self::Variable(name) => Some(format!("needs the environment variable {name}")),
        }
    }
}

/// Version of the kernel, if it is Linux.
fn linux() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
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

/// A test that runs in a thread of its own, with its name, as in Rust's own harness: a thread may have entered a
/// namespace. The name has the module in front, without the name of the executable.
pub fn trial(module: &str, name: &str, need: Need, test: fn()) -> Trial {
    let name = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    };
    Trial::ignorable_test(name.clone(), move || match need.missing() {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => run_alone(name, test).map(|()| Completion::Completed),
    })
}

fn run_alone(name: String, test: fn()) -> Result<(), Failed> {
    let thread = std::thread::Builder::new().name(name).spawn(test)?;
    // The message was printed when it panicked.
    thread.join().map_err(|_| Failed::without_message())
}

/// Runs the tests of all modules as the command line says.
pub fn run_trials(modules: impl IntoIterator<Item = Vec<Trial>>) -> ExitCode {
    let trials = modules.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The tests of a module: `NEED => [FUNCTION, ..], ..`.
#[macro_export]
macro_rules! tests {
    ($($need:expr => [$($test:ident),+ $(,)?]),+ $(,)?) => {
        /// The tests of this module.
        pub fn trials() -> Vec<$crate::Trial> {
            vec![$($($crate::trial(module_path!(), stringify!($test), $need, $test)),+),+]
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
        assert_eq!(Need::RootOnLinux(3, 2).missing(), Need::Root.missing());
        let linux = Need::RootOnLinux(1000, 0).missing();
        assert_eq!(linux.as_deref(), Some("needs Linux 1000.0"));
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
            trial(
                "main",
                "absent",
                Need::Command("no-such-command"),
                must_not_run,
            ),
            trial("main", "broken", Need::Nothing, must_not_run),
            trial("main", "fine", Need::Nothing, || ()),
        ];
        // Its report is not one of this harness: whoever counts what is printed would count it.
        let elsewhere = Arguments::from_iter(["test", "--logfile", "/dev/null"]);
        let told = libtest_mimic::run(&elsewhere, trials);
        let counts = (told.num_passed, told.num_failed, told.num_ignored);
        assert_eq!(counts, (1, 1, 1));
    }

    #[test]
    fn a_name_has_its_module_in_front() {
        let name = |module| {
            trial(module, "it_works", Need::Nothing, || ())
                .name()
                .to_owned()
        };
        assert_eq!(name("main"), "it_works");
        assert_eq!(name("main::links"), "links::it_works");
    }
}
