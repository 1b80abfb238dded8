//! Patterns of jobs, a file each: a pattern knows its hosts, knows that they suffice, and draws its jobs.

mod incast;
mod job;
mod outcast;
mod pairs;
mod partition_aggregate;
mod requests;
mod ring_all_reduce;
mod scope;
mod sequence;
mod storage;

use incast::Incast;
pub use job::{Draft, JobDraws, JobPattern, PatternDraws};
use outcast::Outcast;
use pairs::{AllToAll, Random, Ring};
use partition_aggregate::PartitionAggregate;
use requests::Requests;
use ring_all_reduce::RingAllReduce;
use scope::Scope;
pub(crate) use scope::check_count;
use sequence::Sequence;
use storage::{Storage, StorageRead, StorageWrite};

use crate::error::Error;
use crate::hosts::Hosts;
use crate::spec::Pattern;

/// The pattern with its hosts; `name` is that of the part of the workload.
pub fn resolve(
    pattern: &Pattern,
    hosts: &Hosts,
    name: &str,
    seed: u64,
) -> Result<Box<dyn JobPattern>, Error> {
    let place = &format!("traffic {name} pattern");
    let scope = Scope { hosts, place };
    Ok(match pattern {
        Pattern::Random {
            from,
            to,
            placement,
        } => Box::new(Random::new(&scope, from, to, *placement)?),
        Pattern::Permutation { hosts } => Box::new(Ring::new(&scope, hosts, name, seed)?),
        Pattern::AllToAll { hosts } => Box::new(AllToAll::new(&scope, hosts)?),
        Pattern::RingAllReduce { hosts, step_ns } => {
            Box::new(RingAllReduce::new(&scope, hosts, *step_ns)?)
        }
        Pattern::Incast {
            senders,
            stagger_ns,
            fetch,
            from,
            to,
        } => {
            let kind = Incast::kind(*fetch);
            Box::new(Incast::new(&scope, senders, from, to, *stagger_ns, kind)?)
        }
        Pattern::Outcast { near, far, hosts } => {
            Box::new(Outcast::new(&scope, hosts, *near, *far)?)
        }
        Pattern::PartitionAggregate {
            fan_out,
            query_bytes,
            service,
            serial,
            clients,
            servers,
        } => {
            let groups = [clients, servers];
            let pattern =
                PartitionAggregate::new(&scope, groups, *fan_out, *query_bytes, service, *serial)?;
            Box::new(pattern)
        }
        Pattern::Requests {
            connections,
            choose,
            clients,
            servers,
        } => Box::new(Requests::new(
            &scope,
            clients,
            servers,
            *connections,
            *choose,
        )?),
        Pattern::Sequence {
            requests,
            clients,
            servers,
        } => Box::new(Sequence::new(&scope, clients, servers, *requests)?),
        Pattern::StorageRead {
            mode,
            replicas,
            blocks,
            placement,
            clients,
            servers,
        } => {
            let storage = Storage::new(&scope, [clients, servers], *replicas, *placement)?;
            Box::new(StorageRead::new(&scope, storage, *mode, *blocks)?)
        }
        Pattern::StorageWrite {
            mode,
            replicas,
            placement,
            clients,
            servers,
        } => {
            let storage = Storage::new(&scope, [clients, servers], *replicas, *placement)?;
            Box::new(StorageWrite::new(storage, *mode))
        }
    })
}

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;
