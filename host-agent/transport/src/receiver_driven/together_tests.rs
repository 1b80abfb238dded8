//! Hosts whose driver looks late: what is said at the same time to the same host is one packet.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbHeader, Ipv4Header, PacketType};

use crate::ndp::{NdpHost, NdpParams};
use crate::nic::NicParams;
use crate::record::{FlowRecord, Role, Status};
use crate::scdp::{ScdpHost, ScdpParams};
use crate::testing::{PORT, address};
use crate::{DscpParams, EPHEMERAL_PORTS, Event, HostConfig, SendRequest, Transport};

const SYMBOL: usize = 1432;
const WINDOW: u32 = 12;
const PACKETS: u32 = 100;
/// From a look to the next; a window of packets takes 150 us.
const LATE: Duration = Duration::from_micros(500);

/// A sender and a receiver that look at their links in turn.
struct Pair {
    sender: Box<dyn Transport>,
    receiver: Box<dyn Transport>,
    now: Instant,
    records: Vec<FlowRecord>,
}

impl Pair {
    fn new<T: Transport + 'static>(make: fn(HostConfig) -> T) -> Self {
        let host = |number| {
            let mut host = make(HostConfig {
                address: address(number),
                nic: NicParams {
                    catch_up_packets: 64,
                    ..NicParams::default()
                },
                dscp: DscpParams::default(),
                source_ports: EPHEMERAL_PORTS,
                seed: 1,
            });
            host.listen(PORT).unwrap();
            Box::new(host)
        };
        let (mut sender, receiver) = (host(0), host(1));
        let request = SendRequest {
            to: SocketAddrV4::new(address(1), PORT),
            source_port: None,
            source: Arc::new(vec![7; PACKETS as usize * SYMBOL]),
            priority: 0,
            part: None,
            via: crate::Via::Any,
        };
        sender.send(Instant::from_micros(1), request).unwrap();
        Pair {
            sender,
            receiver,
            now: Instant::from_micros(1),
            records: Vec::new(),
        }
    }

    /// The receiver gets what the sender has to send, but for the packets of these numbers, and the sender its answers
    /// some time later. Returns these.
    fn turn(&mut self, lost: &[u32]) -> Vec<EbbHeader> {
        for packet in departures(&mut *self.sender, self.now) {
            if !lost.contains(&header_of(&packet).symbol) {
                self.receiver.handle_packet(self.now, &packet);
            }
        }
        self.now += LATE;
        let answers = departures(&mut *self.receiver, self.now);
        for packet in &answers {
            self.sender.handle_packet(self.now, packet);
        }
        for host in [&mut self.sender, &mut self.receiver] {
            while let Some(job) = host.poll_job() {
                host.handle_job(self.now, job.run());
            }
            while let Some(event) = host.poll_event() {
                if let Event::Finished { record, .. } = event {
                    self.records.push(record);
                }
            }
        }
        answers.iter().map(|packet| header_of(packet)).collect()
    }

    fn record(&self, role: Role) -> &FlowRecord {
        let record = self.records.iter().find(|record| record.role == role);
        record.expect("the flow has ended")
    }
}

fn departures(host: &mut dyn Transport, now: Instant) -> Vec<Vec<u8>> {
    let mut packet = Vec::new();
    let mut departures = Vec::new();
    while host.poll_transmit(now, &mut packet).is_some() {
        departures.push(packet.clone());
    }
    departures
}

fn header_of(packet: &[u8]) -> EbbHeader {
    let ip = Ipv4Header::parse(packet).unwrap();
    EbbHeader::parse(ip.payload, false).unwrap().header
}

fn of_type(headers: &[EbbHeader], packet_type: PacketType) -> Vec<EbbHeader> {
    let headers = headers.iter().copied();
    headers
        .filter(|header| header.packet_type == packet_type)
        .collect()
}

fn ndp(config: HostConfig) -> NdpHost {
    NdpHost::new(config, NdpParams::default())
}

fn scdp(config: HostConfig) -> ScdpHost {
    ScdpHost::new(config, ScdpParams::default())
}

#[test]
fn a_window_is_acknowledged_and_pulled_by_a_packet_each() {
    let mut pair = Pair::new(ndp);
    let answers = pair.turn(&[]);
    let said: Vec<_> = answers
        .iter()
        .map(|h| (h.packet_type, h.symbol, h.block_symbols, h.pull))
        .collect();
    let ack = (PacketType::Ack, WINDOW - 1, WINDOW as u16 - 1, 0);
    assert_eq!(said, [ack, (PacketType::Pull, 0, 0, WINDOW)]);

    let turns = (0..).take_while(|_| !pair.turn(&[]).is_empty()).count();
    assert_eq!(turns as u32, PACKETS.div_ceil(WINDOW) - 1);
    let (sent, received) = (pair.record(Role::Sender), pair.record(Role::Receiver));
    assert_eq!(sent.status, Status::Finished);
    assert_eq!(sent.counters.packets_sent, u64::from(PACKETS));
    assert_eq!(sent.counters.acks, u64::from(PACKETS));
    assert_eq!(received.counters.acks, u64::from(PACKETS));
    assert_eq!(received.counters.pulls_sent, u64::from(PACKETS - WINDOW));
    assert_eq!(sent.counters.pulls_received, u64::from(PACKETS - WINDOW));
}

#[test]
fn an_ack_names_no_packet_that_is_missing() {
    let mut pair = Pair::new(ndp);
    let acks = of_type(&pair.turn(&[3, 7]), PacketType::Ack);
    let runs: Vec<_> = acks.iter().map(|h| (h.symbol, h.block_symbols)).collect();
    assert_eq!(runs, [(2, 2), (6, 2), (11, 3)]);
}

#[test]
fn an_ack_waits_for_no_later_packet() {
    let mut pair = Pair::new(ndp);
    for (at_us, packet) in (1..).zip(departures(&mut *pair.sender, pair.now)) {
        pair.receiver
            .handle_packet(Instant::from_micros(at_us), &packet);
    }
    let answers = departures(&mut *pair.receiver, pair.now + LATE);
    let answers: Vec<_> = answers.iter().map(|packet| header_of(packet)).collect();
    let acks = of_type(&answers, PacketType::Ack);
    assert_eq!(acks.len(), WINDOW as usize);
    assert!(acks.iter().all(|ack| ack.block_symbols == 0));
}

/// A pull of SCDP says how much is wanted of one block, which no later pull repeats.
#[test]
fn pulls_for_symbols_are_a_packet_for_each_block() {
    let mut pair = Pair::new(scdp);
    let mut turns = 0;
    loop {
        let answers = pair.turn(&[]);
        if answers.is_empty() {
            break;
        }
        turns += 1;
        let pulls = of_type(&answers, PacketType::Pull);
        let mut blocks: Vec<_> = pulls.iter().map(|pull| pull.block).collect();
        blocks.dedup();
        assert_eq!(blocks.len(), pulls.len(), "{pulls:?}");
    }
    assert_eq!(turns, PACKETS.div_ceil(WINDOW));
    let (sent, received) = (pair.record(Role::Sender), pair.record(Role::Receiver));
    assert_eq!(sent.counters.packets_sent, u64::from(PACKETS));
    assert_eq!(received.counters.pulls_sent, u64::from(PACKETS - WINDOW));
    assert_eq!(sent.counters.pulls_received, u64::from(PACKETS - WINDOW));
}
