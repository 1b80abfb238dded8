//! Sessions as the host sees them: the way between their ends, and what is kept of an open one.

use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader};

/// The two ends of a session and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// The other end; of a one-to-many session the multicast address.
    pub peer: SocketAddrV4,
    pub local_port: u16,
    pub session: u32,
}

impl Path {
    /// Whether a packet from `src` belongs here: a guessed session id alone is not enough. The port
    /// of a sender that was never heard is not known.
    pub fn is_from(&self, src: Ipv4Addr, header: &EbbHeader) -> bool {
        let unknown = self.peer.port() == 0 && self.local_port == header.destination_port;
        *self.peer.ip() == src && (unknown || self.matches_ports(header))
    }

    /// The same where the session was found by the address already.
    pub fn matches_ports(&self, header: &EbbHeader) -> bool {
        self.peer.port() == header.source_port
            && self.local_port == header.destination_port
            && self.session == header.session
    }

    /// The way to one peer of several.
    pub fn to(self, peer: SocketAddrV4) -> Path {
        Path { peer, ..self }
    }
}

/// An open session.
pub(super) struct Open<T> {
    /// The way to the peer; with several senders, to the one that was heard first.
    pub path: Path,
    /// The one peer, all receivers of a group, or all senders of a many-to-one session. Port 0: the
    /// peer was not heard yet.
    pub peers: Vec<SocketAddrV4>,
    /// State that the transport keeps of the session.
    pub state: T,
    /// When it was opened.
    pub started: Instant,
    /// Length of the object, in bytes.
    pub stream_bytes: u64,
    /// Priority that the packets of a sender announce, or that the first packet to a receiver
    /// announced. 7 is the most urgent, and higher values count as 7. None: nothing has arrived.
    pub priority: Option<u8>,
    /// The slot of its deadline in `SessionTable::timers`.
    pub timer: usize,
    /// Whether it waits in `SessionTable::ready`. Receivers never do.
    pub ready: bool,
    /// Whether [`Event::Heard`](crate::Event::Heard) has been emitted, by a sender.
    pub heard: bool,
}

impl<T> Open<T> {
    /// Where a header of this session goes: those for one of several senders say for which.
    pub fn path_of(&self, header: &EbbHeader) -> Path {
        if !header.flags.contains(EbbFlags::MULTI_SOURCE) {
            return self.path;
        }
        let peer = self.peers.get(usize::from(header.sender));
        self.path.to(peer.copied().unwrap_or(self.path.peer))
    }
}

/// A many-to-one session of which nothing has arrived yet.
pub(super) struct Expected {
    pub local_port: u16,
    pub session: u32,
    /// The senders in the order of their numbers; with a reason if one will not send.
    pub senders: Vec<(Ipv4Addr, Option<String>)>,
    pub started: Instant,
    pub paused: bool,
    /// The slot of its deadline in `SessionTable::timers`.
    pub timer: usize,
}

/// When a host that is about to go asks the senders of ended sessions next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub at: Instant,
    /// From that time to the next.
    pub interval: Duration,
}
