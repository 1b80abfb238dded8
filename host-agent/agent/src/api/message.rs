//! The messages of the local API, as JSON objects: `docs/agent-api.md`.

use std::net::{Ipv4Addr, SocketAddrV4};

pub use ebb_host::{Error, ErrorCode, Peer};
use ebb_transport::TransportKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// From a client. `id` comes back in the [`Reply`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub id: u64,
    #[serde(flatten)]
    pub operation: Operation,
}

/// Requests of clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Operation {
    Hello {
        version: u32,
    },
    Send(SendObject),
    Listen(Listen),
    Unlisten {
        listener: u64,
    },
    /// Take an object that was announced. Its content goes where that of a [`FetchObject`] goes.
    Accept {
        transfer: u64,
        /// In a directory: a file that is there already is replaced; else the transfer fails.
        #[serde(default)]
        overwrite: bool,
        /// In a directory: the file replaces another one of its name, and is on the disk before the
        /// sender hears that it has arrived.
        #[serde(default)]
        durable: bool,
    },
    Refuse {
        transfer: u64,
        reason: String,
    },
    Fetch(FetchObject),
    /// Let others fetch an object: as for [`SendObject`], but sent on request only.
    Offer {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generate: Option<Generate>,
    },
    Withdraw {
        name: String,
    },
    /// Let others fetch the files of the directory whose descriptor comes with the message.
    Serve {},
    Cancel {
        transfer: u64,
    },
    Flows {
        /// The list begins with the transfer after this one.
        #[serde(default)]
        after: u64,
    },
    Statistics {},
    Shutdown {},
}

/// Bytes that the daemon makes itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    pub bytes: u64,
    #[serde(default)]
    pub seed: u64,
}

/// Send an object: the regular file or memfd that comes with the message, or `generate`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendObject {
    #[serde(rename = "scheme", alias = "transport")]
    pub transport: TransportKind,
    pub to: Vec<Peer>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<Generate>,
    #[serde(default)]
    pub priority: u8,
    /// Number of the connection to the host, where connections stay open; any if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// Multicast group of several receivers; derived from them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Ipv4Addr>,
    /// A flow to each receiver rather than one to their group.
    #[serde(default)]
    pub unicast: bool,
    /// When its packets leave, in ns of CLOCK_MONOTONIC; as soon as it is prepared if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_ns: Option<u64>,
    #[serde(default)]
    pub progress: bool,
}

/// Treatment of objects that arrive at a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// Every object is announced and waits for `accept` or `refuse`.
    Ask,
    /// Its hash is checked, and that is all.
    Discard,
    /// A file in the directory whose descriptor comes with the message.
    Directory,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    #[serde(rename = "scheme", alias = "transport")]
    pub transport: TransportKind,
    /// The service port of the transport if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub into: Disposition,
    /// With [`Disposition::Directory`]: a file that is there already is replaced; else the object is refused.
    #[serde(default)]
    pub overwrite: bool,
    /// Tell of every object when it begins to arrive; with [`Disposition::Ask`] that is always so.
    #[serde(default)]
    pub announce: bool,
    #[serde(default)]
    pub progress: bool,
}

/// Get an object by its name. Its content goes to the descriptor that comes with the message (file,
/// pipe or socket; of a directory: a file in it), or nowhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetchObject {
    #[serde(rename = "scheme", alias = "transport")]
    pub transport: TransportKind,
    pub name: String,
    pub from: Vec<Peer>,
    #[serde(default)]
    pub priority: u8,
    /// Number of the connection to the host, where connections stay open; any if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// How long the first byte may take, in ms; the default of the daemon if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// In a directory: a file that is there already is replaced; else the fetch fails.
    #[serde(default)]
    pub overwrite: bool,
    #[serde(default)]
    pub progress: bool,
}

/// To a client: the answer to its request `id`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    #[serde(flatten)]
    pub result: Outcome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok(Value),
    Error(Error),
}

/// To a client, unasked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// An object begins to arrive at a listener.
    Incoming {
        transfer: u64,
        listener: u64,
        #[serde(rename = "scheme")]
        transport: TransportKind,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        name: String,
        object_bytes: u64,
        sha256: String,
    },
    Progress {
        transfer: u64,
        done_bytes: u64,
        /// `null`: not known yet.
        total_bytes: Option<u64>,
    },
    /// A flow of the transfer has ended; the rest is its record (`docs/agent-records.md`).
    Flow {
        transfer: u64,
        #[serde(flatten)]
        record: Value,
    },
    /// The transfer has ended, after all its flows.
    End {
        transfer: u64,
        #[serde(flatten)]
        ending: Ending,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "status", content = "reason", rename_all = "lowercase")]
pub enum Ending {
    Finished,
    Failed(String),
}

/// To a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToClient {
    Event(Event),
    Reply(Reply),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<Request, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_says_what_it_means() {
        let request = parse(json!({
            "id": 7, "op": "send", "scheme": "ndp", "to": ["10.0.0.2", "10.0.0.3:9"], "name": "a",
        }))
        .unwrap();
        let Operation::Send(send) = request.operation else {
            panic!("not a send");
        };
        assert_eq!((request.id, send.priority, send.unicast), (7, 0, false));
        assert_eq!(send.to[0].with_port(7000).to_string(), "10.0.0.2:7000");
        assert_eq!(send.to[1].with_port(7000).to_string(), "10.0.0.3:9");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, expected) in [
            (json!({"id": 1, "op": "sned"}), "unknown variant `sned`"),
            (json!({"op": "serve"}), "missing field `id`"),
            (
                json!({"id": 1, "op": "cancel", "transfer": 3, "why": 4}),
                "unknown field `why`",
            ),
            (
                json!({"id": 1, "op": "fetch", "scheme": "ndp", "name": "a", "from": ["h1"]}),
                "`h1` is no host",
            ),
        ] {
            let error = parse(value).unwrap_err();
            assert!(error.contains(expected), "`{error}` lacks `{expected}`");
        }
        for host in ["", "10.0.0", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:70000"] {
            assert!(host.parse::<Peer>().is_err(), "{host}");
        }
    }

    #[test]
    fn replies_and_events_read_back() {
        let error = Error::new(ErrorCode::InUse, "taken");
        let reply = serde_json::to_value(Reply {
            id: 2,
            result: Outcome::Error(error),
        })
        .unwrap();
        assert_eq!(
            reply,
            json!({"id": 2, "error": {"code": "in-use", "message": "taken"}})
        );
        let end = json!({"event": "end", "transfer": 4, "status": "failed", "reason": "why"});
        let ToClient::Event(Event::End {
            transfer: 4,
            ending,
        }) = serde_json::from_value(end).unwrap()
        else {
            panic!("not an end");
        };
        assert_eq!(ending, Ending::Failed("why".into()));
        assert!(matches!(
            serde_json::from_value(reply).unwrap(),
            ToClient::Reply(_)
        ));
    }
}
