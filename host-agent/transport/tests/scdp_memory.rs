//! An SCDP object of any size goes through a few blocks of memory at either end.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ebb_transport::nic::{NicParams, Serialiser};
use ebb_transport::object::{GeneratedSource, ObjectSource};
use ebb_transport::scdp::{ScdpHost, ScdpParams};
use ebb_transport::{
    DscpParams, EPHEMERAL_PORTS, Event, HostConfig, JobResult, Role, SendRequest, Status, Transport,
};
use ebb_units::{Duration, Instant};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header, PacketType};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with an account of what is in use.
struct Accounting;

fn grow(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every method hands its arguments on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Accounting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's obligations are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Accounting = Accounting;

const PORT: u16 = 7000;
const ONE_WAY: Duration = Duration::from_micros(20);
const K: u64 = 4;

fn host(number: u8) -> ScdpHost {
    let nic = NicParams {
        mtu_bytes: 576,
        ..NicParams::default()
    };
    let config = HostConfig {
        address: Ipv4Addr::new(10, 0, 0, number),
        nic,
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: u64::from(number),
    };
    let params = ScdpParams {
        block_symbols: K as u16,
        ..ScdpParams::default()
    };
    ScdpHost::new(config, params)
}

/// Cuts the payload of a packet.
fn trim(packet: &mut Vec<u8>) {
    let ip = Ipv4Header::parse(packet).unwrap();
    let mut header = ip.payload[..EbbHeader::BYTES].to_vec();
    header[1] |= EbbFlags::TRIMMED.0;
    header[26..28].fill(0);
    let checksum = internet_checksum(&header);
    header[26..28].copy_from_slice(&checksum.to_be_bytes());
    let mut trimmed = Vec::new();
    ip.header.emit(header.len(), &mut trimmed);
    trimmed.extend_from_slice(&header);
    *packet = trimmed;
}

/// Transfers `blocks` blocks, of every 20th of which a symbol is trimmed; jobs take a few
/// blocks' time. Returns how many bytes were in use at most beyond those before.
fn peak(blocks: u64) -> usize {
    let symbol_bytes = 576 - 20 - 48;
    let bytes = blocks * K * symbol_bytes - 3;
    let source = GeneratedSource { seed: 1, bytes };
    let mut ends = [host(1), host(2)];
    ends[1].listen(PORT).unwrap();
    let mut now = Instant::from_micros(1);
    let request = SendRequest {
        to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT),
        source_port: None,
        source: Arc::new(source),
        priority: 0,
        part: None,
        via: ebb_transport::Via::Any,
    };
    ends[0].send(now, request).unwrap();
    let nic = NicParams::default();
    let mut nics = [Serialiser::new(nic), Serialiser::new(nic)];
    let mut arriving: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
    let mut working: VecDeque<(Instant, usize, JobResult)> = VecDeque::new();
    let (mut offset, mut decodes, mut finished) = (0, 0, 0);
    let mut expected = Vec::new();
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut packet = Vec::new();
    while finished < 2 {
        let mut next = Instant::FAR_FUTURE;
        for here in 0..2 {
            while arriving[here].front().is_some_and(|(at, _)| *at <= now) {
                let (_, packet) = arriving[here].pop_front().unwrap();
                ends[here].handle_packet(now, &packet);
            }
            ends[here].handle_timeout(now);
            while let Some(job) = ends[here].poll_job() {
                decodes += u64::from(job.role() == Role::Receiver);
                working.push_back((now + Duration::from_micros(200), here, job.run()));
            }
            while working.front().is_some_and(|(at, ..)| *at <= now) {
                let (_, whose, result) = working.pop_front().unwrap();
                ends[whose].handle_job(now, result);
            }
            while let Some(event) = ends[here].poll_event() {
                match event {
                    Event::Delivered { bytes, .. } => {
                        expected.resize(bytes.len(), 0);
                        source.read_at(offset, &mut expected).unwrap();
                        assert!(*bytes == *expected, "at {offset}");
                        offset += bytes.len() as u64;
                        ends[here].recycle(bytes);
                    }
                    Event::Finished { record, .. } => {
                        assert_eq!(record.status, Status::Finished);
                        finished += 1;
                    }
                    Event::Failed { record, .. } => panic!("{record:?}"),
                    Event::Opened { .. } | Event::Heard { .. } | Event::Detached { .. } => {}
                }
            }
            while nics[here].is_free(now) && ends[here].poll_transmit(now, &mut packet).is_some() {
                let at = nics[here].send(now, packet.len()) + ONE_WAY;
                let header = EbbHeader::parse(&packet[20..], false).unwrap().header;
                let hit = header.packet_type == PacketType::Symbol && header.block % 20 == 7;
                if hit && header.symbol == 3 {
                    trim(&mut packet);
                }
                arriving[1 - here].push_back((at, packet.clone()));
            }
            let timer = ends[here].next_deadline().filter(|at| *at > now);
            next = next.min(timer.unwrap_or(Instant::FAR_FUTURE));
            if !nics[here].is_free(now) {
                next = next.min(nics[here].free_at());
            }
        }
        let arrivals = arriving.iter().filter_map(|a| a.front().map(|(at, _)| *at));
        let results = working.front().map(|(at, ..)| *at);
        now = arrivals.chain(results).fold(next, Instant::min).max(now);
    }
    assert_eq!(offset, bytes);
    assert_eq!(
        decodes,
        blocks.div_ceil(20) - u64::from((1..8).contains(&(blocks % 20)))
    );
    PEAK.load(Relaxed) - before
}

/// 20 000 blocks of 100 full packets would be 2.9 GB.
#[test]
fn memory_does_not_grow_with_the_object() {
    let small = peak(500);
    let large = peak(20_000);
    println!("{small} bytes for 500 blocks, {large} for 20000");
    assert!(large < small + small / 5, "{small} {large}");
    assert!(large < 500_000, "{large}");
}
