use ebb_bmv2_json::{FieldDecl, FormatError, Program};

const SMALL: &str = include_str!("../testdata/small.json");

/// Drops what the model does not carry on purpose: nulls, 0 for `false` in a field's tuple, `{}`
/// for an empty list.
fn normalised(v: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as J;
    match v {
        J::Array(a) if a.len() == 3 && a[0].is_string() && a[2] == 0 => {
            J::Array(vec![a[0].clone(), a[1].clone(), J::Bool(false)])
        }
        J::Array(a) => J::Array(a.iter().map(normalised).collect()),
        J::Object(o) if o.is_empty() => J::Array(Vec::new()),
        J::Object(o) => J::Object(
            o.iter()
                .filter(|(k, v)| !(v.is_null() && k.as_str() != "value"))
                .map(|(k, v)| (k.clone(), normalised(v)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn assert_round_trip(text: &str, name: &str) {
    let program = Program::from_json(text.as_bytes()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let written: serde_json::Value = serde_json::from_str(&program.to_json()).unwrap();
    let read: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(
        normalised(&written) == normalised(&read),
        "{name} is not the same after reading and writing"
    );
    assert_eq!(
        Program::from_json(program.to_json().as_bytes()).unwrap(),
        program,
        "{name}"
    );
}

#[test]
fn a_program_survives_reading_and_writing() {
    assert_round_trip(SMALL, "small.json");
}

#[test]
fn keys_are_written_in_the_order_of_the_format() {
    let text = Program::from_json(SMALL.as_bytes()).unwrap().to_json();
    let at = |key: &str| {
        text.find(&format!("\n  \"{key}\""))
            .unwrap_or_else(|| panic!("{key}"))
    };
    let order = [
        "header_types",
        "headers",
        "field_lists",
        "parsers",
        "deparsers",
        "actions",
        "pipelines",
        "checksums",
        "field_aliases",
        "__meta__",
    ];
    assert!(order.windows(2).all(|w| at(w[0]) < at(w[1])));
}

#[test]
fn unknown_keys_and_absent_lists_are_tolerated() {
    let json = br#"{"config_options":{},
        "headers":[{"name":"h","id":0,"header_type":"t","metadata":false,"new":1}]}"#;
    let program = Program::from_json(json).unwrap();
    assert_eq!(program.headers[0].name, "h");
    assert!(program.pipelines.is_empty());
}

#[test]
fn a_null_is_an_absent_key() {
    let json = |value| format!(r#"{{"actions":[{{"name":"a","id":0,"primitives":{value}}}]}}"#);
    let program = Program::from_json(json("null").as_bytes()).unwrap();
    assert_eq!(program.actions[0].name, "a");
    assert!(program.actions[0].primitives.is_empty());
    assert!(Program::from_json(json("7").as_bytes()).is_err());
}

#[test]
fn a_field_may_have_two_three_or_four_parts() {
    let fields: Vec<FieldDecl> =
        serde_json::from_str(r#"[["a",4],["b",8,true],["c","*"],["d",9,false,false]]"#).unwrap();
    assert_eq!(fields[0], FieldDecl::bits("a", 4, false));
    assert_eq!(fields[1], FieldDecl::bits("b", 8, true));
    assert_eq!(fields[2], FieldDecl::variable("c"));
    assert_eq!(fields[3], FieldDecl::bits("d", 9, false));
    assert_eq!(serde_json::to_string(&fields[2]).unwrap(), r#"["c","*"]"#);
    let error = serde_json::from_str::<FieldDecl>(r#"["a",-1]"#).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected [\"name\", width, signed]")
    );
}

#[test]
fn another_major_version_is_refused() {
    let error = Program::from_json(br#"{"__meta__":{"version":[3,0]}}"#).unwrap_err();
    assert!(matches!(error, FormatError::Version(3, 0)));
    assert!(Program::from_json(b"[1").is_err());
}

/// Samples of p4c for which it writes an expression where the format has a name; BMv2 refuses them.
const NOT_IN_FORMAT: [&str; 3] = [
    "issue3374",
    "control-hs-index-test3",
    "control-hs-index-test6",
];

/// `EBB_BMV2_JSON_DIR` names a folder of what p4c has compiled.
#[test]
#[ignore = "needs EBB_BMV2_JSON_DIR=FOLDER and --ignored"]
fn files_of_a_folder_survive() {
    let dir = std::env::var("EBB_BMV2_JSON_DIR").expect("EBB_BMV2_JSON_DIR is set");
    let mut n = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy();
        if path.extension().is_some_and(|e| e == "json") && !NOT_IN_FORMAT.contains(&&*stem) {
            let text = std::fs::read_to_string(&path).unwrap();
            assert_round_trip(&text, &path.display().to_string());
            n += 1;
        }
    }
    assert!(n > 0, "no .json file in the folder");
    println!("{n} files");
}
