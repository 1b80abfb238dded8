//! Sockets and rings at two ends of a veth. One executable: linking takes longer than most of the tests.

mod namespaces;
mod ring;
mod veth;

fn main() -> std::process::ExitCode {
    ebb_testkit::run_trials([namespaces::trials(), ring::trials()])
}
