//! The packet generator of Tofino: applications that send packets from a buffer into ingress, set off by a timer, by a
//! port that goes down, or by a packet that comes round again.
//!
//! ```text
//! a trigger:  batch 0: packet 0, 1, .. ─ batch gap ─ batch 1: packet 0, 1, .. ─ ..
//! a packet:   header of 6 bytes (pipe, application, batch, packet) ─ bytes of the buffer
//! ```
//!
//! Each pipe has a generator, at port 68 of the pipe on Tofino and at its ports 0 to 7 on Tofino 2. What is set here
//! holds for all pipes, and the counts are those of all.

use std::collections::{BTreeMap, BTreeSet};

use ebb_units::{BitRate, Duration, Instant};

/// Bytes of the buffer.
pub const BUFFER_BYTES: usize = 16 * 1024;
/// The rate at which a generator sends: that of the port it shares.
const RATE: BitRate = BitRate::from_mbps(100_000);
/// Bytes of a packet on a link besides its own: FCS, preamble and gap.
const OVERHEAD_BYTES: u64 = 24;
/// Most triggers that are worked off at the same time; those beyond are lost.
const MAX_RUNS: usize = 1024;
/// Number of the port in a pipe.
const PORT_IN_PIPE: u16 = 0x7f;

/// The event that sets an application off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The time after it is enabled, once.
    Once(Duration),
    /// The time after it is enabled, and again after as much. A trigger that comes before the packets of the last have
    /// left is lost.
    Every(Duration),
    /// A port that goes down, after it was rearmed. On Tofino 2 those of one of the two masks.
    PortDown {
        /// Number of the mask; Tofino has none.
        mask: u8,
    },
    /// A packet that comes back to ingress by a port that looks for patterns, and begins so: with 4 bytes on Tofino,
    /// with 16 on Tofino 2.
    Pattern {
        /// Its bytes.
        value: u128,
        /// The bits that are compared.
        mask: u128,
    },
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Application {
    /// The event that sets it off; `None`: nothing.
    pub trigger: Option<Trigger>,
    /// Whether triggers have an effect.
    pub is_enabled: bool,
    /// Length of a packet without the header of the generator, in bytes.
    pub length: usize,
    /// Where in the buffer the packet begins, in bytes.
    pub offset: usize,
    /// The port of the pipe that ingress sees; `None`: that of the generator.
    pub source_port: Option<u16>,
    /// The port of the pipe that generates, on Tofino 2; `None`: any that does.
    pub channel: Option<u16>,
    /// Batches of a trigger, less one.
    pub more_batches: u16,
    /// Packets of a batch, less one.
    pub more_packets: u16,
    /// From the start of a batch to that of the next; on Tofino 2 from its end.
    pub batch_gap: Duration,
    /// From the start of a packet to that of the next; on Tofino 2 from its end.
    pub packet_gap: Duration,
    /// Triggers, batches and packets so far.
    pub counts: [u64; 3],
}

/// Role of a port in the generation of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRole {
    /// Whether its pipe generates packets at it.
    pub generates: bool,
    /// Whether packets that come back by it are compared with patterns.
    pub looks_for_patterns: bool,
}

/// A trigger whose packets are being generated.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The port that went down, or the first bytes of the packet, which its packets have in their header.
    cause: u128,
    /// Start of the present batch.
    batch_at: Instant,
    /// The next packet.
    batch: u16,
    packet: u16,
}

/// An application and the port that generates.
type Place = (u8, u16);

/// The generators of a switch.
#[derive(Debug)]
pub struct Generator {
    /// Generation of the chip, 1 or 2.
    generation: u8,
    applications: Vec<Application>,
    buffer: Vec<u8>,
    /// Roles by port; ports without an entry have none.
    ports: BTreeMap<u16, PortRole>,
    /// The ports of a pipe that are triggers when they go down, on Tofino 2.
    masks: [u128; 2],
    /// Ports that trigger applications when they go down next.
    armed: BTreeSet<u16>,
    /// When the timer of an application ends.
    timers: BTreeSet<(Instant, u8)>,
    /// Triggers by the time of their next packet, and by number where several are at one place.
    runs: BTreeMap<(Instant, Place, u64), Run>,
    /// Triggers so far.
    triggers: u64,
}

impl Generator {
    /// Generators of a chip of this generation, without applications.
    pub(crate) fn new(generation: u8) -> Generator {
        let count = if generation == 1 { 8 } else { 16 };
        Generator {
            generation,
            applications: vec![Application::default(); count],
            buffer: vec![0; BUFFER_BYTES],
            ports: BTreeMap::new(),
            masks: [0; 2],
            armed: BTreeSet::new(),
            timers: BTreeSet::new(),
            runs: BTreeMap::new(),
            triggers: 0,
        }
    }

    /// The applications by number.
    pub fn applications(&self) -> &[Application] {
        &self.applications
    }

    /// Changes an application; false: there is none of this number. One that is enabled anew starts its timer, and one
    /// that is disabled ends in the midst of its packets.
    pub fn set_application(&mut self, now: Instant, number: u8, to: Application) -> bool {
        let Some(application) = self.applications.get_mut(usize::from(number)) else {
            return false;
        };
        let was_enabled = std::mem::replace(application, to).is_enabled;
        let application = &self.applications[usize::from(number)];
        if application.is_enabled != was_enabled {
            self.timers.retain(|(_, of)| *of != number);
            self.runs.retain(|(_, (of, _), _), _| *of != number);
        }
        match application.trigger {
            Some(Trigger::Once(after) | Trigger::Every(after))
                if application.is_enabled && !was_enabled =>
            {
                self.timers.insert((now + after, number));
            }
            _ => {}
        }
        true
    }

    /// The packets that applications send.
    pub fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Writes bytes to the buffer; false: they do not fit.
    pub fn write_buffer(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let end = offset.checked_add(bytes.len());
        let place = end.and_then(|end| self.buffer.get_mut(offset..end));
        place.map(|place| place.copy_from_slice(bytes)).is_some()
    }

    /// The ports that take part.
    pub fn ports(&self) -> impl Iterator<Item = (u16, PortRole)> {
        self.ports.iter().map(|(port, role)| (*port, *role))
    }

    /// Says how a port takes part.
    pub fn set_port(&mut self, port: u16, role: PortRole) {
        match role == PortRole::default() {
            true => self.ports.remove(&port),
            false => self.ports.insert(port, role),
        };
    }

    /// Lets a port set applications off when it goes down the next time.
    pub fn rearm(&mut self, port: u16) {
        self.armed.insert(port);
    }

    /// The masks of ports.
    pub fn masks(&self) -> [u128; 2] {
        self.masks
    }

    /// Sets a mask: the ports of a pipe by bit.
    pub fn set_mask(&mut self, number: usize, mask: u128) {
        self.masks[number] = mask;
    }

    /// A port has gone down.
    pub(crate) fn port_down(&mut self, now: Instant, port: u16) {
        if !self.armed.remove(&port) {
            return;
        }
        let bit = 1 << (port & PORT_IN_PIPE);
        let (is_masked, masks) = (self.generation == 2, self.masks);
        let of_mask = |mask: u8| !is_masked || masks[usize::from(mask & 1)] & bit != 0;
        let is_set_off =
            |trigger| matches!(trigger, Some(Trigger::PortDown { mask }) if of_mask(mask));
        self.set_off(now, port, port.into(), is_set_off);
    }

    /// A packet comes back to ingress by this port.
    pub(crate) fn comes_back(&mut self, now: Instant, port: u16, frame: &[u8]) {
        if !self
            .ports
            .get(&port)
            .is_some_and(|role| role.looks_for_patterns)
        {
            return;
        }
        let long = if self.generation == 1 { 4 } else { 16 };
        let Some(first) = frame.get(..long) else {
            return;
        };
        let first = first
            .iter()
            .fold(0u128, |sum, byte| sum << 8 | u128::from(*byte));
        let is_set_off = |trigger| match trigger {
            Some(Trigger::Pattern { value, mask }) => first & mask == value & mask,
            _ => false,
        };
        self.set_off(now, port, first, is_set_off);
    }

    /// Sets the applications off whose trigger this is, in the pipe of a port.
    fn set_off(
        &mut self,
        now: Instant,
        port: u16,
        cause: u128,
        is_set_off: impl Fn(Option<Trigger>) -> bool,
    ) {
        for number in 0..self.applications.len() as u8 {
            let application = &self.applications[usize::from(number)];
            if application.is_enabled && is_set_off(application.trigger) {
                let generating = self.generating(number);
                let in_pipe = generating
                    .into_iter()
                    .find(|at| at & !PORT_IN_PIPE == port & !PORT_IN_PIPE);
                if let Some(at) = in_pipe {
                    self.start(now, (number, at), cause);
                }
            }
        }
    }

    /// The ports that generate the packets of an application, one of each pipe.
    fn generating(&self, number: u8) -> Vec<u16> {
        let channel = self.applications[usize::from(number)].channel;
        let ports = self.ports.iter().filter(|(port, role)| {
            role.generates && channel.is_none_or(|channel| *port & PORT_IN_PIPE == channel)
        });
        let mut ports: Vec<u16> = ports.map(|(port, _)| *port).collect();
        ports.dedup_by_key(|port| *port & !PORT_IN_PIPE);
        ports
    }

    /// Begins the packets of a trigger.
    fn start(&mut self, now: Instant, place: Place, cause: u128) {
        if self.runs.len() >= MAX_RUNS {
            return;
        }
        self.triggers += 1;
        self.applications[usize::from(place.0)].counts[0] += 1;
        let run = Run {
            cause,
            batch_at: now,
            batch: 0,
            packet: 0,
        };
        self.runs.insert((now, place, self.triggers), run);
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let packet = self.runs.first_key_value().map(|((at, ..), _)| *at);
        Instant::earliest([timer, packet])
    }

    /// The next packet that is due, and the port at which ingress sees it.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(u16, Vec<u8>)> {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            self.time_is_over(at, number);
        }
        let first = self.runs.first_entry()?;
        let (at, place, trigger) = *first.key();
        if at > now {
            return None;
        }
        let run = first.remove();
        let packet = self.packet(place, run);
        self.go_on(at, place, trigger, run);
        Some(packet)
    }

    /// Sets an application off whose timer has ended.
    fn time_is_over(&mut self, at: Instant, number: u8) {
        for port in self.generating(number) {
            if !self.runs.keys().any(|(_, of, _)| *of == (number, port)) {
                self.start(at, (number, port), 0);
            }
        }
        if let Some(Trigger::Every(time)) = self.applications[usize::from(number)].trigger {
            // A time of 0 would never end.
            let time = time.max(Duration::from_nanos(1));
            self.timers.insert((at + time, number));
        }
    }

    /// Header and bytes of a packet, and its port.
    fn packet(&mut self, (number, at): Place, run: Run) -> (u16, Vec<u8>) {
        let application = &mut self.applications[usize::from(number)];
        application.counts[1] += u64::from(run.packet == 0);
        application.counts[2] += 1;
        let pipe = (at >> 7) as u8;
        let is_first = self.generation == 1;
        let application_bits = if is_first { 3 } else { 4 };
        let mut frame = vec![pipe << application_bits | number];
        let bytes = run.cause.to_be_bytes();
        match application.trigger {
            Some(Trigger::PortDown { .. }) => frame.extend_from_slice(&bytes[13..]),
            Some(Trigger::Pattern { .. }) if is_first => frame.extend_from_slice(&bytes[13..]),
            _ => {
                frame.push(0);
                frame.extend_from_slice(&run.batch.to_be_bytes());
            }
        }
        frame.extend_from_slice(&run.packet.to_be_bytes());
        if matches!(application.trigger, Some(Trigger::Pattern { .. })) && !is_first {
            frame.extend_from_slice(&bytes);
        }
        let from = application.offset.min(BUFFER_BYTES);
        let to = (from + application.length).min(BUFFER_BYTES);
        frame.extend_from_slice(&self.buffer[from..to]);
        let local = application.source_port.unwrap_or(at & PORT_IN_PIPE);
        (at & !PORT_IN_PIPE | local & PORT_IN_PIPE, frame)
    }

    /// Notes when the packet after this one is due, if there is one.
    fn go_on(&mut self, at: Instant, place: Place, trigger: u64, run: Run) {
        let application = &self.applications[usize::from(place.0)];
        let busy = RATE.time_for(application.length as u64 + OVERHEAD_BYTES);
        let after = |start: Instant, gap: Duration| match self.generation {
            1 => (start + gap).max(at + busy),
            _ => at + busy + gap,
        };
        let (due, next) = if run.packet < application.more_packets {
            let packet = run.packet + 1;
            (after(at, application.packet_gap), Run { packet, ..run })
        } else if run.batch < application.more_batches {
            let batch_at = after(run.batch_at, application.batch_gap);
            let next = Run {
                batch_at,
                batch: run.batch + 1,
                packet: 0,
                ..run
            };
            (batch_at, next)
        } else {
            return;
        };
        self.runs.insert((due, place, trigger), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATES: PortRole = PortRole {
        generates: true,
        looks_for_patterns: true,
    };

    fn generator(generation: u8, trigger: Trigger) -> Generator {
        let mut generator = Generator::new(generation);
        generator.set_port(if generation == 1 { 68 } else { 6 }, GENERATES);
        assert!(generator.write_buffer(32, &[0xaa, 0xbb]));
        assert!(generator.set_application(us(1), 5, application(trigger)));
        generator
    }

    fn application(trigger: Trigger) -> Application {
        Application {
            trigger: Some(trigger),
            is_enabled: true,
            length: 2,
            offset: 32,
            more_packets: 1,
            ..Application::default()
        }
    }

    fn us(time: u64) -> Instant {
        Instant::from_micros(time)
    }

    /// Everything that happens until a time: when, where, and the bytes.
    fn all(generator: &mut Generator, until: Instant) -> Vec<(u64, u16, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(at) = generator.next().filter(|at| *at <= until) {
            while let Some((port, frame)) = generator.take(at) {
                all.push((at.as_nanos(), port, frame));
            }
        }
        all
    }

    #[test]
    fn a_timer_sends_batches_with_their_numbers_once() {
        let mut g = generator(1, Trigger::Once(Duration::from_micros(1)));
        let mut again = g.applications()[5].clone();
        again.more_batches = 1;
        again.packet_gap = Duration::from_nanos(100);
        again.batch_gap = Duration::from_nanos(1000);
        g.set_application(us(1), 5, again);
        let frame = |batch, packet| vec![5, 0, 0, batch, 0, packet, 0xaa, 0xbb];
        let expected = vec![
            (2000, 68, frame(0, 0)),
            (2100, 68, frame(0, 1)),
            (3000, 68, frame(1, 0)),
            (3100, 68, frame(1, 1)),
        ];
        assert_eq!(all(&mut g, us(100)), expected);
        assert_eq!(g.applications()[5].counts, [1, 2, 4]);
        assert_eq!(g.next(), None);
    }

    #[test]
    fn on_tofino_2_gaps_begin_at_the_end_and_packets_take_their_time() {
        let mut g = generator(2, Trigger::Once(Duration::from_micros(1)));
        let times = |g: &mut Generator| -> Vec<u64> {
            all(g, us(100)).into_iter().map(|(at, ..)| at).collect()
        };
        // 26 bytes at 100 Gbit/s are 2.08 ns.
        assert_eq!(times(&mut g), [2000, 2002]);
        let mut again = g.applications()[5].clone();
        again.is_enabled = false;
        g.set_application(us(200), 5, again.clone());
        (again.is_enabled, again.packet_gap) = (true, Duration::from_nanos(100));
        g.set_application(us(200), 5, again);
        let made: Vec<_> = all(&mut g, us(300)).into_iter().map(|of| of.0).collect();
        assert_eq!(made, [201_000, 201_102]);
    }

    #[test]
    fn a_period_goes_on_until_the_application_is_disabled_and_misses_what_it_cannot_do() {
        let mut g = generator(1, Trigger::Every(Duration::from_micros(10)));
        assert_eq!(all(&mut g, us(35)).len(), 6);
        let mut slow = g.applications()[5].clone();
        slow.packet_gap = Duration::from_micros(15);
        g.set_application(us(35), 5, slow.clone());
        // Triggers at 41, 61 and 81: those between find the last not ended.
        assert_eq!(all(&mut g, us(90)).len(), 5);
        slow.is_enabled = false;
        g.set_application(us(90), 5, slow);
        assert_eq!(g.next(), None);
    }

    #[test]
    fn a_port_sets_off_once_until_it_is_rearmed() {
        let mut g = generator(1, Trigger::PortDown { mask: 0 });
        g.port_down(us(2), 3);
        assert_eq!(all(&mut g, us(3)), []);
        g.rearm(3);
        g.port_down(us(4), 3);
        g.port_down(us(5), 3);
        let made = all(&mut g, us(6));
        assert_eq!(made.len(), 2);
        assert_eq!(made[1].2, [5, 0, 0, 3, 0, 1, 0xaa, 0xbb]);
        // The generator of another pipe is asleep.
        g.rearm(0x83);
        g.port_down(us(7), 0x83);
        assert_eq!(all(&mut g, us(8)), []);
    }

    #[test]
    fn a_mask_of_tofino_2_says_which_ports_count() {
        let mut g = generator(2, Trigger::PortDown { mask: 1 });
        g.set_mask(1, 1 << 9);
        for port in [8, 9] {
            g.rearm(port);
            g.port_down(us(2), port);
        }
        let made = all(&mut g, us(3));
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].2, [5, 0, 0, 9, 0, 0, 0xaa, 0xbb]);
    }

    #[test]
    fn a_packet_that_comes_round_again_sets_off_by_its_first_bytes() {
        let pattern = Trigger::Pattern {
            value: 0xff01_0203,
            mask: 0xffff_ff00,
        };
        let mut g = generator(1, pattern);
        for frame in [&[0xff, 1, 2, 9, 7][..], &[0xff, 1, 3, 9, 7], &[0xff, 1, 2]] {
            g.comes_back(us(2), 68, frame);
        }
        g.comes_back(us(2), 64, &[0xff, 1, 2, 9, 7]);
        let made = all(&mut g, us(3));
        assert_eq!(made.len(), 2);
        assert_eq!(made[0].2, [5, 1, 2, 9, 0, 0, 0xaa, 0xbb]);
        let mut g = generator(2, Trigger::Pattern { value: 7, mask: 15 });
        g.comes_back(us(2), 6, &[0x17; 16]);
        let made = all(&mut g, us(3));
        assert_eq!(made[1].2[..6], [5, 0, 0, 0, 0, 1]);
        assert_eq!(made[1].2[6..22], [0x17; 16]);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_read_beyond_the_buffer() {
        let mut g = generator(1, Trigger::Once(Duration::ZERO));
        assert!(!g.write_buffer(BUFFER_BYTES - 1, &[1, 2]));
        assert!(!g.write_buffer(usize::MAX, &[1]));
        assert!(!g.set_application(us(1), 8, Application::default()));
        let mut long = g.applications()[5].clone();
        (long.offset, long.length) = (BUFFER_BYTES - 1, 9000);
        g.set_application(us(1), 5, long);
        assert_eq!(all(&mut g, us(2))[0].2.len(), 7);
    }
}
