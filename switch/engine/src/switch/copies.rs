//! Copies of packets for multicast groups and clone sessions.

use ebb_pipeline::{CloneRequest, Packet, control::Replica};

use super::{Journey, MAX_PASSES, Switch};
use crate::drops::DropReason;
use crate::trace::Event;

impl Switch {
    /// Sends copies of a packet to the members of a multicast group.
    pub(super) fn multicast(&mut self, group: u16, packet: Box<Packet>, journey: Journey) {
        let mut replicas = std::mem::take(&mut self.replicas);
        replicas.clear();
        if let Some(pipeline) = &self.pipeline {
            replicas.extend_from_slice(pipeline.multicast_replicas(group));
        }
        self.tracer.note(|| Event::Multicast {
            group,
            replicas: replicas.clone(),
        });
        if replicas.is_empty() {
            self.drop_packet(packet, &journey, DropReason::NoReplica);
        } else {
            self.replicate(&replicas, None, packet, journey);
        }
        self.replicas = replicas;
    }

    /// Sends copies of a packet to the members of a clone session.
    pub(super) fn clone_packet(&mut self, clone: CloneRequest, original: &mut Journey) {
        self.tally.ledger.came(1);
        if !original.may_copy() {
            return self.drop_packet(clone.packet, original, DropReason::CopyLimit);
        }
        let journey = original.clone().next_pass();
        if journey.passes >= MAX_PASSES {
            return self.drop_packet(clone.packet, &journey, DropReason::PassLimit);
        }
        let session = self
            .pipeline
            .as_ref()
            .and_then(|p| p.clone_session(clone.session));
        self.tracer.note(|| Event::Cloned {
            session: clone.session,
            replicas: session.map_or_else(Vec::new, |s| s.replicas.clone()),
        });
        // A session that does not exist makes no copy, as on BMv2.
        let Some(session) = session.cloned() else {
            self.tally.ledger.consumed(1);
            return self.recycle(clone.packet);
        };
        let queue = Some(session.class_of_service as u8);
        self.replicate(&session.replicas, queue, clone.packet, journey);
    }

    /// Queues a copy of a packet of Tofino for each replica.
    pub(super) fn copies(&mut self, replicas: &[Replica], packet: Box<Packet>, journey: Journey) {
        if replicas.is_empty() {
            return self.drop_packet(packet, &journey, DropReason::NoReplica);
        }
        self.replicate(replicas, None, packet, journey);
    }

    /// Queues a copy of a packet for each replica. `queue` overrides the packet's own priority.
    fn replicate(
        &mut self,
        replicas: &[Replica],
        queue: Option<u8>,
        mut packet: Box<Packet>,
        mut journey: Journey,
    ) {
        let Some(pipeline) = &mut self.pipeline else {
            return;
        };
        let queue = queue.unwrap_or_else(|| pipeline.priority(&packet));
        let Some((last, others)) = replicas.split_last() else {
            self.tally.ledger.consumed(1);
            return self.recycle(packet);
        };
        self.tally.ledger.came(others.len() as u64);
        for replica in others {
            if !journey.may_copy() {
                let len = packet.wire_len() as u64;
                self.drop_one(journey.ingress_port, DropReason::CopyLimit.as_str(), len);
                continue;
            }
            // Queueing a copy may need the pipeline, so it is borrowed anew for each.
            let Some(pipeline) = &mut self.pipeline else {
                return;
            };
            let mut copy = pipeline.clone_packet(&packet);
            copy.journey = Journey {
                egress_rid: replica.instance,
                is_replica: journey.is_replica || replica.instance != 0,
                ..journey.clone()
            };
            self.offer(replica.port, queue, copy);
        }
        journey.egress_rid = last.instance;
        journey.is_replica |= last.instance != 0;
        packet.journey = journey;
        self.offer(last.port, queue, packet);
    }
}
