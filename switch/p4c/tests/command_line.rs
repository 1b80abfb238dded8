//! The binary under its three names: which files it writes, and what it says.

use std::process::{Command, Output};

use ebb_testkit::Folder;

const PROGRAM: &str = include_str!("programs/described.p4");

/// A folder with a program, and links to the compiler.
struct Compilers(Folder);

impl Compilers {
    fn new() -> Self {
        let folder = Folder::new("p4c");
        folder.make_dir("inc");
        folder.write("prog.p4", PROGRAM);
        folder.write("inc/own.p4", "const bit<8> OWN = 1;\n");
        for link in ["p4c", "p4c-bm2-ss"] {
            let target = env!("CARGO_BIN_EXE_ebb-p4c");
            std::os::unix::fs::symlink(target, folder.join(link)).expect("a link");
        }
        Self(folder)
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("it runs")
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split(' ');
        let program = self.0.join(words.next().expect("a program"));
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.0);
        command
    }

    /// Runs without an error, and without a word; what it prints.
    fn quiet(&self, line: &str) -> String {
        let output = self.run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{line}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn read(&self, file: &str) -> String {
        let path = self.0.join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }
}

#[test]
fn files_of_the_program_are_not_written_over() {
    let folder = Compilers::new();
    folder
        .0
        .write("with.p4", format!("#include \"inc/own.p4\"\n{PROGRAM}"));
    std::os::unix::fs::symlink("with.p4", folder.0.join("link.json")).expect("a link");
    for (option, file) in [
        ("-o", "with.p4"),
        ("-o", "inc/own.p4"),
        ("-o", "link.json"),
        ("--pp", "with.p4"),
        ("-MD -MF", "with.p4"),
        ("--bf-rt-schema", "./with.p4"),
        ("--p4runtime-format text --p4runtime-file", "with.p4"),
    ] {
        let line = format!("p4c-bm2-ss -D OWNED {option} {file} with.p4");
        let (before, output) = (folder.read(file), folder.run(&line));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{line}");
        let told = format!("`{file}` is a file of the program, and not written over");
        assert!(said.contains(&told), "{line}: {said}");
        assert_eq!(folder.read(file), before, "{line}");
    }
}

#[test]
fn a_program_without_an_end_is_refused() {
    let output = Compilers::new().run("p4c-bm2-ss /dev/zero");
    let said = String::from_utf8_lossy(&output.stderr);
    let told = "cannot read `/dev/zero`: it has more than 67108864 bytes";
    assert!(!output.status.success() && said.contains(told), "{said}");
}

#[test]
fn what_is_printed_and_does_not_arrive_is_an_error() {
    let folder = Compilers::new();
    for option in ["-E", "-M", "--dump ir"] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = folder
            .command(&format!("p4c-bm2-ss {option} prog.p4"))
            .stdout(full.expect("/dev/full"))
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.contains("cannot write to standard output");
        assert!(!output.status.success() && told, "{option}: {said}");
    }
}

#[test]
fn each_output_has_a_file_of_its_own() {
    let folder = Compilers::new();
    let output = folder.run("p4c-bm2-ss -o same.json --p4runtime-files same.json prog.p4");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("two outputs are to be written to `same.json`")
    );
    folder.quiet(
        "p4c-bm2-ss -o /dev/null --p4runtime-format text --p4runtime-file /dev/null prog.p4",
    );
}

/// On a full disk, here behind a limit of 512 or 1024 bytes. The signal of that limit is ignored.
#[test]
fn an_output_is_there_whole_or_not_at_all() {
    let folder = Compilers::new();
    folder.0.write("out.json", "of an earlier run");
    let line = "trap '' XFSZ; ulimit -f 1; exec ./p4c-bm2-ss -o out.json prog.p4";
    let mut command = Command::new("sh");
    let output = command.args(["-c", line]).current_dir(&folder.0).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("cannot write `out.json`: "),
        "{said}"
    );
    assert!(!folder.has("out.json"));
    let device = folder.run("p4c-bm2-ss -o /dev/full prog.p4");
    assert!(!device.status.success() && std::path::Path::new("/dev/full").exists());
}

/// Names that only the control plane would mix up are a mistake where it is asked for.
#[test]
fn names_of_the_control_plane_count_with_its_files() {
    let folder = Compilers::new();
    let packet = "@controller_header(\"packet_in\") header";
    let double = format!("{packet} a_t {{ bit<8> a; }}\n{packet} b_t {{ bit<8> a; }}\n");
    folder.0.write("double.p4", &(double + PROGRAM));
    folder.quiet("p4c-bm2-ss -o double.json double.p4");
    for option in ["--p4runtime-files", "--p4runtime-entries-files"] {
        let output = folder.run(&format!("p4c-bm2-ss {option} info.txtpb double.p4"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("double.p4:2:") && !output.status.success(),
            "{said}"
        );
        assert!(!folder.has("info.txtpb"));
    }
}

#[test]
fn the_driver_writes_into_a_folder() {
    let folder = Compilers::new();
    folder.quiet(
        "p4c -b bmv2 --std p4_16 --arch v1model -o out/deep prog.p4 --p4runtime-files info.txtpb",
    );
    assert!(folder.read("out/deep/prog.json").starts_with('{'));
    assert!(folder.read("info.txtpb").contains("tables {"));
    // The file that it leaves beside the JSON is the same program.
    folder.quiet("p4c-bm2-ss -o again.json out/deep/prog.p4i");
    folder.quiet("p4c prog.p4");
    assert_eq!(folder.read("prog.json"), folder.read("out/deep/prog.json"));
    assert!(folder.has("prog.p4i"));
    assert_eq!(folder.quiet("p4c -E -o only prog.p4"), "");
    assert!(folder.has("only/prog.p4i") && !folder.has("only/prog.json"));
}

#[test]
fn the_compiler_writes_what_it_is_told() {
    let folder = Compilers::new();
    folder.quiet(
        "p4c-bm2-ss --p4v 16 -o o.json --pp p.p4 --p4runtime-files a.txt,b.json,c.bin \
         --p4runtime-entries-files e.txtpb prog.p4",
    );
    folder.quiet("p4c-bm2-ss -o again.json p.p4");
    assert_eq!(
        folder.read("o.json").is_empty(),
        folder.read("again.json").is_empty()
    );
    assert!(folder.read("b.json").contains("\"tables\""));
    assert!(folder.has("c.bin"));
    assert!(folder.read("e.txtpb").contains("WriteRequest"));
    folder.quiet("p4c-bm2-ss --p4runtime-file d.txt --p4runtime-format text prog.p4");
    assert_eq!(folder.read("d.txt"), folder.read("a.txt"));
    let text = folder.quiet("p4c-bm2-ss -E prog.p4");
    assert!(
        text.contains("V1Switch") && !text.contains("#include"),
        "{text}"
    );
}

#[test]
fn make_rules_name_the_files() {
    let folder = Compilers::new();
    let program = "#include <own.p4>\n".to_owned() + PROGRAM;
    folder.0.write("prog.p4", program);
    let rule = "prog.json: \\\n  prog.p4 \\\n  inc/own.p4\n";
    assert_eq!(folder.quiet("p4c-bm2-ss -I inc -M prog.p4"), rule);
    folder.quiet("p4c-bm2-ss -Iinc -MD -MP -MT x -o o.json prog.p4");
    assert_eq!(
        folder.read("o.d"),
        "x: \\\n  prog.p4 \\\n  inc/own.p4\ninc/own.p4:\n"
    );
}

#[test]
fn warnings_follow_the_command_line() {
    let folder = Compilers::new();
    let program = "#warning look here\n".to_owned() + PROGRAM;
    folder.0.write("prog.p4", program);
    let said = |line: &str| {
        let output = folder.run(line);
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert!(said("p4c-bm2-ss prog.p4").1.ends_with("1 warning\n"));
    assert_eq!(said("p4c-bm2-ss --Wdisable prog.p4"), (true, String::new()));
    assert_eq!(
        said("p4c-bm2-ss --Wdisable=warning-directive prog.p4"),
        (true, String::new())
    );
    let short = "prog.p4:1:1: warning: #warning look here [warning-directive]\n";
    assert_eq!(
        said("p4c-bm2-ss --error-format=short prog.p4"),
        (true, short.to_owned())
    );
    let (_, text) = said("p4c-bm2-ss --error-format json -g prog.p4");
    let lines: Vec<serde_json::Value> = (text.lines())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let [note, warning] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(
        (&note["severity"], &note["code"], &note["place"]),
        (
            &"info".into(),
            &"without-effect".into(),
            &serde_json::Value::Null
        )
    );
    assert_eq!(warning["code"], "warning-directive");
    assert_eq!(warning["place"]["file"], "prog.p4");
    assert_eq!(warning["place"]["line"], 1);
    let (success, text) = said("p4c-bm2-ss --Werror prog.p4");
    assert!(!success && text.ends_with("1 error\n"), "{text}");
    let (success, text) = said("p4c-bm2-ss --Winfo=warning-directive prog.p4");
    assert!(
        success && text.contains("look here") && !text.contains("1 warning"),
        "{text}"
    );
    let (success, text) = said("p4c-bm2-ss --Wdisable -g --ndebug prog.p4");
    assert!(success, "{text}");
    assert_eq!(
        text,
        "ebb-p4c: without effect: -g, --ndebug (there is one kind of output)\n"
    );
}

#[test]
fn disabled_annotations_are_told() {
    let folder = Compilers::new();
    folder.quiet("p4c-bm2-ss --p4runtime-files with.txt prog.p4");
    let output = folder.run(
        "p4c-bm2-ss --disable-annotations=brief,description --p4runtime-files without.txt prog.p4",
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("@brief is ignored"),
        "{said}"
    );
    assert!(
        folder.read("with.txt").contains("brief:")
            && !folder.read("without.txt").contains("brief:")
    );
}

/// A program for Tofino is checked, has P4Info and JSON, and is none for v1model.
#[test]
fn a_program_for_tofino_has_p4info_and_json() {
    let folder = Compilers::new();
    let switch = "#if __TARGET_TOFINO__ == 2\n#include <t2na.p4>\n#else\n#include <tna.p4>\n#endif\n\
                  const bit<9> LAST = QUEUE_ID_WIDTH;\n";
    folder.0.write("part.p4", switch);
    let preprocessed = |line: &str| folder.quiet(line).contains("LAST = 7");
    assert!(preprocessed("p4c-bm2-ss --arch t2na -E part.p4"));
    assert!(preprocessed("p4c-bm2-ss --target tofino2 -E part.p4"));
    assert!(!preprocessed("p4c-bm2-ss --arch tna -E part.p4"));
    let fabric = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../p4src/tna/fabric_marking.p4"
    );
    folder.quiet(&format!("p4c-bm2-ss {fabric}"));
    folder.quiet(&format!("p4c-bm2-ss --p4runtime-files info.txtpb {fabric}"));
    assert!(folder.read("info.txtpb").contains("arch: \"tna\""));
    folder.quiet(&format!("p4c-bm2-ss -o f.json {fabric}"));
    assert!(folder.read("f.json").contains("\"architecture\": \"tna\""));
    let v1model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/router.p4");
    for (arch, program, said) in [
        (
            "v1model",
            fabric,
            "the program is for tna, --arch is v1model",
        ),
        ("tna", v1model, "the program is for v1model, --arch is tna"),
        ("t2na", fabric, "the program is for tna, --arch is t2na"),
    ] {
        let output = folder.run(&format!(
            "p4c-bm2-ss --error-format=short --arch {arch} -o no.json {program}"
        ));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && !folder.has("no.json"));
        assert!(
            errors.contains(said) && errors.matches("error:").count() == 1,
            "{errors}"
        );
    }
}
