//! The binary in network namespaces. One executable: linking takes longer than most of the tests.

mod hosts;

mod blobs;
mod commands;
mod engine;
mod forged_requests;
mod load;
mod pace;
mod pauses;
mod stored;
mod two_hosts;
mod workloads;

fn main() -> std::process::ExitCode {
    ebb_testkit::run_trials([
        blobs::trials(),
        commands::trials(),
        engine::trials(),
        forged_requests::trials(),
        load::trials(),
        pace::trials(),
        pauses::trials(),
        stored::trials(),
        two_hosts::trials(),
        workloads::trials(),
    ])
}
