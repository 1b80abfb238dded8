//! Switches with programs for Tofino that are compiled here.

use std::collections::BTreeMap;

use ebb_engine::simulation::Simulation;
use ebb_engine::{NodeId, Switch, SwitchOptions};
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::Pipeline;
use ebb_traffic_manager::TrafficManagerConfig;

use crate::outside::{Outside, attach};
use crate::switches::at;

/// A program of this name and text, as native code or interpreted.
pub fn pipeline(name: &str, text: &str, is_interpreted: bool) -> Pipeline {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let options = Default::default();
    let compiled = ebb_p4c::compile(name, text, &options, &mut sources, &diagnostics);
    let program = compiled.expect("a right program").json;
    let pipeline = match is_interpreted {
        true => Pipeline::load_interpreted(&program),
        false => Pipeline::load(&program),
    };
    pipeline.expect("loadable")
}

/// A switch with a program, queues without limits, and hosts at these ports.
pub fn fabric(
    pipeline: Pipeline,
    queues: u8,
    ports: impl IntoIterator<Item = u16>,
) -> (Simulation<Outside>, NodeId) {
    let options = SwitchOptions {
        name: "s".into(),
        device_id: 0,
        cpu_port: None,
        drop_port: 511,
    };
    let config = TrafficManagerConfig {
        ports: BTreeMap::new(),
        ..TrafficManagerConfig::like_bmv2(queues)
    };
    let mut switch = Switch::new(options, config).expect("valid configuration");
    switch.install(pipeline).expect("nothing is exported");
    let mut fabric = Simulation::new();
    let id = fabric.add_switch(switch);
    for port in ports {
        attach(&mut fabric, at(id, port));
    }
    (fabric, id)
}
