//! Output of the binary on a terminal about files of others.

use std::process::{Command, Stdio};

use ebb_testkit::{Folder, Process};

/// Sets the title of a window.
const HOSTILE: &str = r"\u001b]0;title\u0007";

#[test]
fn a_terminal_obeys_nothing_of_a_file() {
    let folder = Folder::new("terminal");
    let workload = folder.write(
        "workload.json",
        format!(
            r#"{{"seed": 1, "traffic": [{{"name": "t", "pattern": {{"type": "{HOSTILE}"}}}}]}}"#
        ),
    );
    let network = |with: &str| {
        format!(
            r#"{{"scheme": "ndp", "seed": 1, "switches": [], "hosts": [], "links": [], {with}}}"#
        )
    };
    for with in [
        format!(r#""{HOSTILE}": 1"#),
        format!(r#""workload": "{}""#, workload.display()),
        format!(r#""workload": "{HOSTILE}""#),
    ] {
        let file = folder.write("network.json", network(&with));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb-simulator"));
        command.arg(file).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let (code, said) = Process::start(&mut command).end();
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(r"\u{1b}]0;title\u{7}"), "{said:?}");
        assert!(!said.trim_end().contains(char::is_control), "{said:?}");
    }
}
