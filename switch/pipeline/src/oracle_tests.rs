//! Random packets through `fabric.p4`: with every shortcut, and the plain way.

#[path = "../tests/common/fabric.rs"]
mod fabric;

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
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

/// Three quarters of what a packet has are not initialised, and the header of a transport stays in the
/// frame.
#[test]
fn what_nothing_reads_is_left_alone() {
    let program = fabric::program().unwrap();
    let pipeline = Pipeline::load(&program).unwrap();
    let (usage, layout) = (&pipeline.program.usage, &pipeline.program.layout);
    let unset = usage.unset.iter().filter(|unset| **unset).count();
    assert!(
        4 * unset < usage.unset.len(),
        "{unset} of {}",
        usage.unset.len()
    );
    let ebb = layout.header_at(layout.header("ebb").unwrap());
    let words = ebb.first as usize..(ebb.first + ebb.words) as usize;
    assert!(!usage.stored[words].contains(&true));
    // The parser reads only fields that the program reads, and the checksum is made of bytes.
    let left = |field: &str| usage.left[ebb.field(field).unwrap().slot.at as usize];
    assert!(left("payload_crc") && left("block") && !left("entropy"));
    assert!(
        usage.in_order && usage.verified_in_frame == [true] && usage.updated_in_frame == [true]
    );
}

/// Fate of a frame that comes in at port 2; `between` comes between ingress and egress.
fn pass(pipeline: &mut Pipeline, frame: &[u8], between: fn(&mut Pipeline)) -> String {
    let input = IngressInput {
        ingress_port: 2,
        ..IngressInput::default()
    };
    let outcome = pipeline.ingress(Instant::ZERO, frame.to_vec(), &input);
    between(pipeline);
    let IngressVerdict::Unicast { packet, .. } = outcome.verdict else {
        return format!("{outcome:?}");
    };
    let input = EgressInput {
        egress_port: 1,
        ..EgressInput::default()
    };
    let outcome = pipeline.egress(Instant::ZERO, packet, &input);
    pipeline.take_trace();
    format!("{:02x?}", outcome.verdict)
}

/// The interpreter goes on with a packet of which native code has left fields in the frame.
#[test]
fn a_trace_begins_between_ingress_and_egress() {
    let mut native = Pipeline::load(&fabric::program().unwrap()).unwrap();
    let mut traced = Pipeline::new(native.program().clone());
    for pipeline in [&mut native, &mut traced] {
        fabric::install(pipeline).unwrap();
    }
    for (name, frame) in fabric::vectors().unwrap() {
        let expected = pass(&mut native, &frame, |_| {});
        assert_eq!(
            pass(&mut traced, &frame, Pipeline::start_trace),
            expected,
            "{name}"
        );
    }
}

/// Programs of `p4src/tna` whose tables and actions have the names of `fabric.p4`.
const TOFINO: [&str; 2] = ["fabric_marking", "fabric_trimming"];

fn tofino_program(name: &str) -> ebb_bmv2_json::Program {
    let path = fabric::in_repository(&format!("p4src/tna/{name}.p4"));
    let text = std::fs::read_to_string(&path).unwrap();
    let options = ebb_p4c::preprocess::Options::default();
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let name = path.to_str().unwrap();
    let compiled = ebb_p4c::compile(name, &text, &options, &mut sources, &diagnostics);
    compiled.expect("it compiles").json
}

/// The port by which packets come back, and what deflection puts in front of them: that port 1 has refused what came in
/// by port 2.
const AGAIN: (u16, [u8; 5]) = (68, [2, 0, 1, 0, 2]);

/// All that a frame leads to that comes in at this port.
fn pass_tofino(
    pipeline: &mut Pipeline,
    now: Instant,
    (ingress_port, frame): (u16, &[u8]),
    depth: u32,
) -> String {
    let input = IngressInput {
        ingress_port,
        ..IngressInput::default()
    };
    let outcome = pipeline.ingress(now, frame.to_vec(), &input);
    let (egress_port, packet) = match outcome.verdict {
        IngressVerdict::Unicast {
            egress_spec,
            packet,
            ..
        } => (egress_spec, packet),
        other => return format!("{other:?}"),
    };
    let input = EgressInput {
        egress_port,
        enq_qdepth: depth,
        deq_qdepth: depth,
        enq_timestamp: now,
        ..EgressInput::default()
    };
    let verdict = pipeline.egress(now, packet, &input).verdict;
    format!("{egress_port} {verdict:02x?}")
}

#[test]
fn the_program_for_tofino_forwards() {
    for name in TOFINO {
        let mut pipeline = Pipeline::load(&tofino_program(name)).unwrap();
        assert!(pipeline.program.native.is_some());
        fabric::install(&mut pipeline).unwrap();
        let vectors = fabric::vectors().unwrap();
        let passed = vectors.iter().filter(|(_, frame)| {
            pass_tofino(&mut pipeline, Instant::ZERO, (2, frame), 0).contains("Transmit")
        });
        let passed = passed.count();
        assert!(2 * passed > vectors.len(), "{passed} of {}", vectors.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ebb_testkit::cases(32)))]

    #[test]
    fn native_code_of_tofino_changes_nothing(
        name in prop::sample::select(TOFINO.to_vec()),
        packets in proptest::collection::vec((frame(), 0u32..600, 0u64..50, any::<bool>()), 1..12),
    ) {
        let program = tofino_program(name);
        let mut native = Pipeline::load(&program).unwrap();
        let mut interpreted = Pipeline::load_interpreted(&program).unwrap();
        let mut plain = Pipeline::load_plain(&program).unwrap();
        let mut stale = Pipeline::new(native.program().clone());
        stale.state.pool.rest = Some(0xa5a5_a5a5_a5a5_a5a5);
        for pipeline in [&mut native, &mut interpreted, &mut plain, &mut stale] {
            fabric::install(pipeline).unwrap();
        }
        let mut time = 0;
        for (frame, depth, later, again) in packets {
            let (port, front) = if again { (AGAIN.0, &AGAIN.1[..]) } else { (2, &[][..]) };
            let frame = [front, &frame].concat();
            time += later;
            let now = Instant::from_micros(time);
            let all = [&mut native, &mut interpreted, &mut plain, &mut stale];
            let [native, interpreted, plain, stale] =
                all.map(|pipeline| pass_tofino(pipeline, now, (port, &frame), depth));
            prop_assert_eq!(&native, &interpreted);
            prop_assert_eq!(&native, &stale);
            prop_assert_eq!(&interpreted, &plain);
        }
        prop_assert_eq!(native.stats(), plain.stats());
        let [native, interpreted] = [native, interpreted].map(|p| format!("{:?}", p.state.registers));
        prop_assert_eq!(native, interpreted);
    }

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
