//! Pipes of a switch for Tofino: registers of their own, and ports that lead from one to another.

use ebb_engine::NodeId;
use ebb_engine::simulation::Simulation;

use crate::outside::{Outside, inject, run};
use crate::switches::at;
use crate::tofino;

/// A port in each of three pipes.
const PORTS: [u16; 3] = [1, 129, 385];

fn fabric(is_interpreted: bool) -> (Simulation<Outside>, NodeId) {
    let text = include_str!("programs/pipes.p4");
    tofino::fabric(tofino::pipeline("pipes.p4", text, is_interpreted), 1, PORTS)
}

/// The port by which a packet leaves that is to take these ports, and the counts in it, the last first; `None`: it
/// does not leave.
fn left(
    fabric: &mut Simulation<Outside>,
    id: NodeId,
    from: u16,
    ports: [u16; 2],
) -> Option<(u16, [u16; 2])> {
    let now = fabric.now();
    let frame = [ports[0], ports[1], 0, 0].map(u16::to_be_bytes).concat();
    inject(fabric, now, at(id, from), frame);
    let output = run(fabric).into_iter().next()?;
    let count = |at: usize| u16::from_be_bytes([output.frame[at], output.frame[at + 1]]);
    Some((output.from.port, [count(4), count(6)]))
}

#[test]
fn each_pipe_has_the_registers_for_itself() {
    for is_interpreted in [false, true] {
        let (mut fabric, id) = fabric(is_interpreted);
        let mut count = |from| {
            let (_, counts) = left(&mut fabric, id, from, [1, 0]).expect("a packet");
            counts[0]
        };
        assert_eq!([1, 1, 129, 1, 385, 129].map(&mut count), [1, 2, 1, 3, 1, 2]);
        // The control plane reads those of the first pipe, and writes to those of all.
        let cell = |fabric: &mut Simulation<Outside>, value: Option<u8>| {
            let read = fabric.with_switch(id, |switch| {
                let pipeline = switch.pipeline_mut().expect("a program");
                let register = pipeline.register("I.packets").expect("a register");
                let read = pipeline.register_value(register, 1).expect("a cell");
                match value {
                    Some(value) => pipeline.set_register_value(register, 1, &[value]),
                    None => pipeline.reset_register(register, Some(1)),
                }
                .expect("a cell");
                read
            });
            read.expect("a switch")
        };
        assert_eq!(cell(&mut fabric, Some(40)), [0, 3]);
        let mut count = |from| left(&mut fabric, id, from, [1, 0]).expect("a packet").1[0];
        assert_eq!([129, 385, 1].map(&mut count), [41, 41, 41]);
        cell(&mut fabric, None);
        let mut count = |from| left(&mut fabric, id, from, [1, 0]).expect("a packet").1[0];
        assert_eq!([129, 385, 1].map(&mut count), [1, 1, 1]);
    }
}

#[test]
fn a_port_in_loopback_mode_leads_into_its_pipe() {
    let (mut fabric, id) = fabric(false);
    // Port 130 has no link.
    assert_eq!(left(&mut fabric, id, 1, [130, 1]), None);
    let set = |fabric: &mut Simulation<Outside>, is_looped| {
        fabric.with_switch(id, |switch| {
            let pipeline = switch.pipeline_mut().expect("a program");
            pipeline.set_loopback(130, is_looped);
        });
    };
    set(&mut fabric, true);
    assert_eq!(left(&mut fabric, id, 1, [130, 1]), Some((1, [1, 2])));
    assert_eq!(left(&mut fabric, id, 385, [130, 129]), Some((129, [2, 1])));
    set(&mut fabric, false);
    assert_eq!(left(&mut fabric, id, 1, [130, 1]), None);
}
