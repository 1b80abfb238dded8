//! Hosts for the tests, and a short way to a schedule.

use crate::{Error, Format, PlacedHost, Schedule, Workload};

fn host(name: String, labels: Option<(String, String)>) -> PlacedHost {
    let (pod, rack) = labels.unzip();
    PlacedHost {
        name,
        address: None,
        rack,
        pod,
    }
}

/// Hosts without labels.
pub fn star(hosts: u32) -> Vec<PlacedHost> {
    (1..=hosts)
        .map(|number| host(format!("h{number}"), None))
        .collect()
}

/// k^3/4 hosts.
pub fn fat_tree(k: u32) -> Vec<PlacedHost> {
    let half = k / 2;
    let edges = (0..k).flat_map(|pod| (0..half).map(move |edge| (pod, edge)));
    edges
        .flat_map(|edge| (0..half).map(move |_| edge))
        .zip(1..)
        .map(|((pod, edge), number)| {
            let labels = (format!("p{pod}"), format!("p{pod}e{edge}"));
            host(format!("h{number}"), Some(labels))
        })
        .collect()
}

pub fn schedule(toml: &str, hosts: &[PlacedHost]) -> Result<Schedule, Error> {
    let no_files = |name: &str| Err(format!("no {name} in tests"));
    let mut workload = Workload::parse(toml, Format::Toml, no_files)?;
    workload.hosts = hosts.to_vec();
    workload.schedule()
}
