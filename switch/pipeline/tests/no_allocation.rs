//! Forwarding a packet allocates nothing once the first ones have filled the pools.

#[path = "common/fabric.rs"]
mod fabric;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ebb_pipeline::{
    Deflect, EgressInput, EgressVerdict, IngressInput, IngressVerdict, Pipeline, instance_type,
};
use ebb_units::Instant;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    // Not at the end of a thread, when its variables are gone.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let again = pipeline.deparse(deflected);
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

#[test]
fn a_packet_of_the_fabric_allocates_nothing() {
    let mut pipeline = fabric::pipeline().unwrap();
    let fresh = fabric::frames().unwrap();
    let mut frames = fresh.clone();
    for _ in 0..10 {
        forward(&mut pipeline, &mut frames, &fresh);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        forward(&mut pipeline, &mut frames, &fresh);
    }
    assert!(before > 0, "the allocator does not count");
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
