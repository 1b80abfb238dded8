//! The daemon of a host, or the same inside a command: applications ask for transfers over the
//! local API, the engine carries them out.
//!
//! ```text
//!  clients ── thread each ──┐                       ┌── sinks: hash, write
//!  prepare: hash, resolve ──┴─► Mailbox ─► Service ─┴── outbox thread of each client
//!                                (wakes)   (engine)
//! ```
//!
//! The application behind all of it is the [`ebb_host::Host`] in the service.

mod clients;
mod fair_queue;
mod mailbox;
mod outbox;
mod prepare;
mod service;
mod sink;
mod sinks;
mod storage;

pub use clients::{accept_all, serve_own};
pub use service::{Lifetime, Service};
