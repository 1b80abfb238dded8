//! Back-pressure: a receiver whose application cannot take more.

use ebb_units::Instant;

use super::*;
use crate::record::{Role, Status};
use crate::testing::{Fate, Network, PortParams};
use crate::{FlowId, Progress};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network() -> Network {
    Network::new(2, PortParams::default(), |config| {
        NdpHost::new(config, NdpParams::default())
    })
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_micros(1000 * ms)
}

fn only_receiver(net: &Network) -> FlowId {
    let flows: Vec<_> = net
        .delivered
        .keys()
        .filter(|(host, _)| *host == 1)
        .collect();
    assert_eq!(flows.len(), 1);
    flows[0].1
}

fn packets_sent(net: &Network) -> usize {
    let data = |h: &EbbHeader| h.packet_type == PacketType::Data;
    net.log.iter().filter(|(_, _, h)| data(h)).count()
}

#[test]
fn a_paused_receiver_gets_a_window_more_and_lives_on() {
    for trims in [false, true] {
        let mut net = network();
        if trims {
            net.fate = Box::new(|n, header| match header.packet_type {
                PacketType::Data if n % 7 == 0 => Fate::Trim,
                _ => Fate::Pass,
            });
        }
        let bytes = 2000 * SYMBOL;
        let sender = net.send(0, 1, bytes);
        net.run_until(at_ms(2));
        let flow = only_receiver(&net);
        let before = packets_sent(&net);
        net.tell(1, |t, now| t.set_paused(now, flow, true));
        // Longer than either side waits for a peer that is silent.
        net.run_until(at_ms(3_000));
        let after = packets_sent(&net);
        assert!(after - before <= 2 * WINDOW as usize, "{before} {after}");
        let progress = |net: &mut Network, host, flow| net.transport(host).progress(flow).unwrap();
        let received: Progress = progress(&mut net, 1, flow);
        assert_eq!(received.total_bytes, Some(bytes));
        assert_eq!(received.done_bytes, net.delivered[&(1, flow)].len() as u64);
        let sent = progress(&mut net, 0, sender);
        let held = sent.done_bytes - received.done_bytes;
        assert!(held <= 32 * SYMBOL, "{held} bytes held for order");
        net.tell(1, |t, now| t.set_paused(now, flow, false));
        let resumed = net.now;
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.packets_sent, 2000 + received.counters.trimmed);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        let rest = received.finished_at_ns - resumed.as_nanos();
        // 12.1 us for each packet that was still to come.
        let ideal = (sent.counters.packets_sent - after as u64) * 12_112;
        assert!(
            rest < ideal + 500_000,
            "{rest} ns for the rest, ideal {ideal}"
        );
        assert_eq!(net.transport(0).progress(FlowId(1)), None);
    }
}

#[test]
fn pausing_twice_or_what_has_ended_is_harmless() {
    let mut net = network();
    net.send(0, 1, 300 * SYMBOL);
    net.run_until(at_ms(1));
    let flow = only_receiver(&net);
    for paused in [true, true, false, false, true] {
        net.tell(1, |t, now| t.set_paused(now, flow, paused));
    }
    net.run_until(at_ms(50));
    net.tell(1, |t, now| t.set_paused(now, flow, false));
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(
        (sent.counters.packets_sent, received.counters.pulls_sent),
        (300, 300 - WINDOW)
    );
    net.tell(1, |t, now| t.set_paused(now, flow, true));
    net.tell(1, |t, now| t.set_paused(now, FlowId(77), true));
    net.run();
    assert!(!net.transport(1).is_active());
}

/// The keep-alive asks for nothing, but finds out that nobody is there to be kept waiting.
#[test]
fn a_paused_receiver_learns_that_its_sender_has_given_up() {
    let mut net = network();
    let sender = net.send(0, 1, 300 * SYMBOL);
    net.run_until(at_ms(1));
    let flow = only_receiver(&net);
    net.tell(1, |t, now| t.set_paused(now, flow, true));
    net.run_until(at_ms(400));
    net.fate = Box::new(|_, header| match header.packet_type {
        // So that only the answer to a keep-alive can tell.
        PacketType::Reset if header.symbol == 5 => Fate::Drop,
        _ => Fate::Pass,
    });
    net.tell(0, |t, now| t.abort(now, sender, "told to stop"));
    net.run();
    let (_, _, record) = net
        .records
        .iter()
        .find(|(_, _, r)| r.role == Role::Receiver)
        .unwrap();
    assert!(matches!(&record.status, Status::Failed(why) if why.contains("does not know")));
}
