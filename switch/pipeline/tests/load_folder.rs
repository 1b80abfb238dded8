//! Loads every program of a folder, which `EBB_BMV2_JSON_DIR` names: what p4c has compiled.

use ebb_bmv2_json::Program;
use ebb_pipeline::{IngressInput, Pipeline};
use ebb_units::Instant;

/// Samples of p4c for which it writes a file that is not in the format, so that BMv2 refuses them too.
const REFUSED: &[(&str, &str)] = &[
    ("issue3374", "an expression as a table's key"),
    ("control-hs-index-test6", "an expression as a table's key"),
    ("control-hs-index-test3", "an expression as a header's name"),
    ("extract_for_header_union", "a header without its type"),
    ("issue1607-bmv2", "`last` of a stack as a field"),
];

#[test]
#[ignore = "needs EBB_BMV2_JSON_DIR=FOLDER and --ignored"]
fn every_program_of_a_folder_loads_and_survives_garbage() {
    let dir = std::env::var_os("EBB_BMV2_JSON_DIR").expect("EBB_BMV2_JSON_DIR is set");
    let (mut loaded, mut failures) = (0, Vec::new());
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|e| e != "json")
            || REFUSED.iter().any(|(refused, _)| *refused == name)
        {
            continue;
        }
        let text = std::fs::read(&path).unwrap();
        match Program::from_json(&text)
            .map_err(|e| e.to_string())
            .and_then(|p| Pipeline::load(&p).map_err(|e| e.to_string()))
        {
            Ok(mut pipeline) => {
                loaded += 1;
                for len in [0usize, 1, 13, 60, 1500] {
                    let frame: Vec<u8> = (0..len).map(|i| (i * 37) as u8).collect();
                    pipeline.ingress(Instant::ZERO, frame, &IngressInput::default());
                }
            }
            Err(e) => failures.push(format!("{name}: {e}")),
        }
    }
    println!("{loaded} loaded");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
