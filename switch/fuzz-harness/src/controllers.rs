//! Messages of several controllers of one switch: on their streams, in writes and in pushes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use ebb_p4runtime::proto::config::P4Info;
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as ToSwitch;
use ebb_p4runtime::proto::p4::stream_message_response::Update as FromSwitch;
use ebb_p4runtime::{Event, Plain, Sessions};
use ebb_pipeline::{Digest, Pipeline};
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::bytes::{number, popular};
use crate::p4runtime::{Target, update};

/// Most messages of one input.
const MOST_MESSAGES: usize = 60;
const DEVICE_ID: u64 = 7;
const ROLES: [&str; 3] = ["", "a", "b"];

/// Opens and closes streams of several controllers, and sends their messages, writes and pushes, as the bytes encode.
/// Checks that each role has at most one primary, which is that of the specification, that only the primary may write
/// and push, and that every controller is notified whether it is the primary.
pub fn controllers(target: &Target, bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let device = Arc::new(Plain::new(DEVICE_ID));
    let mut all = Controllers {
        target,
        sessions: Sessions::new(device.clone()).expect("a runtime"),
        device,
        roles: BTreeMap::new(),
        streams: BTreeMap::new(),
    };
    for _ in 0..MOST_MESSAGES {
        if input.is_empty() || all.step(&mut input).is_err() {
            break;
        }
    }
}

/// State of a role by the specification ("Client Arbitration and Controller Replication").
#[derive(Debug, Default)]
struct Role {
    /// Highest election id so far.
    highest: Option<u128>,
    /// Election ids of the open streams, by the id of the stream.
    live: BTreeMap<u64, Option<u128>>,
}

impl Role {
    fn primary(&self) -> Option<u64> {
        let highest = Some(self.highest?);
        let mut live = self.live.iter();
        live.find(|(_, id)| **id == highest)
            .map(|(stream, _)| *stream)
    }
}

struct Controllers<'a> {
    target: &'a Target,
    sessions: Sessions,
    device: Arc<Plain>,
    roles: BTreeMap<&'static str, Role>,
    /// Open streams by id: role, and whether it was notified that it is the primary. None: it has not arbitrated yet.
    streams: BTreeMap<u64, Option<(&'static str, bool)>>,
}

impl Controllers<'_> {
    fn step(&mut self, input: &mut Unstructured) -> Result<()> {
        match input.int_in_range(0..=11u8)? {
            0 if self.streams.len() < 8 => {
                let id = self.sessions.open().expect("few are open");
                self.streams.insert(id, None);
            }
            0 | 1 => {
                if let Some(id) = self.some_stream(input)? {
                    self.sessions.close(id);
                    self.gone(id);
                }
            }
            2..=5 => self.arbitrate(input)?,
            6 => self.speak(input)?,
            7 => self.emit(input)?,
            8 => self.push(input)?,
            _ => self.write(input)?,
        }
        self.listen();
        Ok(())
    }

    fn some_stream(&self, input: &mut Unstructured) -> Result<Option<u64>> {
        let ids: Vec<u64> = self.streams.keys().copied().collect();
        Ok(match ids.is_empty() {
            true => None,
            false => Some(*input.choose(&ids)?),
        })
    }

    fn gone(&mut self, id: u64) {
        if let Some(Some((role, _))) = self.streams.remove(&id)
            && let Some(role) = self.roles.get_mut(role)
        {
            role.live.remove(&id);
        }
    }

    fn arbitrate(&mut self, input: &mut Unstructured) -> Result<()> {
        let Some(id) = self.some_stream(input)? else {
            return Ok(());
        };
        let name = *input.choose(&ROLES)?;
        let device_id = if input.ratio(1, 20)? { 9 } else { DEVICE_ID };
        let election = election(input)?;
        let garbled = input.ratio(1, 15)?;
        let config = garbled.then(|| Any {
            type_url: "type.googleapis.com/of.Somebody".into(),
            value: vec![1, 2, 3],
        });
        let message = p4::MasterArbitrationUpdate {
            device_id,
            role: (!name.is_empty() || garbled).then(|| p4::Role {
                name: name.into(),
                config,
                ..Default::default()
            }),
            election_id: election.map(uint128),
            status: None,
        };
        let role = self.roles.get(name);
        let used = |role: &Role| {
            let mut others = role.live.iter().filter(|(other, _)| **other != id);
            election.is_some() && others.any(|(_, other)| *other == election)
        };
        let known = self.streams[&id].map(|(role, _)| role);
        let expected = match known {
            Some(_) if device_id != DEVICE_ID => Some(Code::FailedPrecondition),
            Some(current) if current != name => Some(Code::FailedPrecondition),
            None if device_id != DEVICE_ID => Some(Code::NotFound),
            _ if garbled || role.is_some_and(used) => Some(Code::InvalidArgument),
            _ => None,
        };
        let said = self.say(id, ToSwitch::Arbitration(message));
        assert_eq!(
            said.err().map(|s| s.code()),
            expected,
            "{election:?} as '{name}'"
        );
        if expected.is_some() {
            self.gone(id);
            return Ok(());
        }
        let role = self.roles.entry(name).or_default();
        role.live.insert(id, election);
        role.highest = role.highest.max(election);
        let before = self.streams[&id].is_some_and(|(_, primary)| primary);
        self.streams.insert(id, Some((name, before)));
        Ok(())
    }

    /// Sends a message other than an arbitration on a stream. Only one without content ends the stream.
    fn speak(&mut self, input: &mut Unstructured) -> Result<()> {
        let Some(id) = self.some_stream(input)? else {
            return Ok(());
        };
        let message = match input.int_in_range(0..=3u8)? {
            0 => Some(ToSwitch::DigestAck(p4::DigestListAck {
                digest_id: input.arbitrary()?,
                list_id: popular(input)?,
            })),
            1 => Some(ToSwitch::Other(Any {
                type_url: "x/y".into(),
                value: input.arbitrary()?,
            })),
            2 if input.ratio(1, 4)? => None,
            _ => {
                let mut metadata = Vec::new();
                for metadata_id in 1..=input.int_in_range(0..=3u32)? {
                    let value = number(input, 9)?;
                    metadata.push(p4::PacketMetadata { metadata_id, value });
                }
                Some(ToSwitch::Packet(p4::PacketOut {
                    payload: input.arbitrary()?,
                    metadata,
                }))
            }
        };
        let ends = message.is_none();
        let is_packet = matches!(message, Some(ToSwitch::Packet(_)));
        let message = p4::StreamMessageRequest { update: message };
        let sent = self.device.packets_out();
        let said = self.sessions.say(id, message);
        assert_eq!(said.is_err(), ends, "{said:?}");
        let sent = self.device.packets_out() - sent;
        assert!(
            sent == 0 || sent == 1 && is_packet && self.is_primary(id) && self.has_program(),
            "{sent} packets out by {id}"
        );
        if ends {
            self.gone(id);
        }
        Ok(())
    }

    /// Whether the specification makes this stream the primary of its role.
    fn is_primary(&self, id: u64) -> bool {
        let role = self.streams.get(&id).copied().flatten();
        role.is_some_and(|(role, _)| self.roles[role].primary() == Some(id))
    }

    fn has_program(&self) -> bool {
        self.device.with_pipeline(|pipeline| pipeline.is_some())
    }

    fn say(&mut self, id: u64, update: ToSwitch) -> std::result::Result<(), Status> {
        let update = Some(update);
        self.sessions.say(id, p4::StreamMessageRequest { update })
    }

    fn emit(&mut self, input: &mut Unstructured) -> Result<()> {
        let event = match input.arbitrary()? {
            true => Event::PacketIn(input.arbitrary()?),
            false => {
                let of_program = |p: &Pipeline| p.digest("learned_t");
                let digest = self.device.with_pipeline(|p| p.map(of_program));
                let Some(Ok(digest)) = digest else {
                    return Ok(());
                };
                let values = vec![number(input, 48)?, number(input, 9)?];
                Event::Digest(Digest { digest, values })
            }
        };
        self.sessions.emit(event);
        Ok(())
    }

    /// Error code that role and election id alone cause, whatever the request contains. None: no error.
    fn expected(&self, role: &str, election: Option<u128>) -> Option<Code> {
        match self.roles.get(role) {
            None if !role.is_empty() => Some(Code::NotFound),
            Some(r) if r.primary().is_some() && election == r.highest => None,
            _ => Some(Code::PermissionDenied),
        }
    }

    fn write(&mut self, input: &mut Unstructured) -> Result<()> {
        let role = *input.choose(&ROLES)?;
        let election = election(input)?;
        let mut updates = Vec::new();
        for _ in 0..input.int_in_range(0..=3u8)? {
            updates.push(update(self.target, input)?);
        }
        let request = p4::WriteRequest {
            device_id: DEVICE_ID,
            role: role.into(),
            election_id: election.map(uint128),
            updates,
            atomicity: input.int_in_range(-1..=3)?,
            ..Default::default()
        };
        let wrong_value = !(0..=2).contains(&request.atomicity);
        let has_program = self.has_program();
        let found = self.sessions.write(request).err().map(|s| s.code());
        match self.expected(role, election) {
            Some(code) => assert_eq!(found, Some(code), "a write of '{role}'"),
            None if !has_program => assert_eq!(found, Some(Code::FailedPrecondition)),
            None if wrong_value => assert_eq!(found, Some(Code::InvalidArgument)),
            None => assert!(matches!(found, None | Some(Code::Unknown)), "{found:?}"),
        }
        Ok(())
    }

    /// Pushes the program of the fixture, or one with a damaged P4Info. A refused push does not reach the switch.
    fn push(&mut self, input: &mut Unstructured) -> Result<()> {
        let role = *input.choose(&ROLES)?;
        let election = election(input)?;
        let mut config = self.target.config().clone();
        if input.ratio(2, 3)? {
            let mut wire = config.p4info.take().unwrap_or_default().encode_to_vec();
            for _ in 0..input.int_in_range(1..=4u8)? {
                let at = input.choose_index(wire.len())?;
                wire[at] = input.arbitrary()?;
            }
            config.p4info = P4Info::decode(wire.as_slice()).ok();
        }
        // Not VERIFY_AND_SAVE: writes then go to the saved config, which the model does not have.
        let actions = [
            Action::Verify,
            Action::VerifyAndCommit,
            Action::ReconcileAndCommit,
        ];
        let action = *input.choose(&actions)?;
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            role: role.into(),
            election_id: election.map(uint128),
            action: action as i32,
            config: Some(config),
            ..Default::default()
        };
        let installs = self.device.installs();
        let found = self.sessions.push(request).err().map(|s| s.code());
        if let Some(code) = self.expected(role, election) {
            assert_eq!(found, Some(code), "a push of '{role}'");
        } else {
            assert!(
                matches!(found, None | Some(Code::InvalidArgument)),
                "{found:?}"
            );
        }
        let done = found.is_none() && action != Action::Verify;
        let now = self.device.installs();
        assert_eq!(now, installs + usize::from(done));
        Ok(())
    }

    /// Reads the messages to all streams. Afterwards each controller has been notified whether it is the primary, and
    /// only a primary has got events of the data plane.
    fn listen(&mut self) {
        for (id, known) in &mut self.streams {
            let primary = known.is_some_and(|(role, _)| self.roles[role].primary() == Some(*id));
            for message in self.sessions.heard(*id) {
                match message.expect("the stream has not ended").update {
                    Some(FromSwitch::Arbitration(notice)) => {
                        let (_, notified) = known.as_mut().expect("has a role");
                        *notified = notice.status.is_some_and(|s| s.code == Code::Ok as i32);
                    }
                    // A refusal.
                    Some(FromSwitch::Error(_)) => {}
                    Some(event) => assert!(primary, "{id} heard {event:?}"),
                    None => panic!("{id} heard nothing"),
                }
            }
            let Some((role, notified)) = *known else {
                continue;
            };
            assert_eq!(notified, primary, "whether {id} is the primary of '{role}'");
        }
    }
}

/// An election id, of so few that controllers often have the same one.
fn election(input: &mut Unstructured) -> Result<Option<u128>> {
    Ok(match input.int_in_range(0..=9u8)? {
        0 => None,
        1 => Some(input.arbitrary()?),
        _ => Some(input.int_in_range(0..=4u128)?),
    })
}

fn uint128(id: u128) -> p4::Uint128 {
    p4::Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}
