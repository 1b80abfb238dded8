//! Transfers, of which a schedule consists.

use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hosts::{HostId, Hosts};

/// Bytes from source to destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Unique in the schedule; from 0, rising with the time of the arrival it belongs to.
    pub id: u64,
    /// The id of the first transfer of the same job: a query with all its answers, an object with all
    /// its replicas, the blocks of a read.
    pub job: u64,
    /// Number of transfers of the job.
    pub job_transfers: u64,
    /// Name of its part of the workload.
    pub traffic: Arc<str>,
    /// Nominal start; with [`after`](Self::after) the earliest one.
    pub start_ns: u64,
    /// Direction and number of its ends.
    pub kind: Kind,
    /// Hosts with the bytes.
    pub sources: Vec<HostId>,
    /// Hosts that get them.
    pub destinations: Vec<HostId>,
    /// Bytes of content.
    pub bytes: u64,
    /// 0 normal .. 7 most urgent.
    pub priority: u8,
    /// Number of the permanent connection between the two, where the pattern has some.
    pub connection: Option<u32>,
    /// `None`: starts at `start_ns`, whatever the state of others (open loop).
    pub after: Option<After>,
}

/// Direction of a transfer, and number of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The source starts it.
    SendOneToOne,
    /// The source starts it; every destination gets all bytes, over multicast if there is any.
    SendOneToMany,
    /// The destination asks the source for the bytes.
    FetchOneToOne,
    /// The destination asks all sources; each of them has all the bytes.
    FetchManyToOne,
    /// The source starts it and expects a [`Kind::Response`].
    Query,
    /// The source starts it when it has worked on the query: `after`.
    Response,
}

/// Condition for the start of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// Id of the other transfer; smaller than that of the one that waits.
    pub transfer: u64,
    /// The moment of the other transfer that counts.
    pub moment: Moment,
    /// Time between that and the start.
    pub delay_ns: u64,
    /// Whether the delay is work, of which a host does one piece at a time, in order.
    pub serial: bool,
}

/// A moment in the life of a transfer, as the host that waits for it sees it: its destination, or
/// with `back-to-back` its source, which learns of the end by the confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// The first bytes have arrived.
    Begun,
    /// All bytes have arrived.
    Finished,
}

impl Transfer {
    /// The host that starts it.
    pub fn initiator(&self) -> HostId {
        match self.kind {
            Kind::FetchOneToOne | Kind::FetchManyToOne => self.destinations[0],
            Kind::SendOneToOne | Kind::SendOneToMany | Kind::Query | Kind::Response => {
                self.sources[0]
            }
        }
    }

    /// The same with names, to be written as JSON.
    pub fn line<'a>(&'a self, hosts: &'a Hosts) -> TransferLine<'a> {
        let names = |ids: &[HostId]| ids.iter().map(|&id| &*hosts.get(id).name).collect();
        let addresses = |ids: &[HostId]| {
            ids.iter()
                .map(|&id| hosts.get(id).address)
                .collect::<Option<Vec<_>>>()
        };
        TransferLine {
            id: self.id,
            job: self.job,
            job_transfers: self.job_transfers,
            traffic: &self.traffic,
            start_ns: self.start_ns,
            kind: self.kind,
            sources: names(&self.sources),
            destinations: names(&self.destinations),
            source_addresses: addresses(&self.sources),
            destination_addresses: addresses(&self.destinations),
            bytes: self.bytes,
            priority: self.priority,
            connection: self.connection,
            after: self.after,
        }
    }
}

/// A [`Transfer`] for people and programs: `docs/workloads.md`.
#[derive(Clone, Debug, Serialize)]
pub struct TransferLine<'a> {
    /// As [`Transfer::id`].
    pub id: u64,
    /// As [`Transfer::job`].
    pub job: u64,
    /// As [`Transfer::job_transfers`].
    pub job_transfers: u64,
    /// As [`Transfer::traffic`].
    pub traffic: &'a str,
    /// As [`Transfer::start_ns`].
    pub start_ns: u64,
    /// As [`Transfer::kind`].
    pub kind: Kind,
    /// Names of the sources.
    pub sources: Vec<&'a str>,
    /// Names of the destinations.
    pub destinations: Vec<&'a str>,
    /// Only if all of them are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_addresses: Option<Vec<Ipv4Addr>>,
    /// Only if all of them are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_addresses: Option<Vec<Ipv4Addr>>,
    /// As [`Transfer::bytes`].
    pub bytes: u64,
    /// As [`Transfer::priority`].
    pub priority: u8,
    /// As [`Transfer::connection`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// As [`Transfer::after`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}
