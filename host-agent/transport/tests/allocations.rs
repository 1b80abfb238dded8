//! No allocation per packet in steady state, counted by a global allocator.
//!
//! Two transports of one transport are joined back to back under a virtual clock. What is counted is
//! what happens inside their methods; the wire between them is the test's own. To add a transport:
//! make two transports and give them to [`steady_state`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_transport::ndp::{NdpHost, NdpParams};
use ebb_transport::nic::{NicParams, Serialiser};
use ebb_transport::object::GeneratedSource;
use ebb_transport::pacer::PacerParams;
use ebb_transport::scdp::{ScdpHost, ScdpParams};
use ebb_transport::tcp::{Algorithm, DCTCP, RENO, TcpEndpoint, TcpParams};
use ebb_transport::{
    DscpParams, EPHEMERAL_PORTS, Event, HostConfig, SendRequest, Status, Transport,
};
use ebb_units::{Duration, Instant};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{EbbFlags, EbbHeader, Ecn, Ipv4Header};

thread_local! {
    /// Allocations of this thread while it is counting.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, with a look at how often it is used.
struct Counting;

fn count() {
    if COUNTING.get() {
        COUNT.set(COUNT.get() + 1);
    }
}

// SAFETY: every method hands its arguments on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and adds its allocations to `total`.
fn counted<T>(total: &mut u64, work: impl FnOnce() -> T) -> T {
    COUNT.set(0);
    COUNTING.set(true);
    let result = work();
    COUNTING.set(false);
    *total += COUNT.get();
    result
}

const PORT: u16 = 7000;
const ONE_WAY: Duration = Duration::from_micros(20);

fn host(number: u8) -> HostConfig {
    HostConfig {
        address: Ipv4Addr::new(10, 0, 0, number),
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: u64::from(number),
    }
}

struct End {
    transport: Box<dyn Transport>,
    nic: Serialiser,
    /// Packets on the way to this end, with the times of their arrival.
    arriving: VecDeque<(Instant, Vec<u8>)>,
    held_until: Option<Instant>,
    packet: Vec<u8>,
}

/// Allocations of a run.
#[derive(Debug, Default)]
struct Measured {
    /// Packets that both ends sent while allocations were counted.
    packets: u64,
    allocations: u64,
    finished: usize,
}

impl Measured {
    /// For `make bench`, which reads this line.
    fn print(&self, what: &str) {
        let Measured {
            packets,
            allocations,
            ..
        } = self;
        println!("allocations: {what}: {allocations} for {packets} packets");
    }
}

/// Sends `flows` objects of `bytes` each from the first end to the second, to the end. Nothing is
/// lost. Allocations are counted from packet number `warm_up` (of both ends together) until one end
/// says that a flow is over, so that buffers have found their sizes and no flow is being closed.
/// `touch` may change every packet on its way.
fn steady_state(
    ends: [Box<dyn Transport>; 2],
    flows: usize,
    bytes: u64,
    warm_up: u64,
    mut touch: impl FnMut(u64, &mut Vec<u8>),
) -> Measured {
    let mut ends = ends.map(|transport| End {
        transport,
        nic: Serialiser::new(NicParams::default()),
        arriving: VecDeque::with_capacity(4096),
        held_until: None,
        packet: Vec::with_capacity(2048),
    });
    let mut spare: Vec<Vec<u8>> = (0..4096).map(|_| Vec::with_capacity(2048)).collect();
    let mut now = Instant::from_micros(1_000_000);
    ends[1].transport.listen(PORT).unwrap();
    for flow in 0..flows {
        let request = SendRequest {
            to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT),
            source_port: None,
            source: Arc::new(GeneratedSource {
                seed: flow as u64,
                bytes,
            }),
            priority: 0,
            part: None,
            via: ebb_transport::Via::Any,
        };
        ends[0].transport.send(now, request).unwrap();
    }
    let mut measured = Measured::default();
    let (mut sent, mut over) = (0, false);
    loop {
        let mut round = 0;
        let total = &mut round;
        let counting = sent >= warm_up && !over;
        for index in 0..2 {
            let (left, right) = ends.split_at_mut(1);
            let (end, peer) = match index {
                0 => (&mut left[0], &mut right[0]),
                _ => (&mut right[0], &mut left[0]),
            };
            let transport = &mut *end.transport;
            while end.arriving.front().is_some_and(|(at, _)| *at <= now) {
                let (_, packet) = end.arriving.pop_front().unwrap();
                counted(total, || transport.handle_packet(now, &packet));
                spare.push(packet);
            }
            counted(total, || transport.handle_timeout(now));
            while let Some(job) = counted(total, || transport.poll_job()) {
                // Coding allocates, by block and not by packet, and not in the transport.
                let result = job.run();
                counted(total, || transport.handle_job(now, result));
            }
            while let Some(event) = counted(total, || transport.poll_event()) {
                match event {
                    Event::Delivered { bytes, .. } => counted(total, || transport.recycle(bytes)),
                    Event::Finished { record, .. } => {
                        assert_eq!(record.status, Status::Finished);
                        over = true;
                        measured.finished += 1;
                    }
                    Event::Failed { record, .. } => panic!("{record:?}"),
                    Event::Opened { .. } | Event::Heard { .. } | Event::Detached { .. } => {}
                }
            }
            end.held_until = None;
            loop {
                if !end.nic.is_free(now) {
                    end.held_until = Some(end.nic.free_at());
                    break;
                }
                let packet = &mut end.packet;
                if counted(total, || transport.poll_transmit(now, packet)).is_none() {
                    end.nic.idle(now);
                    break;
                }
                let out_at = end.nic.send(now, packet.len());
                let mut copy = spare.pop().unwrap();
                copy.clear();
                copy.extend_from_slice(packet);
                touch(sent, &mut copy);
                peer.arriving.push_back((out_at + ONE_WAY, copy));
                sent += 1;
                measured.packets += u64::from(counting);
            }
        }
        if counting && !over {
            // Not the round in which a flow ends.
            measured.allocations += round;
        }
        let next = ends.iter().flat_map(|end| {
            let deadline = end.transport.next_deadline();
            let waiting = end.held_until.is_some();
            [
                deadline.filter(|at| !waiting || *at > now),
                end.arriving.front().map(|(at, _)| *at),
                end.held_until,
            ]
        });
        match next.flatten().min() {
            Some(at) if ends.iter().any(|end| end.transport.is_active()) => now = now.max(at),
            _ => return measured,
        }
    }
}

fn tcp(algorithm: Algorithm, pacer: Option<PacerParams>) -> [Box<dyn Transport>; 2] {
    [1, 2].map(|number| -> Box<dyn Transport> {
        // A window that has stopped growing: while it grows, the storage for what is in flight
        // doubles now and then.
        let params = TcpParams {
            max_window_packets: 10,
            ..TcpParams::default()
        };
        let pacer = pacer.as_ref();
        Box::new(TcpEndpoint::new(host(number), "test", algorithm.clone(), params, pacer).unwrap())
    })
}

/// Sets CE on an ECT packet.
fn mark(packet: &mut Vec<u8>) {
    let ip = Ipv4Header::parse(packet).unwrap();
    if ip.header.ecn == Ecn::NotEct {
        return;
    }
    let header = Ipv4Header {
        ecn: Ecn::Ce,
        ..ip.header
    };
    let mut marked = Vec::new();
    header.emit(ip.payload.len(), &mut marked);
    marked.extend_from_slice(ip.payload);
    *packet = marked;
}

/// Cuts the payload of a DATA packet, as a switch does.
fn trim(packet: &mut Vec<u8>) {
    let ip = Ipv4Header::parse(packet).unwrap();
    let mut header = ip.payload[..EbbHeader::BYTES].to_vec();
    if ip.header.dscp != DscpParams::default().trimmable {
        return;
    }
    header[1] |= EbbFlags::TRIMMED.0;
    header[26..28].fill(0);
    let checksum = internet_checksum(&header);
    header[26..28].copy_from_slice(&checksum.to_be_bytes());
    let mut trimmed = Vec::new();
    ip.header.emit(header.len(), &mut trimmed);
    trimmed.extend_from_slice(&header);
    *packet = trimmed;
}

#[test]
fn ndp_does_not_allocate_per_packet() {
    for (flows, trim_one_in) in [(1, u64::MAX), (1, 16), (20, u64::MAX), (20, 16)] {
        let ends = [1, 2].map(|number| -> Box<dyn Transport> {
            Box::new(NdpHost::new(host(number), NdpParams::default()))
        });
        let bytes = 15_000_000 / flows as u64;
        let touch = |n: u64, packet: &mut Vec<u8>| {
            if n % trim_one_in == 5 {
                trim(packet);
            }
        };
        let measured = steady_state(ends, flows, bytes, 4_000, touch);
        let trims = if trim_one_in == u64::MAX {
            "no"
        } else {
            "some"
        };
        measured.print(&format!("NDP, {flows} flows, {trims} trims"));
        assert_eq!(measured.finished, 2 * flows);
        assert!(measured.packets > 15_000, "{measured:?}");
        // While pulls are queued a session needs no timer: a place for one may be made late.
        assert!(measured.allocations <= 1, "{flows} flows: {measured:?}");
    }
}

#[test]
fn scdp_does_not_allocate_per_packet_without_loss() {
    for flows in [1, 20] {
        let ends = [1, 2].map(|number| -> Box<dyn Transport> {
            Box::new(ScdpHost::new(host(number), ScdpParams::default()))
        });
        let bytes = 15_000_000 / flows as u64;
        let measured = steady_state(ends, flows, bytes, 8_000, |_, _| {});
        measured.print(&format!("SCDP, {flows} flows"));
        assert_eq!(measured.finished, 2 * flows);
        assert!(measured.packets > 5_000, "{measured:?}");
        assert_eq!(measured.allocations, 0, "{flows} flows: {measured:?}");
    }
}

/// A block with a loss takes an encoder, a job and its result; a packet of it takes nothing more
/// but the encoder's repair symbol.
#[test]
fn scdp_with_trims_allocates_by_block_and_repair_symbol() {
    let ends = [1, 2].map(|number| -> Box<dyn Transport> {
        Box::new(ScdpHost::new(host(number), ScdpParams::default()))
    });
    let touch = |n: u64, packet: &mut Vec<u8>| {
        if n.is_multiple_of(400) {
            trim(packet);
        }
    };
    let measured = steady_state(ends, 1, 15_000_000, 4_000, touch);
    measured.print("SCDP, one packet of 400 trimmed");
    assert_eq!(measured.finished, 2);
    assert!(measured.allocations > 0);
    assert!(measured.allocations < 3 * measured.packets, "{measured:?}");
}

#[test]
fn the_allocator_counts() {
    let mut total = 0;
    counted(&mut total, || drop(std::hint::black_box(vec![0; 100])));
    assert_eq!(total, 1);
    drop(std::hint::black_box(vec![0; 100]));
    assert_eq!(COUNT.get(), 1, "only while counting");
}

#[test]
fn tcp_does_not_allocate_per_packet() {
    for (name, algorithm, flows) in [("TCP", RENO, 1), ("DCTCP", DCTCP, 1), ("DCTCP", DCTCP, 20)] {
        let bytes = 15_000_000 / flows as u64;
        let measured = steady_state(tcp(algorithm, None), flows, bytes, 4_000, |_, _| {});
        measured.print(&format!("{name}, {flows} flows"));
        assert_eq!(measured.finished, 2 * flows);
        assert!(measured.packets > 5_000, "{measured:?}");
        assert_eq!(measured.allocations, 0, "{name}: {measured:?}");
    }
}

#[test]
fn a_paced_flow_does_not_allocate_per_packet() {
    let ends = tcp(DCTCP, Some(PacerParams::default()));
    // Enough marks that the flow is nearly always associated.
    let touch = |n: u64, packet: &mut Vec<u8>| {
        if n.is_multiple_of(16) {
            mark(packet);
        }
    };
    let measured = steady_state(ends, 1, 15_000_000, 4_000, touch);
    measured.print("HULL, paced");
    assert!(measured.packets > 5_000, "{measured:?}");
    assert_eq!(measured.allocations, 0, "{measured:?}");
}
