use super::*;
use crate::diagnostics::Action;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn arguments(line: &str) -> Arguments {
    match parse(&words(line)) {
        Ok(Request::Compile(arguments)) => *arguments,
        other => panic!("{line}: {other:?}"),
    }
}

/// Commands of public projects: tutorials, fabric-tna, ngsdn, Stratum, p4c's own manual.
#[test]
fn command_lines_of_others_are_understood() {
    for line in [
        "p4c-bm2-ss --p4v 16 --p4runtime-files build/basic.p4.p4info.txtpb -o build/basic.json basic.p4",
        "p4c-bm2-ss --arch v1model -DTARGET_BMV2 --Wdisable -o bmv2.json \
         --p4runtime-files p4info.txt,p4info.bin main.p4 --pp a.p4",
        "p4c-bm2-ss --arch v1model -o x.json --p4runtime-files x.txt --Wdisable=unsupported main.p4",
        "p4c-bm2-ss --target bmv2-v1model --std p4-16 --Werror=mismatch --ndebug -vvv -T pass:3 -g -O2 f.p4",
        "p4c-bm2-ss --p4runtime-file x.bin --p4runtime-format binary --p4runtime-entries-files e.txt,e.bin f.p4",
        "p4c-bm2-ss -E -U FOO -DX=1 -I inc -Iinc2 f.p4",
        "p4c-bm2-ss --emit-externs --toJSON x.json --top4 FrontEnd,MidEnd --dump dir \
         --maxErrorCount 3 --loopsUnroll --parser-inline-opt f.p4",
        "p4c -b bmv2 --target bmv2 --arch v1model --std p4_16 -o out -S -c f.p4 -Xpreprocessor -DX",
        "p4c --target=bmv2 --arch=v1model --std=p4-16 -x p4-16 -o out f.p4 -Xp4c=--p4runtime-files=a.txt",
    ] {
        arguments(line);
    }
}

#[test]
fn every_option_of_the_table_is_read() {
    for spec in OPTIONS {
        for name in spec.names {
            let value = match *name {
                "--std" | "-x" => "p4-16",
                "--p4v" => "16",
                "--target" | "-b" => "bmv2",
                "--arch" | "-a" => "v1model",
                "--p4runtime-format" => "json",
                "--maxErrorCount" => "5",
                "--error-format" => "short",
                _ => "-DX",
            };
            let line = match (spec.takes, name.starts_with("--")) {
                (Takes::Nothing, _) => format!("ebb-p4c {name} f.p4"),
                (Takes::Value(_), _) => format!("ebb-p4c {name} {value} f.p4"),
                (Takes::Maybe(_), true) => format!("ebb-p4c {name}={value} f.p4"),
                (Takes::Maybe(_), false) => format!("ebb-p4c {name}{value} f.p4"),
            };
            let found = parse(&words(&line));
            match spec.effect {
                Effect::Print(_) => assert!(matches!(found, Ok(Request::Print(_))), "{line}"),
                Effect::Refused(_) => assert!(found.is_err(), "{line}"),
                Effect::Does(_) | Effect::Forwards => assert!(
                    arguments(&line).note().is_none() || *name == "--dump",
                    "{line}"
                ),
                Effect::Nothing(why) => {
                    let note = arguments(&line).note().expect("a note");
                    assert!(
                        note.contains(why) && note.lines().count() == 1,
                        "{line}: {note}"
                    );
                }
            }
        }
    }
    let mut names: Vec<&str> = OPTIONS
        .iter()
        .flat_map(|spec| spec.names)
        .copied()
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands for two options");
}

#[test]
fn formats_come_from_the_name_or_the_option() {
    use InfoFormat::{Binary, Json, Text};
    let of = |line: &str| {
        let arguments = arguments(&format!("ebb-p4c {line} f.p4"));
        let outputs = arguments.info_outputs();
        outputs.map(|list| {
            list.into_iter()
                .map(|(_, format)| format)
                .collect::<Vec<_>>()
        })
    };
    let named = "--p4runtime-files a.txtpb,b.json,c.bin,d.txt";
    assert_eq!(of(named), Ok(vec![Text, Json, Binary, Text]));
    // Only the file without a telling name follows the option, as with p4c.
    assert_eq!(
        of("--p4runtime-files a.txt,b.x --p4runtime-format json"),
        Ok(vec![Text, Json])
    );
    assert_eq!(of("--p4runtime-file a.txt"), Ok(vec![Binary]));
    assert_eq!(
        of("--p4runtime-file a.txt --p4runtime-format text"),
        Ok(vec![Text])
    );
    assert!(
        of("--p4runtime-files b.x").is_err_and(|why| why.contains(".txtpb, .txt, .json or .bin"))
    );
}

#[test]
fn macros_are_defined_and_taken_back_in_order() {
    let macros = |line: &str| {
        let options = arguments(&format!("ebb-p4c {line} f.p4")).preprocess;
        let names: Vec<_> = options
            .defines
            .into_iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        (names.join(" "), options.undefines.join(" "))
    };
    let pair = |defined: &str, undefined: &str| (defined.to_owned(), undefined.to_owned());
    assert_eq!(macros("-DA -DB=2 -UA"), pair("B=2", "A"));
    assert_eq!(macros("-UA -DA=1"), pair("A=1", ""));
    assert_eq!(
        macros("-U __TARGET_BMV2__ -D X"),
        pair("X=1", "__TARGET_BMV2__")
    );
    assert_eq!(macros("-Xpreprocessor -DA=7"), pair("A=7", ""));
    assert_eq!(macros("-DF(x)=x -DG(x)=x -UF"), pair("G(x)=x", "F"));
    assert_eq!(macros("-UF -DF(x)=x"), pair("F(x)=x", ""));
}

#[test]
fn the_driver_names_its_files_after_the_program() {
    let outputs = |line: &str| {
        let arguments = arguments(line);
        let shown = |path: Option<PathBuf>| path.map(|p| p.display().to_string());
        (
            shown(arguments.json_output()),
            shown(arguments.preprocessed_output()),
        )
    };
    let pair = |json: &str, text: &str| (Some(json.to_owned()), Some(text.to_owned()));
    assert_eq!(
        outputs("/usr/bin/p4c -o out a/b.p4"),
        pair("out/b.json", "out/b.p4i")
    );
    assert_eq!(outputs("p4c a/b.p4"), pair("b.json", "b.p4i"));
    assert_eq!(
        outputs("p4c-bm2-ss -o out a/b.p4"),
        (Some("out".into()), None)
    );
    assert_eq!(outputs("ebb-p4c a/b.p4"), (None, None));
}

#[test]
fn warnings_follow_the_last_setting() {
    let policy = arguments("ebb-p4c --Werror --Wdisable=unused --Wwarn=unused --Winfo f.p4").policy;
    assert_eq!(policy.all, Some(Action::Error));
    let named = |action| ("unused".to_owned(), action);
    assert_eq!(policy.named, [named(Action::Ignore), named(Action::Warn)]);
}

#[test]
fn what_has_no_effect_is_one_line() {
    let note = arguments("ebb-p4c -g -O2 --metrics all --ndebug --dump folder f.p4").note();
    let expected = "ebb-p4c: without effect: -g, -O2, --ndebug (there is one kind of output); \
                    --metrics (no metrics are collected); \
                    --dump folder (the passes of p4c do not exist here; see --dump STAGE)";
    assert_eq!(note.as_deref(), Some(expected));
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("ebb-p4c", "no program to compile"),
        ("ebb-p4c a.p4 b.p4", "`a.p4` and `b.p4`"),
        ("ebb-p4c --zzz f.p4", "unknown option --zzz; see --help"),
        (
            "ebb-p4c --error-fromat=short f.p4",
            "did you mean --error-format?",
        ),
        (
            "ebb-p4c -error-format short f.p4",
            "did you mean --error-format?",
        ),
        (
            "ebb-p4c --p4runtime-flies i.txtpb f.p4",
            "did you mean --p4runtime-files?",
        ),
        ("ebb-p4c --Wdisble f.p4", "did you mean --Wdisable?"),
        ("ebb-p4c -std=p4-16 f.p4", "did you mean --std?"),
        ("ebb-p4c -Q f.p4", "unknown option -Q; see --help"),
        ("ebb-p4c f.p4 -o", "needs a value: FILE"),
        ("ebb-p4c --ndebug=1 f.p4", "takes no value"),
        (
            "ebb-p4c --target dpdk f.p4",
            "the targets are bmv2, tofino and tofino2",
        ),
        (
            "ebb-p4c --arch pna f.p4",
            "the architectures are v1model, tna",
        ),
        ("ebb-p4c --std p4-14 f.p4", "only language is p4-16"),
        ("ebb-p4c --p4v 14 f.p4", "only language is p4-16"),
        ("ebb-p4c --fromJSON x.json", "cannot be read"),
        (
            "ebb-p4c --error-format xml f.p4",
            "none of long, short, json",
        ),
        (
            "ebb-p4c --maxErrorCount none f.p4",
            "`none` is not a number",
        ),
        (
            "ebb-p4c --p4runtime-format yaml f.p4",
            "none of binary, json, text",
        ),
    ] {
        let problem = parse(&words(line)).expect_err(line);
        assert!(problem.contains(part), "{line}: {problem}");
    }
}
