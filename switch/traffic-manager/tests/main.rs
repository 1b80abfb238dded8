//! The traffic manager from outside. One executable: linking takes longer than most of the tests.

mod behaviour;
mod config;
mod either;
mod flow_control;
mod headroom;
mod notifications;
mod oracle;
mod passing;
mod pfabric;
mod scavenger;
mod slots;
