//! Work of the hosts: transfers that are drawn from a workload, or listed one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ebb_host::{ObjectNames, TrafficTransports};
use ebb_transport::{MAX_SENDERS, TransportKind, group_address};
use ebb_workload::{After, Format, HostId, Kind, PlacedHost, Schedule, Transfer, Workload};
use serde::Deserialize;

/// A transfer of the network file, with the keys that `ebb-agent workload` prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferEntry {
    id: u64,
    #[serde(default)]
    job: Option<u64>,
    #[serde(default = "one")]
    job_transfers: u64,
    #[serde(default)]
    traffic: String,
    start_ns: u64,
    #[serde(default = "send_one_to_one")]
    kind: Kind,
    sources: Vec<String>,
    destinations: Vec<String>,
    /// Accepted and ignored, because the names of the hosts determine the addresses.
    #[serde(default, rename = "source_addresses")]
    _source_addresses: Option<Vec<Ipv4Addr>>,
    #[serde(default, rename = "destination_addresses")]
    _destination_addresses: Option<Vec<Ipv4Addr>>,
    bytes: u64,
    #[serde(default)]
    priority: u8,
    #[serde(default)]
    connection: Option<u32>,
    #[serde(default)]
    after: Option<After>,
}

fn one() -> u64 {
    1
}

fn send_one_to_one() -> Kind {
    Kind::SendOneToOne
}

/// All transfers, ordered by start and then by id.
pub enum Transfers {
    Drawn(Box<Schedule>),
    Listed(std::vec::IntoIter<Transfer>),
}

impl Iterator for Transfers {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        match self {
            Transfers::Drawn(schedule) => schedule.next(),
            Transfers::Listed(transfers) => transfers.next(),
        }
    }
}

/// The transfers of a run, before they are generated.
pub enum Plan {
    Drawn(Box<Workload>),
    Listed(Vec<Transfer>),
}

/// Properties of the transfers that are known before any of them starts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// How many transfers there are.
    pub transfers: u64,
    /// How many of them each part of the workload has.
    pub of_traffic: BTreeMap<String, u64>,
    /// The multicast groups of one-to-many transfers, with their receivers.
    pub groups: BTreeMap<Ipv4Addr, Vec<HostId>>,
}

impl Plan {
    /// Reads a workload file, which is for `hosts` unless it lists its own.
    pub fn read(path: &Path, hosts: Vec<PlacedHost>) -> Result<Self> {
        let shown = path.display();
        let format = Format::of(&path.to_string_lossy())?;
        let text = ebb_files::read_text(path).with_context(|| format!("cannot read {shown}"))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let sizes =
            |name: &str| ebb_files::read_text(&folder.join(name)).map_err(|e| e.to_string());
        let workload = Workload::parse(&text, format, sizes);
        let mut workload = workload.with_context(|| format!("workload {shown}"))?;
        if workload.hosts.is_empty() {
            workload.hosts = hosts;
        }
        let schedule = workload.schedule();
        schedule.with_context(|| format!("workload {shown}"))?;
        Ok(Plan::Drawn(Box::new(workload)))
    }

    /// The transfers that a network file lists; the error says which of them makes no sense.
    pub fn listed(entries: Vec<TransferEntry>, hosts: &[PlacedHost]) -> Result<Self> {
        let ids: BTreeMap<&str, HostId> = (0..)
            .zip(hosts)
            .map(|(index, host)| (&*host.name, HostId(index)))
            .collect();
        let mut transfers = entries
            .into_iter()
            .map(|entry| entry.resolve(&ids))
            .collect::<Result<Vec<_>>>()?;
        transfers.sort_by_key(|transfer| (transfer.start_ns, transfer.id));
        let starts: BTreeMap<u64, u64> = transfers.iter().map(|t| (t.id, t.start_ns)).collect();
        ensure!(
            starts.len() == transfers.len(),
            "two transfers have the same id"
        );
        for transfer in &transfers {
            if let Some(after) = transfer.after {
                // So the transfer that waits is known before the other one can end.
                let before = starts.get(&after.transfer);
                ensure!(
                    before == Some(&transfer.start_ns) && after.transfer < transfer.id,
                    "transfer {} waits for {}: that has to be another one with the same start_ns \
                     and a smaller id",
                    transfer.id,
                    after.transfer
                );
            }
        }
        Ok(Plan::Listed(transfers))
    }

    /// The transfers from the beginning.
    pub fn transfers(&self) -> Result<Transfers> {
        Ok(match self {
            Plan::Drawn(workload) => Transfers::Drawn(Box::new(workload.schedule()?)),
            Plan::Listed(transfers) => Transfers::Listed(transfers.clone().into_iter()),
        })
    }

    /// The hosts that the numbers in the transfers stand for; `all` are those of the network.
    pub fn hosts<'a>(&'a self, all: &'a [PlacedHost]) -> &'a [PlacedHost] {
        match self {
            Plan::Drawn(workload) => &workload.hosts,
            Plan::Listed(_) => all,
        }
    }

    /// The names that `ebb-agent bench` would give the objects.
    pub fn names(&self) -> ObjectNames {
        ObjectNames::new(match self {
            Plan::Drawn(workload) => workload.fingerprint(),
            Plan::Listed(_) => 0,
        })
    }

    /// Goes through all transfers, so that what a transport cannot do is found before anything starts.
    pub fn survey(&self, transports: &TrafficTransports, addresses: &[Ipv4Addr]) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut seen: BTreeSet<Vec<HostId>> = BTreeSet::new();
        for transfer in self.transfers()? {
            survey.transfers += 1;
            match survey.of_traffic.get_mut(&*transfer.traffic) {
                Some(count) => *count += 1,
                None => {
                    survey.of_traffic.insert(transfer.traffic.to_string(), 1);
                }
            }
            let parties = transfer.sources.len().max(transfer.destinations.len());
            if parties == 1 {
                continue;
            }
            let transport = transports.of(&transfer.traffic);
            match transfer.kind {
                Kind::FetchManyToOne if !transport.entry().many_to_one => bail!(
                    "traffic {}: {transport} has no flows from several hosts, {} have; choose mode = \"nearest\"",
                    transfer.traffic,
                    TransportKind::many_to_one_names()
                ),
                Kind::FetchManyToOne => ensure!(
                    parties <= usize::from(MAX_SENDERS),
                    "traffic {}: a fetch from {parties} hosts; {MAX_SENDERS} are possible",
                    transfer.traffic
                ),
                Kind::SendOneToMany if transport.entry().groups => {
                    let mut receivers = transfer.destinations;
                    receivers.sort_unstable();
                    if seen.insert(receivers.clone()) {
                        let all = receivers.iter().map(|host| addresses[host.index()]);
                        survey.groups.insert(group_address(all), receivers);
                    }
                }
                _ => {}
            }
        }
        Ok(survey)
    }
}

impl Survey {
    /// Checks that there are transfers of all parts of the workload that a key names.
    pub fn check_names<'a>(
        &self,
        key: &str,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<()> {
        let known: Vec<&str> = self.of_traffic.keys().map(String::as_str).collect();
        for name in names {
            ensure!(
                self.of_traffic.contains_key(name),
                "{key}: there are no transfers of traffic {name}; there are some of {}",
                known.join(", ")
            );
        }
        Ok(())
    }
}

impl TransferEntry {
    /// The transfer with numbers instead of names for its hosts.
    fn resolve(self, ids: &BTreeMap<&str, HostId>) -> Result<Transfer> {
        let id = self.id;
        let find = |names: &[String]| {
            let hosts = names.iter().map(|name| {
                let found = ids.get(&**name).copied();
                found.with_context(|| format!("transfer {id}: there is no host {name}"))
            });
            hosts.collect::<Result<Vec<_>>>()
        };
        let (sources, destinations) = (find(&self.sources)?, find(&self.destinations)?);
        let (most_sources, most_destinations) = match self.kind {
            Kind::SendOneToMany => (1, usize::MAX),
            // The header of a session can name this many senders.
            Kind::FetchManyToOne => (usize::from(MAX_SENDERS), 1),
            _ => (1, 1),
        };
        let kind = self.kind;
        for (what, hosts, most) in [
            ("source", &sources, most_sources),
            ("destination", &destinations, most_destinations),
        ] {
            ensure!(
                (1..=most).contains(&hosts.len()),
                "transfer {id}: {} {what}s; {kind:?} takes 1 to {most}",
                hosts.len()
            );
        }
        let all: BTreeSet<_> = sources.iter().chain(&destinations).collect();
        ensure!(
            all.len() == sources.len() + destinations.len(),
            "transfer {id}: a host is named twice"
        );
        ensure!(
            self.priority <= 7,
            "transfer {id}: priority {}; 0 (normal) to 7 (most urgent)",
            self.priority
        );
        Ok(Transfer {
            id,
            job: self.job.unwrap_or(id),
            job_transfers: self.job_transfers,
            traffic: self.traffic.into(),
            start_ns: self.start_ns,
            kind,
            sources,
            destinations,
            bytes: self.bytes,
            priority: self.priority,
            connection: self.connection,
            after: self.after,
        })
    }
}
