//! The binary with its clients and its interfaces. One executable: linking takes longer than most of the tests.

mod server;
mod spaces;

mod fabric;
mod idle_connections;
mod log_file;
mod one_client;
mod other_user;
mod push_under_traffic;
mod tls;
mod veth;

fn main() -> std::process::ExitCode {
    ebb_testkit::run_trials([
        fabric::trials(),
        idle_connections::trials(),
        log_file::trials(),
        one_client::trials(),
        other_user::trials(),
        push_under_traffic::trials(),
        tls::trials(),
        veth::trials(),
    ])
}
