//! `ebb-agent blob`: a store of named blobs on the hosts of a fabric, `docs/blob-store.md`. The state
//! machines are those of `ebb-blob`; here are their files, sockets and transfers.

mod args;
mod database;
mod get;
mod link;
mod list;
mod locator;
mod put;
mod repair;
mod replica;
mod transfers;

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub enum BlobCommand {
    /// Store a file under a name; exit code 1 if it is not stored
    Put(put::PutArgs),
    /// Read what is stored under a name into a file
    Get(get::GetArgs),
    /// Print the names, sizes and versions of all blobs
    List(list::ListArgs),
    /// Have all replicas check what they hold and copy what is missing
    Repair(repair::RepairArgs),
    /// Store tracts on this host, beside its daemon, until SIGINT or SIGTERM
    Replica(replica::ReplicaArgs),
    /// Keep the tract locator table and the names of blobs, until SIGINT or SIGTERM
    Locator(locator::LocatorArgs),
}

impl BlobCommand {
    /// Whether all that was asked for went well.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            BlobCommand::Put(args) => put::run(args),
            BlobCommand::Get(args) => get::run(args),
            BlobCommand::List(args) => list::run(args),
            BlobCommand::Repair(args) => repair::run(args),
            BlobCommand::Replica(args) => replica::run(args),
            BlobCommand::Locator(args) => locator::run(args),
        }
    }
}
