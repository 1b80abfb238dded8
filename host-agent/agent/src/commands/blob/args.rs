//! Arguments common to the commands of the store.

use clap::Args;

use super::link::{self, Address};
use crate::commands::args::CommonArgs;

/// Where replicas listen for tracts, whatever the transport.
pub const REPLICA_PORT: u16 = 7190;
/// Bytes of a tract, but the last of a blob.
pub const TRACT_BYTES: u64 = 8 << 20;

/// How to reach the store.
#[derive(Args, Debug)]
pub struct StoreArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Address of the locator: IP:PORT, or the path of a socket
    #[arg(long, value_name = "ADDRESS", default_value = link::DEFAULT)]
    pub locator: Address,
}
