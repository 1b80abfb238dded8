//! A client asks a server for bytes, over one of several permanent connections to it.

use super::job::{Draft, JobDraws, JobPattern};
use super::scope::Scope;
use crate::error::Error;
use crate::hosts::HostId;
use crate::spec::ConnectionChoice;
use crate::transfer::Kind;

pub struct Requests {
    clients: Vec<HostId>,
    servers: Vec<HostId>,
    connections: u32,
    choose: ConnectionChoice,
    /// Requests of each client so far.
    turns: Vec<u64>,
}

impl Requests {
    pub fn new(
        scope: &Scope,
        clients: &Option<String>,
        servers: &Option<String>,
        connections: u32,
        choose: ConnectionChoice,
    ) -> Result<Self, Error> {
        scope.count("connections", connections)?;
        let [clients, servers] = scope.clients_and_servers(clients, servers, 1)?;
        Ok(Self {
            turns: vec![0; clients.len()],
            clients,
            servers,
            connections,
            choose,
        })
    }

    fn draw(&self, client: HostId, draws: &mut JobDraws) -> (HostId, Option<u32>) {
        let server = draws.one(&self.servers, |id| id != client);
        if self.choose == ConnectionChoice::Idle {
            return (server, None);
        }
        let connection = draws.places().below_u64(u64::from(self.connections));
        (server, Some(connection as u32))
    }

    /// One server after the other, then with the next connection.
    fn next(&mut self, starter: usize) -> (HostId, Option<u32>) {
        let client = self.clients[starter];
        let others = self.servers.iter().copied().filter(|&id| id != client);
        let others: Vec<HostId> = others.collect();
        let (turn, count) = (self.turns[starter], others.len() as u64);
        self.turns[starter] += 1;
        let connection = turn / count % u64::from(self.connections);
        (others[(turn % count) as usize], Some(connection as u32))
    }
}

impl JobPattern for Requests {
    fn starters(&self) -> usize {
        self.clients.len()
    }

    fn is_single(&self) -> bool {
        true
    }

    fn transfers_per_job(&self) -> usize {
        1
    }

    fn loaded_links(&self) -> (f64, usize) {
        (1.0, self.clients.len())
    }

    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft> {
        let client = self.clients[starter];
        let (server, connection) = match self.choose {
            ConnectionChoice::Random | ConnectionChoice::Idle => self.draw(client, draws),
            ConnectionChoice::RoundRobin => self.next(starter),
        };
        vec![Draft {
            connection,
            ..Draft::new(Kind::FetchOneToOne, server, client, draws.bytes())
        }]
    }
}
