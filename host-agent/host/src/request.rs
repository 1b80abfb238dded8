//! Requests of clients, and reasons to refuse them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use ebb_transport::TransportKind;
use ebb_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// A host, with the service port of the transport if none is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Peer {
    /// IPv4 address of the host.
    pub address: Ipv4Addr,
    /// Port; never 0. `None`: service port of the transport.
    pub port: Option<u16>,
}

impl Peer {
    /// Address and port, with this port if none is given.
    pub fn with_port(self, service_port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.port.unwrap_or(service_port))
    }
}

impl From<Ipv4Addr> for Peer {
    fn from(address: Ipv4Addr) -> Self {
        let port = None;
        Peer { address, port }
    }
}

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = match text.split_once(':') {
            None => text.parse().ok().map(|address| (address, None)),
            Some((address, port)) => {
                let port = port.parse().ok().filter(|&port| port != 0);
                address.parse().ok().zip(port.map(Some))
            }
        };
        host.map(|(address, port)| Peer { address, port })
            .ok_or_else(|| format!("`{text}` is no host; give IP or IP:PORT, e.g. 10.0.0.2:7001"))
    }
}

impl TryFrom<String> for Peer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Peer> for String {
    fn from(peer: Peer) -> String {
        peer.to_string()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Send an object.
#[derive(Clone, Debug)]
pub struct SendObject {
    /// Transport that carries it.
    pub transport: TransportKind,
    /// Receivers; several are one group, unless `unicast`.
    pub to: Vec<Peer>,
    /// Name of the object at the receivers.
    pub name: String,
    /// 0 (normal) to 7 (most urgent).
    pub priority: u8,
    /// Number of the connection to the host, where connections stay open. `None`: any.
    pub connection: Option<u32>,
    /// Multicast address of several receivers. `None`: one derived from their addresses.
    pub group: Option<Ipv4Addr>,
    /// A flow to each receiver rather than one to their group.
    pub unicast: bool,
    /// When its packets leave. `None`: as soon as it is prepared.
    pub start_at: Option<Instant>,
    /// Whether the client gets [`crate::Notice::Progress`].
    pub progress: bool,
}

/// Get an object by its name, from one host or parts of it from several.
#[derive(Clone, Debug)]
pub struct FetchObject {
    /// Transport that carries it.
    pub transport: TransportKind,
    /// Name of the object at the senders.
    pub name: String,
    /// Hosts that have it; each of several sends a part.
    pub from: Vec<Peer>,
    /// 0 (normal) to 7 (most urgent).
    pub priority: u8,
    /// Number of the connection to the host, where connections stay open. `None`: any.
    pub connection: Option<u32>,
    /// How long the first byte may take. `None`: as [`crate::Limits::patience`] says.
    pub patience: Option<Duration>,
    /// Whether the client gets [`crate::Notice::Progress`].
    pub progress: bool,
}

/// Take flows to a port.
#[derive(Clone, Debug)]
pub struct Listen<Listening> {
    /// Transport of the flows.
    pub transport: TransportKind,
    /// Port that they come to.
    pub port: u16,
    /// Treatment of the objects that come.
    pub listening: Listening,
    /// Whether every object is announced when it begins to arrive. One that has to be decided on always is.
    pub announce: bool,
    /// Whether the client gets [`crate::Notice::Progress`].
    pub progress: bool,
}

/// A request that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Kind of failure, for programs.
    pub code: ErrorCode,
    /// Cause and remedy, for people.
    pub message: String,
}

/// The most characters of the message of an [`Error`], which may quote a request of 64 KiB.
const MAX_MESSAGE_CHARACTERS: usize = 1024;

impl Error {
    /// A failure of this kind. A long message is cut.
    pub fn new(code: ErrorCode, message: impl ToString) -> Self {
        let mut message = message.to_string();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARACTERS) {
            message.truncate(end);
            message.push_str("..");
        }
        Error { code, message }
    }
}

/// Kinds of failure of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorCode {
    /// The message is no request, or one of its fields is wrong.
    BadRequest,
    /// Daemon and client speak different versions.
    BadVersion,
    /// There is no such transfer, listener or object of this client.
    Unknown,
    /// The port or the name is taken.
    InUse,
    /// As many as allowed are open.
    TooMany,
    /// The transport cannot do this.
    NotPossible,
    /// The source or the sink cannot be used.
    Io,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_a_short_message_however_long_the_request_was() {
        let message = "é".repeat(60_000);
        let error = Error::new(ErrorCode::BadRequest, message);
        assert_eq!(error.message.chars().count(), MAX_MESSAGE_CHARACTERS + 2);
        assert!(error.message.ends_with("é.."));
        let message = "x".repeat(MAX_MESSAGE_CHARACTERS);
        assert_eq!(Error::new(ErrorCode::Io, &message).message, message);
    }
}
