//! `router.p4` with a few routes, and the frames it forwards: those of the fabric, which are IPv4 to 10.0.0.0/8.

use ebb_bmv2_json::Program;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{ActionCall, ControlError, MatchKey, TableAction, TableEntry};
use ebb_units::Instant;

const PORTS: u16 = 4;

pub fn program() -> Result<Program, String> {
    let options = ebb_p4c::preprocess::Options::default();
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let text = include_str!("router.p4");
    ebb_p4c::compile("router.p4", text, &options, &mut sources, &diagnostics)
        .map(|compiled| compiled.json)
        .ok_or_else(|| "router.p4 does not compile: `ebb-p4c` says why".to_owned())
}

fn add(
    pipeline: &mut Pipeline,
    (table, action): (&str, &str),
    key: MatchKey,
    params: &[u64],
) -> Result<(), ControlError> {
    let table = pipeline.table(table)?;
    let action = ActionCall {
        action: pipeline.table_action(table, action)?,
        params: params.iter().map(|n| n.to_be_bytes().to_vec()).collect(),
    };
    let entry = TableEntry {
        key: vec![key],
        priority: 0,
        action: TableAction::Direct(action),
        idle_timeout: None,
        metadata: Vec::new(),
    };
    pipeline.insert_entry(Instant::ZERO, table, entry)?;
    Ok(())
}

pub fn install(pipeline: &mut Pipeline) -> Result<(), ControlError> {
    for subnet in 0..16u8 {
        let port = u64::from(subnet) % u64::from(PORTS);
        let key = MatchKey::Lpm {
            value: vec![10, subnet / 4, subnet % 4, 0],
            prefix_len: 24,
        };
        let params = [port, 0x0200_0000_2000 + port];
        let route = ("RouterIngress.route", "RouterIngress.forward");
        add(pipeline, route, key, &params)?;
    }
    for port in 0..PORTS {
        let key = MatchKey::Exact(port.to_be_bytes().to_vec());
        let source = ("RouterEgress.source", "RouterEgress.set_source");
        add(pipeline, source, key, &[0x0200_0000_1000 + u64::from(port)])?;
    }
    Ok(())
}
