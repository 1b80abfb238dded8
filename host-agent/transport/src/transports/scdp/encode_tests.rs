//! Encoders that are made elsewhere and come late, in another order, for nobody, or not at all.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, EbbHeader, PacketType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::code::{EncodeJob, Encoders, MAX_ENCODERS, RaptorQ};
use crate::job::Work;
use crate::object::{GeneratedSource, ObjectSource};
use crate::receiver_driven::StreamShape;
use crate::record::{FlowRecord, Role, Status};
use crate::testing::{Fate, Network, PORT, PortParams, address, ebb_packet};
use crate::{FlowId, JobResult, SendRequest, Transport};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize) -> Network {
    let port = PortParams {
        data_packets: 10_000,
        ..PortParams::default()
    };
    let make = |config| ScdpHost::new(config, ScdpParams::default());
    Network::new(hosts, port, make)
}

fn is_symbol(header: &EbbHeader) -> bool {
    header.packet_type == PacketType::Symbol
}

/// Decoding takes no time.
fn slow_encoder(
    mut takes: impl FnMut() -> Duration + 'static,
) -> Box<dyn FnMut(&JobResult) -> Duration> {
    Box::new(move |result| match result.role() {
        Role::Sender => takes(),
        Role::Receiver => Duration::ZERO,
    })
}

/// Up to a little less than a receiver's patience.
fn any_time(seed: u64) -> impl FnMut() -> Duration {
    let mut rng = SmallRng::seed_from_u64(seed);
    move || Duration::from_micros(rng.random_range(0..6_000))
}

fn assert_no_symbol_twice(net: &Network) {
    let mut seen = BTreeSet::new();
    for (_, _, header) in &net.log {
        if is_symbol(header) && !header.flags.contains(EbbFlags::RETRANSMIT) {
            let name = (header.block, header.symbol);
            assert!(seen.insert(name), "{name:?} sent twice");
        }
    }
}

#[test]
fn late_encoders_in_any_order_cost_no_symbol_and_no_pull_more() {
    for seed in 0..10 {
        for trimmed_of_block in [1, 7] {
            let mut net = network(2);
            // The last symbols of a block too: its repair symbols are wanted at once.
            net.fate = Box::new(move |_, header| {
                let end = header.symbol >= 100 - trimmed_of_block && header.symbol < 100;
                match is_symbol(header) && end {
                    true => Fate::Trim,
                    false => Fate::Pass,
                }
            });
            net.job_takes = slow_encoder(any_time(seed));
            net.send(0, 1, 1500 * SYMBOL);
            net.run();
            let (sent, received) = net.pair(0, 1);
            let repairs = 15 * (u64::from(trimmed_of_block) + 2);
            assert_eq!(sent.counters.packets_sent, 1500 + repairs);
            assert_eq!(sent.counters.repair_symbols, repairs);
            assert_eq!(received.counters.pulls_sent, 1500 + repairs - WINDOW);
            assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
            assert_eq!((sent.counters.encodes, received.counters.decodes), (15, 15));
            assert_no_symbol_twice(&net);
        }
    }
}

#[test]
fn source_symbols_go_on_while_an_encoder_is_made() {
    let mut durations = Vec::new();
    for takes in [0, 3000] {
        let mut net = network(2);
        net.fate = Box::new(|_, header| {
            let hit = is_symbol(header) && header.block == 0 && header.symbol == 99;
            Fate::Trim.when(hit)
        });
        net.job_takes = slow_encoder(move || Duration::from_micros(takes));
        net.send(0, 1, 1000 * SYMBOL);
        net.run();
        durations.push(net.pair(0, 1).1.duration_ns);
        let repairs = net
            .log
            .iter()
            .position(|(_, _, h)| h.flags.contains(EbbFlags::REPAIR));
        let before = net.log[..repairs.unwrap()].iter();
        let sources = before
            .filter(|(_, _, h)| is_symbol(h) && h.block > 0)
            .count();
        // Three are credit that waits for the encoder: of the window nine are left.
        assert_eq!(sources > 100, takes > 0, "{sources}");
    }
    // 3 ms are 250 packets; nearly all of them were used.
    assert!(durations[1] < durations[0] + 1_000_000, "{durations:?}");
}

#[test]
fn groups_stragglers_and_parts_wait_for_encoders_as_well() {
    for seed in 0..6 {
        // Each of three receivers lacks others of the symbols.
        let mut net = network(4);
        net.fate_to = Box::new(|host, header| {
            let hit = is_symbol(header) && header.symbol as usize % 40 == 10 * host;
            Fate::Trim.when(hit)
        });
        net.job_takes = slow_encoder(any_time(seed));
        net.send_to_all(600 * SYMBOL);
        net.run();
        for host in 1..4 {
            net.finished(Role::Receiver, 0, host);
        }
        assert_no_symbol_twice(&net);

        // One is detached, and served by repair symbols alone.
        let mut net = network(4);
        net.fate_to = Box::new(|host, header| {
            let group = header.flags.contains(EbbFlags::MULTICAST);
            let hit = host == 2 && is_symbol(header) && group && header.symbol > 50;
            Fate::Drop.when(hit)
        });
        net.job_takes = slow_encoder(any_time(seed));
        net.send_to_all(600 * SYMBOL);
        net.run();
        for host in 1..4 {
            net.finished(Role::Receiver, 0, host);
        }
        assert_no_symbol_twice(&net);

        // Several senders; also with shares that are empty.
        for packets in [600, 2] {
            let mut net = network(5);
            net.fate = Box::new(|n, header| match is_symbol(header) && n % 30 == 7 {
                true => Fate::Trim,
                false => Fate::Pass,
            });
            net.job_takes = slow_encoder(any_time(seed));
            net.fetch(0, &[1, 2, 3, 4], packets * SYMBOL);
            net.run();
            let records: Vec<&FlowRecord> = net.records.iter().map(|(_, _, r)| r).collect();
            assert!(
                records.iter().all(|r| r.status == Status::Finished),
                "{records:#?}"
            );
            assert_no_symbol_twice(&net);
        }
    }
}

#[test]
fn any_mixture_with_late_encoders_ends_well() {
    for seed in 0..30 {
        let mut net = network(2);
        let mut rng = SmallRng::seed_from_u64(seed);
        net.fate = Box::new(move |_, header| match rng.random_range(0..40) {
            0 => Fate::Drop,
            1..4 if is_symbol(header) => Fate::Trim,
            4 if is_symbol(header) => Fate::Return,
            5 => Fate::Duplicate,
            6 => Fate::Late(Duration::from_micros(rng.random_range(0..300))),
            _ => Fate::Pass,
        });
        net.job_takes = slow_encoder(any_time(seed));
        net.send(0, 1, 700 * SYMBOL - 5);
        net.run();
        net.pair(0, 1);
    }
}

/// A sending host, and the headers of what it sent in answer.
struct Sending {
    host: ScdpHost,
    flow: FlowId,
    first: EbbHeader,
    now: Instant,
}

/// Up to the end of its window.
fn sending(source: Arc<dyn ObjectSource>) -> Sending {
    let config = crate::HostConfig {
        address: address(0),
        nic: crate::nic::NicParams::default(),
        dscp: crate::DscpParams::default(),
        source_ports: crate::EPHEMERAL_PORTS,
        seed: 1,
    };
    let mut host = ScdpHost::new(config, ScdpParams::default());
    let now = Instant::from_micros(1);
    let request = SendRequest {
        to: SocketAddrV4::new(address(1), PORT),
        source_port: None,
        source,
        priority: 0,
        part: None,
        via: crate::Via::Any,
    };
    let flow = host.send(now, request).unwrap();
    let mut sending = Sending {
        host,
        flow,
        first: EbbHeader::new(PacketType::Symbol, 0, 0),
        now,
    };
    sending.first = sending.sent()[0];
    sending
}

impl Sending {
    fn sent(&mut self) -> Vec<EbbHeader> {
        let mut packet = Vec::new();
        let mut sent = Vec::new();
        while self.host.poll_transmit(self.now, &mut packet).is_some() {
            sent.push(EbbHeader::parse(&packet[20..], false).unwrap().header);
        }
        sent
    }

    /// `counter` symbols have been pulled, of which `repairs` are repair symbols of `block`.
    fn pull(&mut self, counter: u32, block: u32, repairs: u32) {
        let header = EbbHeader {
            source_port: PORT,
            destination_port: self.first.source_port,
            session: self.first.session,
            pull: counter,
            block,
            symbol: 100 + repairs,
            ..EbbHeader::new(PacketType::Pull, 0, 0)
        };
        let control = crate::DscpParams::default().control;
        let packet = ebb_packet(address(1), address(0), control, &header, &[]);
        self.host.handle_packet(self.now, &packet);
    }

    /// Pulls, and gets, `blocks` blocks of source symbols.
    fn up_to(&mut self, blocks: u32) {
        for counter in 1..=100 * blocks - WINDOW as u32 {
            self.pull(counter, 0, 0);
            assert_eq!(self.sent().len(), 1);
        }
    }
}

fn object(packets: u64) -> Arc<dyn ObjectSource> {
    Arc::new(GeneratedSource {
        seed: 1,
        bytes: packets * SYMBOL,
    })
}

#[test]
fn a_job_starts_with_the_pull_and_its_credit_is_kept() {
    let mut sending = sending(object(1000));
    sending.up_to(1);
    sending.pull(89, 0, 1);
    let job = sending.host.poll_job().unwrap();
    assert!(sending.host.poll_job().is_none());
    // The credit is that of the repair symbol, and nobody's fault that it does not leave.
    assert_eq!(sending.sent().len(), 0);
    assert_eq!(sending.host.next_deadline(), None);
    // The next one is for a source symbol.
    sending.pull(90, 0, 1);
    let sent = sending.sent();
    assert_eq!((sent.len(), sent[0].block, sent[0].symbol), (1, 1, 0));
    let now = sending.now;
    sending.host.handle_job(now, job.run());
    let sent = sending.sent();
    assert_eq!((sent.len(), sent[0].block, sent[0].symbol), (1, 0, 100));
    assert!(sending.host.poll_job().is_none());
}

#[test]
fn repairs_of_other_blocks_do_not_wait() {
    let mut sending = sending(object(1000));
    sending.up_to(3);
    sending.pull(289, 0, 1);
    sending.pull(290, 2, 1);
    let first = sending.host.poll_job().unwrap();
    let second = sending.host.poll_job().unwrap();
    let now = sending.now;
    sending.host.handle_job(now, second.run());
    let sent = sending.sent();
    assert_eq!((sent.len(), sent[0].block, sent[0].symbol), (1, 2, 100));
    sending.host.handle_job(now, first.run());
    let sent = sending.sent();
    assert_eq!((sent.len(), sent[0].block, sent[0].symbol), (1, 0, 100));
}

#[test]
fn jobs_and_encoders_are_bounded_whatever_is_asked_for() {
    let mut sending = sending(object(2000));
    sending.up_to(10);
    for block in 0..10 {
        sending.pull(989 + block, block, 1);
    }
    let mut jobs = VecDeque::new();
    let mut made = 0;
    loop {
        while let Some(job) = sending.host.poll_job() {
            jobs.push_back(job);
        }
        assert!(jobs.len() <= MAX_ENCODERS, "{} at once", jobs.len());
        let Some(job) = jobs.pop_back() else { break };
        let now = sending.now;
        sending.host.handle_job(now, job.run());
        made += sending.sent().len();
    }
    assert_eq!(made, 10);
}

#[test]
fn a_result_for_an_ended_flow_is_dropped() {
    let mut sending = sending(object(1000));
    sending.up_to(1);
    sending.pull(89, 0, 1);
    let job = sending.host.poll_job().unwrap();
    let (now, flow) = (sending.now, sending.flow);
    sending.host.abort(now, flow, "on purpose");
    assert_eq!(job.flow(), flow);
    sending.host.handle_job(now, job.run());
    let sent = sending.sent();
    assert!(
        sent.iter().all(|h| h.packet_type == PacketType::Reset),
        "{sent:?}"
    );
    assert!(sending.host.poll_job().is_none());
}

/// Can be read by symbols only: as if it was cut short before a whole block was read.
struct Broken;

impl ObjectSource for Broken {
    fn len(&self) -> u64 {
        1000 * SYMBOL
    }

    fn read_at(&self, _: u64, buf: &mut [u8]) -> io::Result<()> {
        match buf.len() as u64 > SYMBOL {
            true => Err(io::Error::other("on fire")),
            false => Ok(()),
        }
    }
}

#[test]
fn a_block_that_cannot_be_read_ends_the_flow() {
    let mut sending = sending(Arc::new(Broken));
    sending.up_to(1);
    sending.pull(89, 0, 1);
    let job = sending.host.poll_job().expect("no job");
    assert_eq!(job.role(), Role::Sender);
    let now = sending.now;
    sending.host.handle_job(now, job.run());
    let failed = std::iter::from_fn(|| sending.host.poll_event()).find_map(|event| match event {
        crate::Event::Failed { record, .. } => Some(record),
        _ => None,
    });
    let record = failed.expect("it goes on");
    let reason = "cannot read the object to be sent: on fire".to_owned();
    assert_eq!(record.status, Status::Failed(reason));
    let sent = sending.sent();
    assert_eq!((sent.len(), sent[0].packet_type), (1, PacketType::Reset));
}

#[test]
fn what_nobody_wants_any_more_makes_room() {
    let mut encoders = Encoders::default();
    let needed = [5, 6, 7, 8];
    for block in needed {
        assert_eq!(encoders.start(&needed), Some(block));
    }
    assert_eq!(encoders.start(&needed), None);
    encoders.forget_before(9);
    // The jobs still run.
    assert_eq!(encoders.start(&[9]), None);
    let blocks = blocks::Blocks {
        shape: StreamShape {
            object_bytes: 1000 * SYMBOL,
            symbol_bytes: SYMBOL as u16,
            block_symbols: 100,
        },
    };
    let extent = blocks.block_extent(5);
    let job = EncodeJob::<RaptorQ>::new(blocks.coded(5), extent, Arc::new(Broken));
    assert!(encoders.built(job.run()).is_ok(), "of no interest");
    assert_eq!(encoders.start(&[9]), Some(9));
}
