//! Priority-based flow control (IEEE 802.1Qbb): PFC frames to the neighbours that the traffic manager
//! wants to pause, and pauses of its queues by the frames of neighbours; advanced flow control of
//! programs for Tofino 2, which stop queues by themselves.
//!
//! MAC control frames belong to the link: they never reach the program, wait in no queue and are
//! not packets of the switch.

use ebb_pipeline::{Pipeline, QueuePause};
use ebb_traffic_manager::{Pfc, Profile, Watchdog};
use ebb_units::Duration;
use ebb_wire::{EthernetHeader, MacAddress, ParseError, PfcFrame};

use super::agenda::Task;
use super::pauses::{Classes, LinkPauses, Watch, classes_in};
use super::{PortId, Switch};
use crate::drops::DropReason;
use crate::trace::Event;

/// Where the type of an Ethernet frame lies.
const ETHERTYPE: std::ops::Range<usize> = 12..14;

/// Whether a frame is a MAC control frame (IEEE 802.3, clause 31), by its type.
pub(super) fn is_mac_control(frame: &[u8]) -> bool {
    frame.get(ETHERTYPE) == Some(&PfcFrame::ETHERTYPE.to_be_bytes())
}

/// The pauses of all links, by port number.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    links: Vec<LinkPauses>,
}

impl FlowControl {
    fn link(&mut self, port: PortId) -> &mut LinkPauses {
        let index = usize::from(port);
        if self.links.len() <= index {
            self.links.resize_with(index + 1, LinkPauses::default);
        }
        &mut self.links[index]
    }
}

impl Switch {
    /// Takes a MAC control frame.
    pub(super) fn receive_control(&mut self, port: PortId, bytes: &[u8]) {
        let parsed = EthernetHeader::parse(bytes).and_then(|frame| PfcFrame::parse(&frame));
        let reason = match parsed {
            Ok(frame) if self.lossless(port) != 0 => {
                let len = bytes.len() as u64;
                self.manager.control_received(self.now, port, len);
                return self.receive_pfc(port, frame);
            }
            Ok(_) | Err(ParseError::Opcode { .. } | ParseError::NotMacControl) => {
                DropReason::MacControlIgnored
            }
            Err(_) => DropReason::MacControlMalformed,
        };
        self.count_interface_drop(port, reason, 1, bytes.len() as u64);
    }

    /// Takes a PFC frame, which takes effect when the switch has had time to respond.
    fn receive_pfc(&mut self, port: PortId, frame: PfcFrame) {
        self.trace_link(port, || Event::PauseReceived { port, frame });
        let response = self.pfc().map_or(0, |pfc| pfc.response_ns);
        let at = self.now + Duration::from_nanos(response);
        self.agenda.add(at, Task::Obey { port, frame });
    }

    /// Obeys a PFC frame.
    pub(super) fn obey(&mut self, port: PortId, frame: &PfcFrame) {
        let (classes, watch, now) = (self.lossless(port), self.watch_of_pauses(), self.now);
        let bits = self.time_of_bits(port);
        let link = self.flow_control.link(port);
        let change = link.obey(now, frame, classes, watch, bits);
        if change.calmed {
            self.trace_link(port, || Event::PausesObeyedAgain { port });
        }
        self.set_paused(port, change.stop, true);
        self.set_paused(port, change.go, false);
        self.plan_review(port);
    }

    /// Ends pauses that have expired, and looks for storms.
    pub(super) fn review_pauses(&mut self, port: PortId) {
        let (watch, now) = (self.watch_of_pauses(), self.now);
        let review = self.flow_control.link(port).review(now, watch);
        self.set_paused(port, review.expired | review.ignored, false);
        if review.expired != 0 {
            let classes = review.expired;
            for class in classes_in(classes) {
                self.manager.pause_expired(port, class);
            }
            self.trace_link(port, || Event::PauseExpired { port, classes });
        }
        let ignored = watch.is_some_and(|watch| watch.quiet.is_some());
        for (class, lasted) in review.storms {
            self.manager.pause_storm(port, class);
            tracing::warn!(
                "{}: pause storm: port {port} has been told to pause class {class} for {:.0} ms without end{}",
                self.name(),
                lasted.as_picos() as f64 / 1e9,
                if ignored {
                    "; its pauses are ignored from now on"
                } else {
                    ""
                }
            );
            self.trace_link(port, || Event::PauseStorm {
                port,
                class,
                lasted,
                ignored,
            });
        }
        self.plan_review(port);
    }

    /// Asks neighbours to stop and resume, as the traffic manager says.
    pub(super) fn send_pauses(&mut self) {
        while let Some(change) = self.manager.take_pause() {
            let link = self.flow_control.link(change.port);
            let frame = link.ask(change.changed, change.paused);
            self.send_pfc(change.port, frame);
        }
    }

    /// Repeats the pauses that a port asked for, if they are due.
    pub(super) fn refresh_pauses(&mut self, port: PortId) {
        if let Some(frame) = self.flow_control.link(port).refresh(self.now) {
            self.send_pfc(port, frame);
        }
    }

    /// Sends a PFC frame before all that waits, once the port has sent the frame that it is sending.
    fn send_pfc(&mut self, port: PortId, frame: PfcFrame) {
        if !self.has_link(port) {
            return;
        }
        let mut bytes = Vec::with_capacity(PfcFrame::BYTES);
        frame.emit(self.port_address(port), &mut bytes);
        let len = bytes.len() as u64;
        let sent = self.manager.transmit_control(self.now, port, len);
        self.trace_link(port, || Event::PauseSent { port, frame });
        let (at, frame) = (sent.arrival, bytes);
        self.effects.send(at, port, frame);
        let bits = self.time_of_bits(port);
        let due = self.flow_control.link(port).next_refresh(self.now, bits);
        if let Some(at) = due {
            self.agenda.add(at, Task::Refresh { port });
        }
    }

    /// The address from which a port sends MAC control frames: a locally administered one, from the
    /// low 16 bits of the device id and the port.
    fn port_address(&self, port: PortId) -> MacAddress {
        let [device_high, device_low] = (self.options.device_id as u16).to_be_bytes();
        let [port_high, port_low] = port.to_be_bytes();
        MacAddress([0x02, 0xeb, device_high, device_low, port_high, port_low])
    }

    /// Lets classes resume that take part no more after a new configuration.
    pub(super) fn revise_pauses(&mut self) {
        for port in 0..self.flow_control.links.len() as PortId {
            let lossless = self.lossless(port);
            let go = self.flow_control.link(port).end_others(lossless);
            self.set_paused(port, go, false);
            self.plan_review(port);
        }
    }

    /// Adds the next review of a port's pauses to the agenda.
    fn plan_review(&mut self, port: PortId) {
        let watch = self.watch_of_pauses();
        if let Some(at) = self.flow_control.link(port).next_review(watch) {
            self.agenda.add(at, Task::Review { port });
        }
    }

    /// Stops a queue or lets it resume, as the packet asks that has just left ingress or egress. This comes before
    /// the packet is queued or sent; a frame that is being serialised still goes out.
    #[cold]
    pub(super) fn obey_program(&mut self) {
        let pause = self.pipeline.as_mut().and_then(Pipeline::take_queue_pause);
        let Some(QueuePause {
            port,
            queue,
            paused,
        }) = pause
        else {
            return;
        };
        self.tracer.note(|| Event::QueuePaused {
            port,
            queue,
            paused,
        });
        self.manager
            .set_paused_by_program(self.now, port, queue, paused);
        self.schedule(port);
    }

    /// Stops these queues of a port, or lets them resume.
    fn set_paused(&mut self, port: PortId, classes: Classes, paused: bool) {
        for class in classes_in(classes) {
            self.manager.set_paused(self.now, port, class, paused);
        }
        if classes != 0 {
            self.schedule(port);
        }
    }

    /// The configuration of flow control; `None` if there is none.
    fn pfc(&self) -> Option<&Pfc> {
        self.manager.config().pfc.as_ref()
    }

    /// The classes of a port that take part in flow control.
    fn lossless(&self, port: PortId) -> Classes {
        let config = self.manager.config();
        let profile = config.pfc.as_ref().and_then(|_| config.profile_of(port));
        profile.map_or(0, Profile::lossless)
    }

    /// When pauses are storms; `None` if nobody looks.
    fn watch_of_pauses(&self) -> Option<Watch> {
        let pfc = self.pfc().filter(|pfc| pfc.watchdog_ns > 0)?;
        let storm = Duration::from_nanos(pfc.watchdog_ns);
        Some(Watch {
            storm,
            quiet: (pfc.watchdog == Watchdog::Ignore).then_some(storm),
        })
    }

    /// Time of this many bits on the link of a port; `None` if it has no rate.
    fn time_of_bits(&self, port: PortId) -> impl Fn(u64) -> Option<Duration> + use<> {
        let rate = self.manager.rate(port);
        move |bits| (!rate.is_zero()).then(|| rate.time_for(bits / 8))
    }

    /// Tells those who watch a port what happened at its link.
    fn trace_link(&mut self, port: PortId, event: impl FnOnce() -> Event) {
        self.tracer
            .note_link(&self.options.name, self.now, port, event);
    }
}
