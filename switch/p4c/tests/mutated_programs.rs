//! No input makes the compiler panic or hang: programs with tokens and bytes changed at random.

use std::path::Path;

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;
use ebb_testkit::cases;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

const PIECES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    ";",
    ",",
    ".",
    "=",
    ":",
    "&&&",
    "..",
    "@",
    "#",
    "\"",
    "\n",
    "apply",
    "table",
    "action",
    "state",
    "transition",
    "select",
    "default",
    "key",
    "bit<8>",
    "int<4>",
    "varbit<16>",
    "0x",
    "8w300",
    "4s-1",
    "{#}",
    "...",
    "_",
    "error",
    "exit",
    "return",
    "switch",
    "extern",
    "header",
    "hdr",
    "meta",
    "next",
    "last",
    "[0]",
    "[7:0]",
    "#if 1 <",
    "#define hdr meta\n",
    "#include <core.p4>\n",
    "isValid()",
    "++",
    "|+|",
    "for (bit<8> i in 0 .. 3) {",
    "for (bit<8> i = 0; i < 3; i = i + 1) {",
    "break;",
    "continue;",
    "[hdr.x]",
    "header_union",
    "enum bit<8>",
    "(bit<8>)",
    "lookahead<bit<8>>()",
    "push_front(1)",
    "(list<bit<8>>)",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete { at: usize, len: usize },
    Insert { at: usize, piece: usize },
    Move { from: usize, len: usize, to: usize },
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Edit::Delete { at, len }),
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        (any::<usize>(), 1..60usize, any::<usize>()).prop_map(|(from, len, to)| Edit::Move {
            from,
            len,
            to
        }),
    ];
    prop::collection::vec(edit, 1..5)
}

fn apply(text: &str, edits: &[Edit]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for edit in edits {
        let size = chars.len().max(1);
        match edit {
            Edit::Delete { at, len } => {
                let at = at % size;
                chars.drain(at..(at + len).min(chars.len()));
            }
            Edit::Insert { at, piece } => {
                let at = at % size;
                chars.splice(at..at, PIECES[*piece].chars());
            }
            Edit::Move { from, len, to } => {
                let from = from % size;
                let moved: Vec<char> = chars[from..(from + len).min(chars.len())].to_vec();
                let to = to % size;
                chars.splice(to..to, moved);
            }
        }
    }
    chars.into_iter().collect()
}

fn program(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Compiles and renders; an error is a fine outcome, a panic is not.
fn survive(text: &str) {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let compiled = ebb_p4c::compile(
        "mutated.p4",
        text,
        &Options::default(),
        &mut sources,
        &diagnostics,
    );
    assert_eq!(
        compiled.is_none(),
        diagnostics.has_errors(),
        "failed silently"
    );
    diagnostics.render(&sources, false);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(150), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_router(edits in edits()) {
        survive(&apply(&program("router.p4"), &edits));
    }

    #[test]
    fn mutated_descriptions(edits in edits()) {
        survive(&apply(&program("described.p4"), &edits));
    }

    #[test]
    fn mutated_register_program(edits in edits()) {
        survive(&apply(&program("atomic_register.p4"), &edits));
    }

    #[test]
    fn arbitrary_text(text in "\\PC{0,200}") {
        survive(&text);
    }
}

/// p4c's test data (docs/stf.md): every program changed a few times, for as long as `EBB_MUTATE_SECONDS` says (20).
#[test]
#[ignore = "needs EBB_P4C_TESTDATA=FOLDER and --ignored"]
fn mutated_corpus() {
    let folder = std::env::var_os("EBB_P4C_TESTDATA").expect("EBB_P4C_TESTDATA is set");
    let seconds = std::env::var("EBB_MUTATE_SECONDS").ok();
    let seconds = seconds.and_then(|s| s.parse().ok()).unwrap_or(20);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let entries = std::fs::read_dir(&folder).expect("a folder");
    let paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    let texts: Vec<String> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "p4"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .filter(|text| text.contains("v1model.p4"))
        .collect();
    assert!(!texts.is_empty(), "no v1model programs in {folder:?}");
    let mut runner = proptest::test_runner::TestRunner::default();
    let (mut count, mut slowest) = (0u64, std::time::Duration::ZERO);
    while std::time::Instant::now() < end {
        for text in &texts {
            let edits = edits().new_tree(&mut runner).expect("edits").current();
            let mutated = apply(text, &edits);
            let start = std::time::Instant::now();
            let result = std::panic::catch_unwind(|| survive(&mutated));
            slowest = slowest.max(start.elapsed());
            assert!(result.is_ok(), "{mutated}");
            assert!(start.elapsed().as_secs() < 20, "too slow:\n{mutated}");
            count += 1;
            if std::time::Instant::now() > end {
                break;
            }
        }
    }
    eprintln!("{count} programs, {slowest:?} the slowest");
}
