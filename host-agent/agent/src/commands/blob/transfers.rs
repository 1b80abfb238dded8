//! The transfers of tracts, as a client of the engine.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Context;
use ebb_blob::{Fetch, Store};
use ebb_transport::TransportKind;
use ebb_units::Duration;
use rustix::fs::MemfdFlags;

use super::args::REPLICA_PORT;
use crate::api::client::{Client, Waited};
use crate::api::message::{self, Ending, Event, Operation, Peer, ToClient};

/// How long the first byte of a tract may take.
const FETCH_PATIENCE_MS: u64 = 10_000;

/// A transfer of a machine has ended.
pub struct Ended {
    pub transfer: u64,
    pub result: Result<(), String>,
}

pub struct Transfers {
    pub client: Client,
    transport: TransportKind,
    /// Transfers of the machine, by the numbers that the engine gave them.
    running: BTreeMap<u64, u64>,
    /// Transfers that the engine would not start.
    refused: Vec<Ended>,
}

impl Transfers {
    pub fn new(client: Client, transport: TransportKind) -> Self {
        Transfers {
            client,
            transport,
            running: BTreeMap::new(),
            refused: Vec::new(),
        }
    }

    pub fn store(&mut self, store: &Store, content: &File) -> anyhow::Result<()> {
        let to = store
            .to
            .iter()
            .map(|server| at(*server, Some(REPLICA_PORT)));
        let send = message::SendObject {
            transport: self.transport,
            to: to.collect(),
            name: store.tract.to_string(),
            generate: None,
            priority: 0,
            connection: None,
            group: None,
            unicast: false,
            start_at_ns: None,
            progress: false,
        };
        self.start(store.transfer, Operation::Send(send), content)
    }

    pub fn fetch(&mut self, fetch: &Fetch, content: &File) -> anyhow::Result<()> {
        let from = fetch.from.iter().map(|server| at(*server, None));
        let operation = Operation::Fetch(message::FetchObject {
            transport: self.transport,
            name: fetch.tract.to_string(),
            from: from.collect(),
            priority: 0,
            connection: None,
            timeout_ms: Some(FETCH_PATIENCE_MS),
            overwrite: false,
            progress: false,
        });
        self.start(fetch.transfer, operation, content)
    }

    fn start(&mut self, transfer: u64, operation: Operation, content: &File) -> anyhow::Result<()> {
        match self.client.call(operation, Some(content.as_fd())) {
            Ok(answer) => {
                let number = answer["transfer"].as_u64();
                let number = number.context("the daemon does not say which transfer it is")?;
                self.running.insert(number, transfer);
            }
            // A refusal of the engine ends the transfer; an engine that has gone is an error.
            Err(error) => {
                let refused = error.downcast::<message::Error>()?;
                let result = Err(refused.to_string());
                self.refused.push(Ended { transfer, result });
            }
        }
        Ok(())
    }

    /// Waits for the end of a transfer, or for so long. `None`: none has ended.
    pub fn wait(&mut self, patience: Option<Duration>) -> anyhow::Result<Option<Ended>> {
        if let Some(ended) = self.refused.pop() {
            return Ok(Some(ended));
        }
        match self.client.wait(patience)? {
            Waited::Message(ToClient::Event(event)) => Ok(self.ended(event)),
            Waited::Message(ToClient::Reply(_)) | Waited::TimedOut => Ok(None),
            Waited::Ended => anyhow::bail!("stopped before the end"),
        }
    }

    /// The end of a transfer of a machine, if that is what has happened.
    pub fn ended(&mut self, event: Event) -> Option<Ended> {
        let Event::End { transfer, ending } = event else {
            return None;
        };
        let transfer = self.running.remove(&transfer)?;
        let result = match ending {
            Ending::Finished => Ok(()),
            Ending::Failed(reason) => Err(reason),
        };
        Some(Ended { transfer, result })
    }
}

fn at(address: Ipv4Addr, port: Option<u16>) -> Peer {
    Peer { address, port }
}

/// A file in memory for the content of a tract.
pub fn memory() -> anyhow::Result<File> {
    let file: OwnedFd = rustix::fs::memfd_create("tract", MemfdFlags::CLOEXEC)
        .context("cannot make a file in memory")?;
    Ok(File::from(file))
}
