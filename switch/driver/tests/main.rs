//! The driver on real interfaces, in network namespaces. One executable: linking takes longer than most of the tests.

mod chain;
#[path = "../../engine/tests/switches.rs"]
mod switches;

mod driver;
mod rings;
mod slow_interface;

fn main() -> std::process::ExitCode {
    ebb_testkit::run_trials([driver::trials(), rings::trials(), slow_interface::trials()])
}
