//! The binary on folders of tests: what passes, and how failures are told apart.

use std::path::PathBuf;

use ebb_testkit::Need;

use crate::{path, stdout, stf};

fn our_examples_pass() {
    for mode in [&[][..], &["--interpreted"]] {
        let output = stf(mode, &[path("passing")]);
        let text = stdout(&output);
        assert!(text.ends_with(" passed\n"), "{text}");
        assert!(output.status.success());
    }
}

fn a_test_may_be_named_in_several_ways() {
    let (program, script) = (path("passing/copies.p4"), path("passing/copies.stf"));
    let both = [program.clone(), script.clone()];
    for paths in [&both[..], &[program], &[script]] {
        assert_eq!(stdout(&stf(&[], paths)), "1 tests: 1 passed\n");
    }
}

fn verbose_shows_what_was_read() {
    let text = stdout(&stf(&["-v"], &[path("passing/copies.p4")]));
    for expected in [
        "pass ",
        "FromPort.values[3]: 0x2a",
        "values: 0x00, 0x00, 0x29, 0x2a",
        "limit[0]: 1/s burst 1, 1/s burst 1",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
}

fn programs_for_other_architectures_only_are_no_success() {
    let output = stf(&[], &[path("failing/other-architecture.p4")]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("nothing was run: no program includes v1model.p4, tna.p4, t2na.p4 or psa.p4")
    );
}

fn kinds_of_failures_are_told_apart() {
    let output = stf(&[], &[path("failing")]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for (kind, test, reason) in [
        (
            "mismatch",
            "mismatch.p4",
            "line 11: a packet left at port 1",
        ),
        ("compile error", "no-program.p4", "no-program.p4:5:13: "),
        (
            "bad test",
            "unknown-table.p4",
            "line 1: there is no table `nowhere`",
        ),
        (
            "bad test",
            "unknown-command.p4",
            "line 1: `send` is not a command",
        ),
        (
            "load error",
            "not-loadable.json",
            "cannot load the BMv2 program",
        ),
    ] {
        let line = text
            .lines()
            .find(|line| line.contains(test))
            .unwrap_or_default();
        assert!(
            line.starts_with(kind) && line.contains(reason),
            "{test}: {text}"
        );
    }
    assert!(
        text.ends_with(
            "6 tests: 0 passed, failed: 2 mismatch, 1 compile error, 1 load error, 2 bad test; \
             1 more are for other architectures\n"
        ),
        "{text}"
    );
}

fn every_difference_is_shown() {
    let text = stdout(&stf(&["-v"], &[path("failing/mismatch.p4")]));
    for expected in [
        "line 6: port 1: byte 3 differs",
        "expected 12341112",
        "got      12341111",
        "from the packet of line 2",
        "line 7: port 1: 4 bytes are too few, 5 are expected",
        "line 9: port 1: 5 bytes are too many, 4 are expected",
        "line 10: port 2: this packet did not leave",
        "the packet of line 2:",
        "  table FromPort.by_mask: hdr.pair.a 0x1234 (4660)",
        "line 12: counter FromPort.hits has 4 packets, expected > 4",
        "line 13: port 1: a packet left that nobody expects",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("line 8:"), "{text}");
}

fn frames_are_seen_at_ports_that_the_script_does_not_name() {
    let text = stdout(&stf(&["-v"], &[path("failing/elsewhere.p4")]));
    for expected in [
        "line 5: a packet left at port 510",
        "line 4: port 510: a packet left that nobody expects",
        "line 6: port 300: a packet left that nobody expects",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("port 511"), "{text}");
}

fn frames_may_be_printed_instead_of_compared() {
    let paths = [path("failing/elsewhere.p4")];
    let output = stf(&["--print-frames"], &paths);
    assert_eq!(stdout(&output), "2 510 01FE\n3 300 012C\n");
    assert!(output.status.success());

    let output = stf(&["--print-frames"], &[path("failing/unknown-table.p4")]);
    let text = stdout(&output);
    assert!(
        text.starts_with("refused 1 there is no table `nowhere`"),
        "{text}"
    );
    assert!(output.status.success());

    let output = stf(&["--print-frames"], &[path("failing/no-program.p4")]);
    assert_eq!(output.status.code(), Some(2));
}

fn a_crash_or_a_hang_is_one_test_only() {
    for (compiler, kind) in [("crashes", "crash"), ("hangs", "hang")] {
        let compiler = path("compilers").join(compiler);
        let compiler = compiler.to_str().expect("text");
        let arguments = ["--timeout", "1", "--json-from", compiler];
        let text = stdout(&stf(&arguments, &[path("passing/copies.p4")]));
        let expected = format!("1 tests: 0 passed, failed: 1 {kind}\n");
        assert!(text.ends_with(&expected), "{text}");
    }
}

fn nothing_to_run_is_an_error() {
    let output = stf(&[], &[path("compilers")]);
    assert_eq!(output.status.code(), Some(2));
}

/// `EBB_P4C_TESTDATA` is the folder `testdata/p4_16_samples` of p4c.
fn the_corpus_of_p4c() {
    let corpus = std::env::var_os("EBB_P4C_TESTDATA").expect("checked");
    let output = stf(&[], &[PathBuf::from(corpus)]);
    let text = stdout(&output);
    let failed: Vec<&str> = text.lines().filter(|line| line.contains(".p4: ")).collect();
    let known = |line: &&&str| KNOWN_FAILURES.iter().any(|name| line.contains(name));
    let unknown: Vec<_> = failed.iter().filter(|line| !known(line)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}\n{text}");
    eprintln!("{}", text.lines().last().unwrap_or_default());
}

/// Programs of the corpus that fail, for the reasons in docs/stf.md.
const KNOWN_FAILURES: &[&str] = &["/extern-funcs-bmv2.p4"];

ebb_testkit::tests! {
    Need::Nothing => [
        our_examples_pass,
        a_test_may_be_named_in_several_ways,
        verbose_shows_what_was_read,
        programs_for_other_architectures_only_are_no_success,
        kinds_of_failures_are_told_apart,
        every_difference_is_shown,
        frames_are_seen_at_ports_that_the_script_does_not_name,
        frames_may_be_printed_instead_of_compared,
        a_crash_or_a_hang_is_one_test_only,
        nothing_to_run_is_an_error,
    ],
    Need::Variable("EBB_P4C_TESTDATA") => [
        the_corpus_of_p4c,
    ],
}
