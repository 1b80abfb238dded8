//! Golden tests: what users see of errors, and what switches and controllers see of programs.
//!
//! `EBB_UPDATE_GOLDEN=1 cargo test -p ebb-p4c` writes the expected files anew; read the diff.

use std::fs;
use std::path::{Path, PathBuf};

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::source::SourceMap;
use ebb_p4c::{p4info, preprocess};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn programs(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut files: Vec<PathBuf> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "p4") && !p.ends_with("shared.p4"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no programs in {name}");
    files
}

/// Compares with the file, or writes it. Returns what differs.
fn golden(file: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("EBB_UPDATE_GOLDEN").is_some() {
        fs::write(file, actual).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        return None;
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    (expected != actual).then(|| {
        let line = expected
            .lines()
            .zip(actual.lines())
            .position(|(a, b)| a != b);
        let line = line.unwrap_or(expected.lines().count().min(actual.lines().count()));
        format!(
            "{}, line {}:\n  expected: {}\n  actual:   {}\n",
            file.display(),
            line + 1,
            expected.lines().nth(line).unwrap_or("(end)"),
            actual.lines().nth(line).unwrap_or("(end)")
        )
    })
}

struct Outcome {
    messages: String,
    codes: Vec<&'static str>,
    outputs: Option<(String, String)>,
}

fn compile(path: &Path) -> Outcome {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // Messages are the same wherever the tests are; other files are looked for beside the program.
    let folder = path.parent().unwrap_or(Path::new("."));
    let options = preprocess::Options {
        include_dirs: vec![folder.to_path_buf()],
        ..preprocess::Options::default()
    };
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("program.p4");
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let compiled = ebb_p4c::compile(name, &text, &options, &mut sources, &diagnostics);
    Outcome {
        messages: diagnostics
            .render(&sources, false)
            .replace(&folder.display().to_string(), "FOLDER"),
        codes: diagnostics.list().iter().map(|d| d.code).collect(),
        outputs: compiled.map(|c| (c.json.to_json() + "\n", p4info::to_text(&c.p4info))),
    }
}

/// Each file in `tests/diagnostics` is named after the cause that it shows; more may follow behind a dot.
#[test]
fn every_error_reads_as_it_should() {
    let mut problems = Vec::new();
    for path in programs("diagnostics") {
        let outcome = compile(&path);
        let cause = path
            .file_name()
            .and_then(|s| s.to_str())
            .and_then(|s| s.split('.').next())
            .unwrap_or_default();
        if !outcome.codes.contains(&cause) {
            problems.push(format!(
                "{cause}: reported {:?}\n{}",
                outcome.codes, outcome.messages
            ));
        }
        problems.extend(golden(&path.with_extension("txt"), &outcome.messages));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn programs_compile_to_the_expected_files() {
    let mut problems = Vec::new();
    for path in programs("programs") {
        let outcome = compile(&path);
        let Some((json, info)) = outcome.outputs else {
            problems.push(outcome.messages);
            continue;
        };
        if let Err(error) = ebb_bmv2_json::Program::from_json(json.as_bytes()) {
            problems.push(format!("{}: {error}", path.display()));
        }
        problems.extend(golden(&path.with_extension("json"), &json));
        problems.extend(golden(&path.with_extension("p4info.txtpb"), &info));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Idioms that a warning would be wrong about, and the programs of this repository.
#[test]
fn there_is_nothing_to_say_about_good_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = ["p4src/fabric.p4", "p4src/ipv4_router.p4"].map(|name| root.join(name));
    let mut problems = Vec::new();
    for path in programs("quiet").into_iter().chain(own) {
        let outcome = compile(&path);
        if outcome.outputs.is_none() || !outcome.messages.is_empty() {
            problems.push(format!("{}:\n{}", path.display(), outcome.messages));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
