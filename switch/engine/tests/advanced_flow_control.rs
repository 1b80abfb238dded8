//! Programs for Tofino 2 that stop queues by themselves: `adv_flow_ctl`.

use ebb_engine::NodeId;
use ebb_engine::simulation::Simulation;
use ebb_pipeline::Pipeline;
use ebb_units::Instant;

use crate::outside::{Outside, inject, run};
use crate::switches::at;
use crate::tofino;

/// The deparser that sends a packet's message.
#[derive(Clone, Copy)]
enum Sender {
    Nobody,
    Ingress,
    Egress,
}

/// Message about a queue of port 9, which is the second channel of the first pipe's second MAC.
fn message(queue: u32, paused: bool) -> u32 {
    1 << 31 | 1 << 25 | (1 << 4 | queue) << 15 | u32::from(paused)
}

fn pipeline() -> Pipeline {
    let text = include_str!("programs/flow_control.p4");
    tofino::pipeline("flow_control.p4", text, false)
}

fn fabric() -> (Simulation<Outside>, NodeId) {
    tofino::fabric(pipeline(), 8, [1, 9])
}

/// A packet for a queue; its last byte is its name.
fn send(
    fabric: &mut Simulation<Outside>,
    id: NodeId,
    us: u64,
    (by, message): (Sender, u32),
    queue: u8,
    name: u8,
) {
    let frame = [&[by as u8][..], &message.to_be_bytes(), &[queue, name]].concat();
    inject(fabric, Instant::from_micros(us), at(id, 1), frame);
}

/// Names of the packets that left, with the microseconds at which they did.
fn left(fabric: &mut Simulation<Outside>) -> Vec<(u64, u8)> {
    let all = run(fabric).into_iter();
    all.map(|of| (of.at.as_nanos() / 1000, of.frame[6]))
        .collect()
}

const NO_MESSAGE: (Sender, u32) = (Sender::Nobody, u32::MAX);

#[test]
fn ingress_stops_a_queue_until_it_lets_it_resume() {
    let (mut fabric, id) = fabric();
    send(
        &mut fabric,
        id,
        1,
        (Sender::Ingress, message(3, true)),
        0,
        b'p',
    );
    send(&mut fabric, id, 2, NO_MESSAGE, 3, b'a');
    send(&mut fabric, id, 3, NO_MESSAGE, 4, b'b');
    send(&mut fabric, id, 4, NO_MESSAGE, 3, b'c');
    send(
        &mut fabric,
        id,
        9,
        (Sender::Ingress, message(3, false)),
        3,
        b'r',
    );
    let expected = [(1, b'p'), (3, b'b'), (9, b'a'), (9, b'c'), (9, b'r')];
    assert_eq!(left(&mut fabric), expected);
}

#[test]
fn egress_stops_what_waits_behind_the_packet_that_asks() {
    let (mut fabric, id) = fabric();
    send(
        &mut fabric,
        id,
        1,
        (Sender::Ingress, message(0, true)),
        5,
        b'x',
    );
    send(
        &mut fabric,
        id,
        2,
        (Sender::Egress, message(0, true)),
        0,
        b'p',
    );
    send(&mut fabric, id, 2, NO_MESSAGE, 0, b'a');
    send(
        &mut fabric,
        id,
        3,
        (Sender::Ingress, message(0, false)),
        5,
        b'y',
    );
    send(
        &mut fabric,
        id,
        8,
        (Sender::Egress, message(0, false)),
        5,
        b'r',
    );
    let expected = [(1, b'x'), (3, b'y'), (3, b'p'), (8, b'r'), (8, b'a')];
    assert_eq!(left(&mut fabric), expected);
}

#[test]
fn a_new_program_finds_no_queue_stopped() {
    let (mut fabric, id) = fabric();
    send(
        &mut fabric,
        id,
        1,
        (Sender::Ingress, message(3, true)),
        0,
        b'p',
    );
    send(&mut fabric, id, 2, NO_MESSAGE, 3, b'a');
    assert_eq!(left(&mut fabric), [(1, b'p')]);
    fabric.with_switch(id, |switch| switch.install(pipeline()).expect("as before"));
    send(&mut fabric, id, 5, NO_MESSAGE, 3, b'b');
    // The packet that waited belonged to the program before.
    assert_eq!(left(&mut fabric), [(5, b'b')]);
}
