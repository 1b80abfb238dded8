//! Events of a packet, as a message of the trace service.

use ebb_engine::trace::{Cause, Event, PfcFrame, Visit};
use ebb_p4runtime::proto::trace as proto;
use ebb_p4runtime::proto::trace::event::Event as Kind;
use ebb_pipeline::control::Replica;
use ebb_pipeline::trace::{Change, Choice, TraceEvent, Value};
use ebb_traffic_manager::Depth;

/// The message about a visit of a packet to a switch.
pub fn message(visit: &Visit) -> proto::Visit {
    let event = |event: &Event| proto::Event {
        text: event.to_string(),
        event: Some(kind(event)),
    };
    proto::Visit {
        time_ns: visit.at.as_nanos(),
        packet_id: visit.packet_id,
        events: visit.events.iter().map(event).collect(),
        lost: 0,
    }
}

fn kind(event: &Event) -> Kind {
    use proto::flow_control::What as Pause;
    use proto::queue::What;
    match event {
        Event::Pipeline(event) => pipeline(event),
        Event::Enters { port, cause, frame } => Kind::Enters(proto::Enters {
            port: u32::from(*port),
            cause: match cause {
                Cause::Arrived => proto::enters::Cause::Arrived,
                Cause::Resubmitted => proto::enters::Cause::Resubmitted,
                Cause::Recirculated => proto::enters::Cause::Recirculated,
                Cause::Deflected => proto::enters::Cause::Deflected,
            }
            .into(),
            frame: frame.clone(),
        }),
        Event::Cloned { session, replicas } => {
            copies(proto::copies::Of::CloneSession(*session), replicas)
        }
        Event::Multicast { group, replicas } => copies(
            proto::copies::Of::MulticastGroup(u32::from(*group)),
            replicas,
        ),
        Event::Enqueued {
            port, queue, depth, ..
        } => Kind::Queue(at_queue(What::Enqueued, *port, *queue, *depth)),
        Event::Deflected { port, queue, depth } => {
            Kind::Queue(at_queue(What::Deflected, *port, *queue, *depth))
        }
        Event::Refused {
            port,
            queue,
            reason,
            depth,
        } => Kind::Queue(proto::Queue {
            reason: (*reason).to_owned(),
            ..at_queue(What::Dropped, *port, *queue, *depth)
        }),
        Event::Dequeued {
            port,
            queue,
            waited,
            depth,
            ..
        } => Kind::Queue(proto::Queue {
            waited_ns: waited.as_nanos(),
            ..at_queue(What::Dequeued, *port, *queue, *depth)
        }),
        Event::Dropped { reason } => Kind::Dropped((*reason).to_owned()),
        Event::Sent { port, frame, .. } => Kind::Sent(proto::Sent {
            port: u32::from(*port),
            frame: frame.clone(),
        }),
        Event::PauseSent { port, frame } => {
            Kind::FlowControl(pauses(Pause::Sent, *port, classes_of(frame)))
        }
        Event::PauseReceived { port, frame } => {
            Kind::FlowControl(pauses(Pause::Received, *port, classes_of(frame)))
        }
        Event::PauseExpired { port, classes } => {
            let classes = (0..8).filter(|class| classes >> class & 1 == 1);
            Kind::FlowControl(pauses(
                Pause::Expired,
                *port,
                classes.map(|class| (class, 0)),
            ))
        }
        Event::PauseStorm {
            port,
            class,
            lasted,
            ignored,
        } => Kind::FlowControl(proto::FlowControl {
            lasted_ns: lasted.as_nanos(),
            ignored: *ignored,
            ..pauses(Pause::Storm, *port, [(u32::from(*class), 0)])
        }),
        Event::PausesObeyedAgain { port } => {
            Kind::FlowControl(pauses(Pause::ObeyedAgain, *port, []))
        }
        Event::Digest { .. }
        | Event::QueuePaused { .. }
        | Event::Resubmitted
        | Event::Recirculated => Kind::Other(proto::Empty {}),
    }
}

fn at_queue(what: proto::queue::What, port: u16, queue: u8, depth: Depth) -> proto::Queue {
    proto::Queue {
        what: what.into(),
        port: u32::from(port),
        queue: u32::from(queue),
        depth_packets: depth.packets,
        depth_bytes: depth.bytes,
        ..proto::Queue::default()
    }
}

fn pauses(
    what: proto::flow_control::What,
    port: u16,
    classes: impl IntoIterator<Item = (u32, u32)>,
) -> proto::FlowControl {
    let class = |(class, quanta)| proto::flow_control::Class { class, quanta };
    proto::FlowControl {
        what: what.into(),
        port: u32::from(port),
        classes: classes.into_iter().map(class).collect(),
        ..proto::FlowControl::default()
    }
}

/// The classes that a PFC frame names, with their quanta.
fn classes_of(frame: &PfcFrame) -> impl Iterator<Item = (u32, u32)> {
    let classes = (0..).zip(frame.quanta);
    classes.filter_map(|(class, quanta)| Some((class, u32::from(quanta?))))
}

fn copies(of: proto::copies::Of, replicas: &[Replica]) -> Kind {
    let replica = |r: &Replica| proto::copies::Replica {
        port: u32::from(r.port),
        instance: u32::from(r.instance),
    };
    Kind::Copies(proto::Copies {
        of: Some(of),
        replicas: replicas.iter().map(replica).collect(),
    })
}

fn value(value: &Value) -> Option<proto::Value> {
    Some(proto::Value {
        bits: value.bits,
        value: value.bytes.clone(),
    })
}

fn field(name: &str, of: &Value) -> proto::Field {
    proto::Field {
        name: name.to_owned(),
        value: value(of),
    }
}

fn pipeline(event: &TraceEvent) -> Kind {
    match event {
        TraceEvent::State(name) => Kind::ParserState(name.clone()),
        TraceEvent::Extract {
            header,
            bytes,
            fields,
        } => Kind::Extract(proto::Extract {
            header: header.clone(),
            bytes: *bytes,
            fields: fields.iter().map(|(name, v)| field(name, v)).collect(),
        }),
        TraceEvent::Select { key, next } => Kind::Select(proto::Select {
            key: key.iter().filter_map(value).collect(),
            next: next.clone().unwrap_or_default(),
        }),
        TraceEvent::ParserEnd {
            error,
            parsed_bytes,
            payload_bytes,
        } => Kind::ParserEnd(proto::ParserEnd {
            error: error.clone(),
            parsed_bytes: *parsed_bytes,
            payload_bytes: *payload_bytes,
        }),
        TraceEvent::Checksum {
            field,
            found,
            expected,
        } => Kind::Checksum(proto::Checksum {
            field: field.clone(),
            found: value(found),
            expected: value(expected),
        }),
        TraceEvent::Condition { source, value } => Kind::Condition(proto::Condition {
            condition: source.text.clone(),
            source: source.at.clone(),
            value: *value,
        }),
        TraceEvent::Table(table) => {
            let (group, member) = match table.choice {
                Some(Choice::Member(member)) => (0, member),
                Some(Choice::Group { group, member, .. }) => (group, member.unwrap_or_default()),
                _ => (0, 0),
            };
            let (action, arguments) = table.action.clone().unwrap_or_default();
            Kind::Table(proto::Table {
                table: table.table.clone(),
                key: table.key.iter().map(|k| field(&k.name, &k.value)).collect(),
                hit: table.entry.is_some(),
                priority: table.entry.as_ref().map_or(0, |e| e.priority),
                action,
                arguments: arguments.iter().map(|(name, v)| field(name, v)).collect(),
                group,
                member,
            })
        }
        TraceEvent::Statements(source) => Kind::Statements(proto::Statements {
            action: source.text.clone(),
            source: source.at.clone(),
        }),
        TraceEvent::Changed(Change::Field { field, from, to }) => Kind::Change(proto::Change {
            field: field.clone(),
            from: value(from),
            to: value(to),
        }),
        TraceEvent::Changed(Change::Validity { header, valid }) => {
            Kind::Validity(proto::Validity {
                header: header.clone(),
                valid: *valid,
            })
        }
        TraceEvent::Deparse {
            headers,
            header_bytes,
            payload_bytes,
        } => Kind::Deparse(proto::Deparse {
            headers: headers.clone(),
            header_bytes: *header_bytes,
            payload_bytes: *payload_bytes,
        }),
        TraceEvent::RegisterRead { .. }
        | TraceEvent::RegisterWrite { .. }
        | TraceEvent::Count { .. }
        | TraceEvent::Meter { .. }
        | TraceEvent::Log(_)
        | TraceEvent::Exit
        | TraceEvent::Cut => Kind::Other(proto::Empty {}),
    }
}
