//! A client asks several servers at once, each of which works and answers.

use super::job::{Draft, DraftAfter, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;
use crate::times::TimeDistribution;
use crate::transfer::Kind;

pub struct PartitionAggregate {
    clients: Vec<HostId>,
    servers: Vec<HostId>,
    fan_out: usize,
    query_bytes: u64,
    service: TimeDistribution,
    /// A server works on one query at a time.
    serial: bool,
}

impl PartitionAggregate {
    pub fn new(
        scope: &Scope,
        [clients, servers]: [&Option<String>; 2],
        fan_out: u32,
        query_bytes: u64,
        service: &TimeDistribution,
        serial: bool,
    ) -> Result<Self, Error> {
        let fan_out = scope.count("fan_out", fan_out)?;
        if query_bytes == 0 {
            return Err(scope.error("query_bytes is 0, expected at least 1"));
        }
        service.check(&format!("{} service", scope.place))?;
        let [clients, servers] = scope.clients_and_servers(clients, servers, fan_out)?;
        Ok(Self {
            clients,
            servers,
            fan_out,
            query_bytes,
            service: service.clone(),
            serial,
        })
    }

    fn query(&self, client: HostId, server: HostId) -> Draft {
        Draft::new(Kind::Query, client, server, self.query_bytes)
    }

    /// To the query of that index.
    fn response(
        &self,
        index: usize,
        server: HostId,
        client: HostId,
        draws: &mut JobDraws,
    ) -> Draft {
        Draft {
            after: Some(DraftAfter {
                delay_ns: self.service.draw_ns(&mut draws.draws.service),
                serial: self.serial,
                ..DraftAfter::end_of(index)
            }),
            ..Draft::new(Kind::Response, server, client, draws.bytes())
        }
    }
}

impl JobPattern for PartitionAggregate {
    fn starters(&self) -> usize {
        self.clients.len()
    }

    /// A query and a response each.
    fn transfers_per_job(&self) -> usize {
        2 * self.fan_out
    }

    fn loaded_links(&self) -> (f64, usize) {
        (self.fan_out as f64, self.clients.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let client = self.clients[starter];
        let chosen = draws.several(&self.servers, self.fan_out, |id| id != client);
        let queries = chosen.iter().map(|&server| self.query(client, server));
        let responses = chosen
            .iter()
            .enumerate()
            .map(|(index, &server)| self.response(index, server, client, draws));
        queries.chain(responses).collect()
    }
}
