//! Logic of a host: requests of its clients, requests of other hosts, and
//! objects that arrive: the agent and the simulator only supply time, transports and storage.
//!
//! A [`HostApplication`] is driven like a transport. Whoever drives it does, whenever something happened or a
//! deadline passed:
//!
//! ```text
//!  host.send(..), fetch(..), offer(..), ..            what clients ask for
//!  host.handle_event(now, transport, event, engine)      for every event of a transport
//!  host.handle_prepared(..), handle_sink(..)          later results of the storage
//!  host.handle_timeout(now, engine)                   when next_deadline() <= now
//!  while let Some(output) = host.poll_output()        replies and events for clients
//! ```

mod application;
mod environment;
mod fetching;
mod limits;
mod player;
mod progress;
mod receiving;
mod record;
mod request;
mod requesters;
mod sending;
mod serving;
mod tally;
#[cfg(test)]
mod tests;
mod traffic_transports;
mod transfers;

pub use application::{Counts, HostApplication, Notice, Output};
pub use environment::{
    ClientId, Content, Engine, Key, Ports, Prepared, Pushed, Storage, Task, Unusable, Update,
};
pub use limits::Limits;
pub use player::{ObjectNames, PlayedFlow, PlayedTransfer, Player};
pub use progress::{FlowState, IncomingObject};
pub use record::FlowFields;
pub use request::{Error, ErrorCode, FetchObject, Listen, Peer, SendObject};
pub use traffic_transports::TrafficTransports;
pub use transfers::TransferId;
