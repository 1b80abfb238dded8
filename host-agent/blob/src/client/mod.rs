//! Operations of a client: put, get and list, each a state machine of its own. Whoever runs one does its
//! [`Action`]s until it has an outcome.

mod action;
mod get;
mod list;
mod put;

pub use action::{Action, Fetch, Piece, Store};
pub use get::{Get, GetOutcome, Got};
pub use list::{List, ListOutcome};
pub use put::{Put, PutOutcome};
