//! Random packets through `fabric.p4`: with every shortcut, and the plain way.

#[path = "../tests/common/fabric.rs"]
mod fabric;

use ebb_units::Instant;
use proptest::prelude::*;

use crate::{Deflect, EgressInput, IngressInput, IngressVerdict, Pipeline, instance_type};

/// A frame of wire-vectors.json, damaged.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let frames: Vec<Vec<u8>> = fabric::vectors()
        .unwrap()
        .into_iter()
        .map(|(_, frame)| frame)
        .collect();
    let damage = proptest::collection::vec((0usize..90, any::<u8>()), 0..4);
    // Half of them keep a right checksum, or nearly nothing would get past it.
    (
        prop::sample::select(frames),
        damage,
        0usize..120,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(mut frame, damage, length, cut, repair)| {
            for (at, byte) in damage {
                if let Some(b) = frame.get_mut(at) {
                    *b = byte;
                }
            }
            if repair && frame.len() >= 34 {
                let header = 14 + 4 * usize::from(frame[14] & 15).clamp(5, 15);
                frame[24..26].fill(0);
                let end = header.min(frame.len());
                let sum = crate::hash::internet_checksum(&frame[14..end]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            if cut {
                frame.truncate(length);
            }
            frame
        })
}

/// Fate of a frame, and the words of its packet, to be compared.
fn forward(
    pipeline: &mut Pipeline,
    now: Instant,
    frame: &[u8],
    deflected: bool,
    depth: u32,
) -> (String, String) {
    let mut input = IngressInput {
        ingress_port: 2,
        ..IngressInput::default()
    };
    if deflected {
        input.instance_type = instance_type::DEFLECTED;
        input.deflect = Some(Deflect {
            egress_port: 1,
            enq_qdepth: depth,
        });
    }
    let outcome = pipeline.ingress(now, frame.to_vec(), &input);
    let (egress_port, queue_id, packet) = match outcome.verdict {
        IngressVerdict::Unicast {
            egress_spec,
            priority,
            packet,
        } => (egress_spec, priority, packet),
        other => return (format!("{other:?}"), String::new()),
    };
    let input = EgressInput {
        egress_port,
        queue_id,
        enq_qdepth: depth,
        ..EgressInput::default()
    };
    let length = packet.wire_len();
    let outcome = pipeline.egress(now, packet, &input);
    let words = pipeline.state.pool.last_words();
    let words = words.map(|words| pipeline.program.without_homes(words));
    (
        format!("{egress_port} {queue_id} {length} {:02x?}", outcome.verdict),
        format!("{words:?}"),
    )
}

/// A third of what a packet has is not initialised, and the header of a transport stays in the
/// frame.
#[test]
fn what_nothing_reads_is_left_alone() {
    let program = fabric::program().unwrap();
    let pipeline = Pipeline::load(&program).unwrap();
    let (usage, layout) = (&pipeline.program.usage, &pipeline.program.layout);
    let unset = usage.unset.iter().filter(|unset| **unset).count();
    assert!(
        3 * unset < 2 * usage.unset.len(),
        "{unset} of {}",
        usage.unset.len()
    );
    let ebb = layout.header_at(layout.header("ebb").unwrap());
    let words = ebb.first as usize..(ebb.first + ebb.words) as usize;
    assert!(!usage.stored[words].contains(&true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(32)))]

    #[test]
    fn shortcuts_change_nothing(
        packets in proptest::collection::vec((frame(), any::<bool>(), 0u32..60_000, 0u64..50), 1..12),
    ) {
        let program = fabric::program().unwrap();
        let mut fast = Pipeline::load(&program).unwrap();
        let mut plain = Pipeline::load_plain(&program).unwrap();
        let mut stale = Pipeline::new(fast.program().clone());
        for pipeline in [&mut fast, &mut plain, &mut stale] {
            fabric::install(pipeline).unwrap();
        }
        *fast.state.sets_all.get_mut() = true;
        stale.state.pool.rest = Some(0xa5a5_a5a5_a5a5_a5a5);
        let mut time = 0;
        for (frame, deflected, depth, later) in packets {
            time += later;
            let now = Instant::from_micros(time);
            let [fast, plain, stale] = [&mut fast, &mut plain, &mut stale]
                .map(|pipeline| forward(pipeline, now, &frame, deflected, depth));
            prop_assert_eq!(&fast, &plain);
            // Its words hold something else where nothing reads them.
            prop_assert_eq!(&fast.0, &stale.0);
        }
        prop_assert_eq!(fast.stats(), plain.stats());
        prop_assert_eq!(fast.stats(), stale.stats());
    }
}
