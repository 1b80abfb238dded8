//! Hosts that a program outside plays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::exchange::Exchange;
use crate::lines::TimedFrame;

/// Payload of the frames here, so that they have 114 bytes.
const PAYLOAD: usize = 80;

/// An IPv4 packet in a frame to a host of the star.
fn frame(to: u8) -> Vec<u8> {
    let mut frame = vec![2, 255, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = [0, 20 + PAYLOAD as u8];
    frame.extend([0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 2, 10, 0, 0, to + 1]);
    frame.extend([7; PAYLOAD]);
    frame
}

fn timed(at_ns: u64, frame: &[u8]) -> TimedFrame {
    TimedFrame {
        at_ns,
        frame: STANDARD.encode(frame),
    }
}

/// A star of three hosts, of which `external` ones are played here.
fn star(external: &[usize], change: impl FnOnce(&mut Value)) -> (Run, Exchange) {
    let topology = Topology::star(3);
    let mut network = topology.network("ndp");
    for host in external {
        network["hosts"][host - 1]["external"] = json!(true);
    }
    change(&mut network);
    let mut built = topology.build(network);
    let exchange = Exchange::new(std::mem::take(&mut built.external), built.reaction_ns);
    (Run::new(built).unwrap().0, exchange.expect("a reaction"))
}

/// Runs until hosts have their turn with something that has arrived, and returns that.
fn until_frames(run: &mut Run, exchange: &Exchange) -> Vec<(String, u64, Vec<u8>)> {
    while !exchange.has_arrivals(&run.simulation) || !exchange.is_turn(run.now()) {
        let next = run.next_event();
        let turn = exchange.next_turn(run.now(), next).expect("an event");
        run.advance(turn, |_, _| false);
    }
    let mut lines = Vec::new();
    exchange.write(&mut run.simulation, &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let frames = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["event"], "frame");
        let bytes = STANDARD.decode(line["frame"].as_str().unwrap()).unwrap();
        let host = line["host"].as_str().unwrap().to_owned();
        (host, line["at_ns"].as_u64().unwrap(), bytes)
    });
    frames.collect()
}

/// Time that a frame of this length takes on a link, whose overhead is not counted here.
fn wire_ns(bytes: usize) -> u64 {
    (bytes as u64) * 8 * 1_000_000_000 / RATE_BPS
}

#[test]
fn a_frame_takes_its_time_and_is_answered_at_a_turn() {
    let (mut run, exchange) = star(&[1, 2], |_| ());
    let sent = frame(2);
    let frames = vec![timed(500, &sent), timed(500, &sent)];
    exchange.send(&mut run.simulation, "h1", frames).unwrap();
    let arrived = until_frames(&mut run, &exchange);
    // The first bit leaves at 500 ns; the switch sends on what it has whole.
    let first = 500 + 2 * wire_ns(sent.len()) + 2 * DELAY_NS;
    assert_eq!(arrived[0].0, "h2");
    assert_eq!(arrived[0].1, first);
    assert_eq!(arrived[0].2[14..], {
        let mut ipv4 = sent[14..].to_vec();
        ipv4[8] = arrived[0].2[22];
        ipv4[10..12].copy_from_slice(&arrived[0].2[24..26]);
        ipv4
    });
    let turn = run.now().as_nanos();
    assert_eq!(turn, first.next_multiple_of(1000));
    // The second follows at the rate of the link.
    let others = match arrived.get(1) {
        Some(second) => vec![second.clone()],
        None => until_frames(&mut run, &exchange),
    };
    assert_eq!(others[0].1, first + wire_ns(sent.len()));
    // The answer leaves now at the earliest.
    let now = run.now().as_nanos();
    let answer = vec![timed(now, &frame(1))];
    exchange.send(&mut run.simulation, "h2", answer).unwrap();
    let arrived = until_frames(&mut run, &exchange);
    let later = 2 * wire_ns(sent.len()) + 2 * DELAY_NS;
    assert_eq!((&*arrived[0].0, arrived[0].1), ("h1", now + later));
}

#[test]
fn a_quiet_network_is_passed_at_once_and_the_trace_has_no_turns_in_it() {
    let hash = |reaction_ns: u64| {
        let (mut run, exchange) = star(&[1, 2], |n| n["reaction_ns"] = json!(reaction_ns));
        let late = vec![timed(900_000_000_000, &frame(2))];
        exchange.send(&mut run.simulation, "h1", late).unwrap();
        assert_eq!(until_frames(&mut run, &exchange).len(), 1);
        run.simulation.trace_hash()
    };
    assert_eq!(hash(1), hash(7_000));
}

#[test]
fn other_hosts_take_part_in_transfers_as_ever() {
    let transfers = json!([{
        "id": 0, "start_ns": 10_000, "sources": ["h2"], "destinations": ["h3"], "bytes": 50_000,
    }]);
    let (mut run, exchange) = star(&[1], |n| n["transfers"] = transfers);
    let frames = vec![timed(0, &frame(3))];
    exchange.send(&mut run.simulation, "h1", frames).unwrap();
    while !run.is_over() {
        run.advance(Instant::from_nanos(1_000_000_000), |_, _| false);
    }
    assert_eq!(run.done().ended, 1);
    assert!(!exchange.has_arrivals(&run.simulation));
}

#[test]
fn orders_that_cannot_be_obeyed() {
    let (mut run, exchange) = star(&[1, 2], |_| ());
    run.advance(Instant::from_nanos(5_000), |_, _| false);
    let mut refusal = |host: &str, frame: TimedFrame| {
        let sent = exchange.send(&mut run.simulation, host, vec![frame]);
        format!("{:#}", sent.expect_err("refused"))
    };
    let told = refusal("h1", timed(4_999, &frame(2)));
    assert_eq!(
        told,
        "a frame of h1 is due at 4999 ns, and it is 5000 ns by now"
    );
    let told = refusal("h3", timed(5_000, &frame(2)));
    assert_eq!(told, "send: h3 is no external host");
    let told = refusal("h1", timed(5_000, &[0; 13]));
    assert_eq!(told, "a frame of h1 has 13 bytes; 14 to 10000");
    let told = refusal("h1", timed(5_000, &[0; 10_001]));
    assert!(told.contains("10001 bytes"), "{told}");
    let odd = TimedFrame {
        at_ns: 5_000,
        frame: "??".into(),
    };
    let told = refusal("h1", odd);
    assert!(told.starts_with("send: a frame of h1: Invalid"), "{told}");
    let told = Exchange::new(BTreeMap::new(), 0).err().expect("refused");
    assert!(told.to_string().starts_with("reaction_ns is 0"), "{told}");
}
