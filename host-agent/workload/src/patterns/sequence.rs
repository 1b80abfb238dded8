//! A client asks one server after another for bytes, each as soon as it has those of the one before.

use super::job::{Draft, DraftAfter, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;
use crate::transfer::Kind;

pub struct Sequence {
    clients: Vec<HostId>,
    servers: Vec<HostId>,
    requests: usize,
}

impl Sequence {
    pub fn new(
        scope: &Scope,
        clients: &Option<String>,
        servers: &Option<String>,
        requests: u32,
    ) -> Result<Self, Error> {
        let requests = scope.count("requests", requests)?;
        let [clients, servers] = scope.clients_and_servers(clients, servers, 1)?;
        Ok(Self {
            clients,
            servers,
            requests,
        })
    }
}

impl JobPattern for Sequence {
    fn starters(&self) -> usize {
        self.clients.len()
    }

    fn transfers_per_job(&self) -> usize {
        self.requests
    }

    fn loaded_links(&self) -> (f64, usize) {
        (self.requests as f64, self.clients.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let client = self.clients[starter];
        let drafts = (0..self.requests).map(|index| {
            let server = draws.one(&self.servers, |id| id != client);
            Draft {
                after: index.checked_sub(1).map(DraftAfter::end_of),
                ..Draft::new(Kind::FetchOneToOne, server, client, draws.bytes())
            }
        });
        drafts.collect()
    }
}
