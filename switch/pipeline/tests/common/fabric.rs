//! `build/fabric.json` with the entries of a small fat-tree's switch, and the frames it forwards.

use std::path::{Path, PathBuf};

use ebb_bmv2_json::Program;
use ebb_pipeline::Pipeline;
use ebb_pipeline::control::{
    ActionCall, ControlError, MatchKey, TableAction, TableEntry, WeightedAction,
};
use ebb_units::Instant;

const PORTS: u16 = 4;

pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| {
        format!(
            "{}: {e}; `make build` makes the programs' JSON files",
            path.display()
        )
    })
}

pub fn program() -> Result<Program, String> {
    built("fabric")
}

/// A program that `make` has compiled.
pub fn built(name: &str) -> Result<Program, String> {
    let text = read(&in_repository(&format!("build/{name}.json")))?;
    Program::from_json(text.as_bytes()).map_err(|e| e.to_string())
}

fn call(
    pipeline: &Pipeline,
    table: &str,
    action: &str,
    params: &[u64],
) -> Result<ActionCall, ControlError> {
    let table = pipeline.table(table)?;
    Ok(ActionCall {
        action: pipeline.table_action(table, action)?,
        params: params.iter().map(|n| n.to_be_bytes().to_vec()).collect(),
    })
}

fn add(
    pipeline: &mut Pipeline,
    table: &str,
    key: MatchKey,
    priority: i32,
    action: TableAction,
) -> Result<(), ControlError> {
    let table = pipeline.table(table)?;
    let entry = TableEntry {
        key: vec![key],
        priority,
        action,
        idle_timeout: None,
        metadata: Vec::new(),
    };
    pipeline.insert_entry(Instant::ZERO, table, entry)?;
    Ok(())
}

/// Fills the tables as docs/architecture.md describes them.
pub fn install(pipeline: &mut Pipeline) -> Result<(), ControlError> {
    let table = "FabricIngress.traffic_class.traffic_class";
    let action = "FabricIngress.traffic_class.set_traffic_class";
    // DSCP: queue, spray, trimmable, MLFQ (1: the sender's level). wire-format.md, "Classes".
    for (dscp, params) in [
        (0, [0, 0, 0, 0]),
        (10, [1, 1, 1, 1]),
        (12, [7, 1, 0, 0]),
        (14, [7, 1, 0, 0]),
        (46, [7, 1, 0, 0]),
    ] {
        let action = TableAction::Direct(call(pipeline, table, action, &params)?);
        add(pipeline, table, MatchKey::Exact(vec![dscp]), 0, action)?;
    }
    let (table, action) = (
        "FabricIngress.mlfq.mlfq_level",
        "FabricIngress.mlfq.set_mlfq_queue",
    );
    for level in 0..4u8 {
        let action = TableAction::Direct(call(pipeline, table, action, &[6 - u64::from(level)])?);
        add(pipeline, table, MatchKey::Exact(vec![level]), 0, action)?;
    }
    let (table, action) = (
        "FabricIngress.route.ipv4_route",
        "FabricIngress.route.set_next_hop",
    );
    for pod in 0..4 {
        for edge in 0..4 {
            let members = (0..u64::from(PORTS))
                .map(|port| {
                    Ok(WeightedAction {
                        call: call(
                            pipeline,
                            table,
                            action,
                            &[port, 0x0200_0000_1000, 0x0200_0000_2000 + port],
                        )?,
                        weight: 1,
                        watch_port: None,
                    })
                })
                .collect::<Result<Vec<_>, ControlError>>()?;
            let key = MatchKey::Lpm {
                value: vec![10, pod, edge, 0],
                prefix_len: 24,
            };
            add(pipeline, table, key, 0, TableAction::Set(members))?;
        }
    }
    for (table, action, params) in [
        (
            "FabricEgress.ecn_threshold.ecn_threshold",
            "FabricEgress.ecn_threshold.set_ecn_threshold",
            &[30_000][..],
        ),
        // 95 % of 20 Mbit/s, 1 KB.
        (
            "FabricEgress.phantom_queue.phantom_queue",
            "FabricEgress.phantom_queue.set_phantom_queue",
            &[155_648, 1000, 1],
        ),
    ] {
        // Not all programs for Tofino have a phantom queue.
        if pipeline.table(table).is_err() {
            continue;
        }
        for port in 0..PORTS {
            let action = TableAction::Direct(call(pipeline, table, action, params)?);
            let key = MatchKey::Exact(port.to_be_bytes().to_vec());
            add(pipeline, table, key, 0, action)?;
        }
    }
    Ok(())
}

/// All frames of docs/wire-vectors.json: name and bytes.
pub fn vectors() -> Result<Vec<(String, Vec<u8>)>, String> {
    let text = read(&in_repository("docs/wire-vectors.json"))?;
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    list.iter()
        .map(|v| {
            let (name, frame) = (v["name"].as_str(), v["frame"].as_str());
            let (name, hex) = name.zip(frame).ok_or("a vector without name or frame")?;
            let bytes = (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).map_err(|e| e.to_string()))
                .collect::<Result<_, _>>()?;
            Ok((name.to_owned(), bytes))
        })
        .collect()
}
