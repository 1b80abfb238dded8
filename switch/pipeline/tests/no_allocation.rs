//! Forwarding a packet allocates nothing once the first ones have filled the pools.

#[path = "common/counting.rs"]
mod counting;
#[path = "common/fabric.rs"]
mod fabric;
#[path = "common/frames.rs"]
mod frames;
#[path = "common/router.rs"]
mod router;

use counting::allocations;

use ebb_pipeline::control::ControlError;
use ebb_pipeline::{
    Deflect, EgressInput, EgressVerdict, IngressInput, IngressVerdict, Pipeline, instance_type,
};
use ebb_units::Instant;

/// The frames go round, as new ones each time.
fn forward(pipeline: &mut Pipeline, frames: &mut [Vec<u8>], fresh: &[Vec<u8>]) {
    for (frame, fresh) in frames.iter_mut().zip(fresh) {
        let mut sent = std::mem::take(frame);
        sent.clear();
        sent.extend_from_slice(fresh);
        let outcome = pipeline.ingress(Instant::ZERO, sent, &IngressInput::default());
        let IngressVerdict::Unicast {
            egress_spec,
            packet,
            ..
        } = outcome.verdict
        else {
            panic!("the frame was not forwarded: {:?}", outcome.verdict);
        };
        // A replica that finds no room, and one that is deflected.
        let (lost, deflected) = (
            pipeline.clone_packet(&packet),
            pipeline.clone_packet(&packet),
        );
        pipeline.recycle(lost);
        let again = pipeline.deparse(deflected).expect("a frame");
        let input_again = IngressInput {
            instance_type: instance_type::DEFLECTED,
            deflect: Some(Deflect {
                egress_port: egress_spec,
                enq_qdepth: 1,
            }),
            ..IngressInput::default()
        };
        match pipeline.ingress(Instant::ZERO, again, &input_again).verdict {
            IngressVerdict::Unicast { packet, .. } => pipeline.recycle(packet),
            IngressVerdict::Dropped(_) => {}
            other => panic!("{other:?}"),
        }
        let input = EgressInput {
            egress_port: egress_spec,
            ..EgressInput::default()
        };
        let outcome = pipeline.egress(Instant::ZERO, packet, &input);
        let EgressVerdict::Transmit(received) = outcome.verdict else {
            panic!("the frame was not sent: {:?}", outcome.verdict);
        };
        *frame = received;
    }
}

/// Both ways of running a program, after a few packets.
fn assert_allocates_nothing(
    program: &ebb_bmv2_json::Program,
    install: fn(&mut Pipeline) -> Result<(), ControlError>,
) {
    let fresh = frames::frames().unwrap();
    for load in [Pipeline::load, Pipeline::load_interpreted] {
        let mut pipeline = load(program).unwrap();
        install(&mut pipeline).unwrap();
        let mut frames = fresh.clone();
        for _ in 0..10 {
            forward(&mut pipeline, &mut frames, &fresh);
        }
        let before = allocations();
        for _ in 0..100 {
            forward(&mut pipeline, &mut frames, &fresh);
        }
        assert!(before > 0, "the allocator does not count");
        assert_eq!(allocations() - before, 0);
    }
}

#[test]
fn a_packet_of_the_fabric_allocates_nothing() {
    assert_allocates_nothing(&fabric::program().unwrap(), fabric::install);
}

#[test]
fn a_packet_of_a_router_allocates_nothing() {
    assert_allocates_nothing(&router::program().unwrap(), router::install);
}
