//! Sequences of hostile packets and of calls of the applications, against hosts with live sessions.

use std::net::Ipv4Addr;

use arbitrary::{Result, Unstructured};
use ebb_transport::TransportKind;
use ebb_units::Duration;

use crate::forge;
use crate::world::{ADDRESSES, VICTIM, Ways, World};

/// Most steps of an input; more find nothing new.
const MAX_OPERATIONS: usize = 300;
/// Longer than any flow lives on without its peer, with all its timeouts and its linger.
const LONG: Duration = Duration::from_secs(60);
/// Most packets that a host may send, on average, because of a packet of a stranger: retransmissions of
/// an answer, and the pulls of a session. The page of each transport has its exact bound.
const PACKETS_PER_STRANGE_PACKET: u64 = 40;

/// The sources of strange packets.
const STRANGERS: [Ipv4Addr; 3] = [
    Ipv4Addr::new(10, 9, 9, 1),
    Ipv4Addr::new(10, 9, 9, 2),
    Ipv4Addr::new(192, 0, 2, 77),
];

fn pass_time(u: &mut Unstructured<'_>, world: &mut World) -> Result<()> {
    let us = match u.int_in_range(0..=3)? {
        0 => 0,
        1 => u64::from(u.arbitrary::<u8>()?),
        2 => u64::from(u.arbitrary::<u16>()?),
        _ => 4 * u64::from(u.arbitrary::<u16>()?),
    };
    let until = world.now + Duration::from_micros(us);
    world.run_until(until);
    Ok(())
}

/// Blind attackers (RFC 5961), who see no packets of the sessions, send arbitrary packets to a host.
pub fn blind(transport: TransportKind, bytes: &[u8]) {
    let ways = Ways::of(bytes);
    // Data in a stranger's SYN would open a persistent connection, whose refusals carry a text: an answer
    // that is longer than strangers may get here.
    let early = ways.early && !ways.open;
    let mut world = World::new(transport, Ways { early, ..ways });
    let mut packets = 0;
    let mut u = Unstructured::new(bytes);
    let mut step = |world: &mut World, packets: &mut u64| -> Result<()> {
        let from = *u.choose(&STRANGERS)?;
        let packet = match u.int_in_range(0..=9)? {
            0 => return pass_time(&mut u, world),
            1 => {
                let length = u.int_in_range(0..=100)?;
                u.bytes(length.min(u.len()))?.to_vec()
            }
            _ => forge::packet(&mut u, transport, from, VICTIM)?,
        };
        *packets += 1;
        world.inject(0, &packet);
        // The limit, which includes the two flows of the world itself.
        assert!(world.open_at_victim <= 16, "more flows than the limit");
        Ok(())
    };
    for _ in 0..MAX_OPERATIONS {
        if step(&mut world, &mut packets).is_err() {
            break;
        }
    }
    let end = world.now + LONG;
    world.run_until(end);
    world.check_that_all_arrived();
    assert!(world.is_quiet(), "something is left behind");
    assert!(
        world.packets_to_strangers <= PACKETS_PER_STRANGE_PACKET * packets,
        "{} packets in answer to {packets}",
        world.packets_to_strangers
    );
}

/// Somebody on the path repeats, changes and loses packets of the sessions, while the applications
/// pause, abort and send.
pub fn on_path(transport: TransportKind, bytes: &[u8]) {
    damage(World::new(transport, Ways::of(bytes)), transport, bytes);
}

/// The same with more than two ends of a session: a write to a group, and a read from several hosts.
pub fn together(transport: TransportKind, bytes: &[u8]) {
    damage(
        World::together(transport, Ways::of(bytes)),
        transport,
        bytes,
    );
}

fn damage(mut world: World, transport: TransportKind, bytes: &[u8]) {
    let mut u = Unstructured::new(bytes);
    let last = world.hosts.len() - 1;
    let mut step = |world: &mut World| -> Result<()> {
        let host = u.int_in_range(0..=last)?;
        match u.int_in_range(0..=15)? {
            0..=2 => pass_time(&mut u, world)?,
            3 => world.lose = world.lose.saturating_add(u.int_in_range(0..=20)?),
            4 => {
                let index = u.arbitrary()?;
                if let Some(flow) = world.flow(host, index) {
                    world.pause(host, flow, u.arbitrary()?);
                }
            }
            5 if u.ratio(1, 8)? => {
                let index = u.arbitrary()?;
                if let Some(flow) = world.flow(host, index) {
                    world.hosts[host].abort(world.now, flow, "fuzz");
                    world.settle(host);
                }
            }
            6 => world.send(host, u64::from(u.arbitrary::<u16>()?) % 20_000),
            7 => {
                let (from, to) = (ADDRESSES[(host + 1) % world.hosts.len()], ADDRESSES[host]);
                let packet = forge::packet(&mut u, transport, from, to)?;
                world.inject(host, &packet);
            }
            8 if transport == TransportKind::Fastlane && !world.captured.is_empty() => {
                let index = u.choose_index(world.captured.len())?;
                let packet = forge::notification(&mut u, &world.captured[index])?;
                inject_as_addressed(world, &packet);
            }
            _ if !world.captured.is_empty() => {
                let index = u.choose_index(world.captured.len())?;
                let packet = forge::damaged(&mut u, &world.captured[index])?;
                inject_as_addressed(world, &packet);
            }
            _ => {}
        }
        Ok(())
    };
    for _ in 0..MAX_OPERATIONS {
        if step(&mut world).is_err() {
            break;
        }
    }
    // Resumes all flows: a flow that its application has paused need not end.
    for (host, flow) in std::mem::take(&mut world.paused) {
        world.pause(host, flow, false);
    }
    let end = world.now + LONG;
    world.run_until(end);
    assert!(world.is_quiet(), "something is left behind");
}

/// Injects a packet at the hosts of its destination address, or at the first host if it has none.
fn inject_as_addressed(world: &mut World, packet: &[u8]) {
    let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
    let mut meant = world.hosts_at(destination);
    if meant.is_empty() {
        meant.push(0);
    }
    for host in meant {
        world.inject(host, packet);
    }
}
