//! Switches that run `programs/classes.p4`, whose packets have classes, and PFC frames for them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ebb_engine::trace::PfcFrame;
use ebb_engine::{Switch, SwitchOptions};
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::{Pfc, Profile, QueueConfig, TrafficManagerConfig, Watchdog};
use ebb_units::{BitRate, Duration, Instant};

use crate::switches::*;

pub const GIGABIT: BitRate = BitRate::from_mbps(1000);
/// The delay of every link.
pub const DELAY: Duration = Duration::from_nanos(500);
/// How soon switches obey a PFC frame.
pub const RESPONSE: Duration = Duration::from_nanos(1_024);
/// The classes that take part in flow control.
pub const LOSSLESS: [u8; 2] = [3, 5];

/// The time of one quantum at [`GIGABIT`].
pub fn quanta(count: u64) -> Duration {
    GIGABIT.time_for(64 * count)
}

static PROGRAM: LazyLock<ebb_bmv2_json::Program> = LazyLock::new(|| {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let text = include_str!("programs/classes.p4");
    let options = Default::default();
    let compiled = ebb_p4c::compile("classes.p4", text, &options, &mut sources, &diagnostics);
    compiled.expect("a right program").json
});

pub fn classes_program() -> Pipeline {
    Pipeline::load(&PROGRAM).expect("loadable")
}

pub fn interpreted_classes_program() -> Pipeline {
    Pipeline::load_interpreted(&PROGRAM).expect("loadable")
}

/// Queues 0, 3, 5 and 7, of which 3 and 5 are lossless, at a gigabit.
pub fn profile() -> Profile {
    let queue = |id| QueueConfig {
        id,
        lossless: LOSSLESS.contains(&id),
        ..QueueConfig::default()
    };
    Profile {
        name: "p".into(),
        rate_bps: GIGABIT,
        delay_ns: DELAY.as_nanos(),
        rx_delay_ns: DELAY.as_nanos(),
        queue: [0, 3, 5, 7].map(queue).into(),
        ..Profile::default()
    }
}

pub fn flow_control() -> Pfc {
    Pfc {
        pause_bytes: Some(8_192),
        resume_bytes: Some(4_557),
        accounting: Default::default(),
        response_ns: RESPONSE.as_nanos(),
        wakeup_ns: 0,
        max_frame_bytes: 1_530,
        watchdog_ns: 0,
        watchdog: Watchdog::Report,
    }
}

pub fn config() -> TrafficManagerConfig {
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".into(), "p".into())]),
        profile: vec![profile()],
        pfc: Some(flow_control()),
        ..TrafficManagerConfig::default()
    }
}

pub fn lossless_switch(name: &str, config: TrafficManagerConfig) -> Switch {
    let mut switch = Switch::new(options(name), config).expect("valid configuration");
    switch
        .install(classes_program())
        .expect("the registers there are");
    switch
}

pub fn options(name: &str) -> SwitchOptions {
    SwitchOptions {
        name: name.into(),
        device_id: 0x0102_0304,
        cpu_port: Some(CPU_PORT),
        drop_port: 511,
    }
}

/// A frame of a class.
pub fn frame_of(class: u8, to: u8, len: usize) -> Vec<u8> {
    let mut frame = frame(to, len);
    frame[12..14].copy_from_slice(&[0x90, class]);
    frame
}

/// The class of a frame that [`frame_of`] made.
pub fn class_of(frame: &[u8]) -> u8 {
    frame[13]
}

/// A PFC frame byte by byte, as IEEE 802.1Qbb has it.
pub fn pfc(named: &[(u8, u16)]) -> Vec<u8> {
    let mut frame = vec![
        0x01, 0x80, 0xc2, 0, 0, 0x01, 2, 0, 0, 0, 0, 0x99, 0x88, 0x08,
    ];
    frame.extend([0x01, 0x01]);
    let vector = named.iter().fold(0u16, |set, (class, _)| set | 1 << class);
    frame.extend(vector.to_be_bytes());
    let mut times = [0u16; PfcFrame::CLASSES];
    for (class, quanta) in named {
        times[usize::from(*class)] = *quanta;
    }
    frame.extend(times.iter().flat_map(|time| time.to_be_bytes()));
    frame.resize(60, 0);
    frame
}

/// So many microseconds after the start.
pub fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// So many nanoseconds after the start.
pub fn ns(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}
