//! Rings that a host shares with the process of its switch, in place of a veth.
//!
//! ```text
//!  switch: RingListener ──accept──► SwitchRing         host: HostRing::connect
//!               │  a Unix socket: memory (SCM_RIGHTS), filters, wake-ups   │
//!               └──────────── two directions of one memfd ─────────────────┘
//! ```
//!
//! Wake-ups are messages of one byte, sent and received without waiting. An eventfd would be cheaper, but both sides
//! would share one open file, of which a peer can clear `O_NONBLOCK`: then it stalls whoever reads or writes it. The
//! two ends of a socket are two files.

mod end;
mod listener;
mod memory;
mod socket;
mod spsc;

pub use end::{HostRing, SwitchRing};
pub use listener::RingListener;
