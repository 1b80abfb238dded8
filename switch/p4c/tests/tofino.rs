//! Programs for Tofino are checked against the compiler's own `tna.p4` and `t2na.p4`.

use std::path::{Path, PathBuf};

use ebb_p4c::architecture::Architecture;
use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::ir::{BlockKind, Program};
use ebb_p4c::preprocess::{Options, preprocess};
use ebb_p4c::source::SourceMap;

/// Checks a program. The error has the messages.
pub(crate) fn check(name: &str, text: &str, include_dirs: Vec<PathBuf>) -> Result<Program, String> {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let options = Options {
        include_dirs,
        ..Options::default()
    };
    let file = sources.add(name, text);
    let tokens = preprocess(file, &mut sources, &options, &diagnostics).tokens;
    let program = ebb_p4c::check_tokens(&tokens, &diagnostics, &mut |_, _| {});
    let messages = diagnostics.render(&sources, false);
    program
        .filter(|_| !diagnostics.has_errors())
        .ok_or(messages)
}

/// The programs of the fabric.
fn programs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4src/tna");
    let files = std::fs::read_dir(folder).expect("the folder");
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let programs: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "p4"))
        .collect();
    assert!(programs.len() >= 4, "{programs:?}");
    programs
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Our P4Info of the fabric is that of p4c's back end for the chip in p4src/tna/p4info, but for the order
/// of registers at the top level, and for `externs`, which P4Runtime has no messages for.
#[test]
fn p4info_is_that_of_p4c() {
    for path in programs() {
        let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        let stored = path.with_file_name(format!("p4info/{stem}.p4info.txtpb"));
        let program = check(stem, &read(&path), folders(&path)).expect("no errors");
        let diagnostics = Diagnostics::default();
        let made = ebb_p4c::control_plane(&program, &diagnostics, &mut |_, _| {});
        let made = ebb_p4c::p4info::to_text(&made.expect("P4Info").p4info.p4info);
        assert_eq!(entities(&made), entities(&read(&stored)), "{stem}");
    }
}

/// The top-level messages of a text, sorted, without comments and `externs`.
fn entities(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.starts_with(|c: char| c.is_alphabetic()) {
            true => found.push(line.to_owned()),
            false => found.last_mut().into_iter().for_each(|entity| {
                entity.push('\n');
                entity.push_str(line);
            }),
        }
    }
    found.retain(|entity| !entity.starts_with("externs"));
    found.sort();
    found
}

/// Where a program of the fabric finds its parts.
fn folders(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().expect("a folder");
    vec![folder.to_owned(), folder.join("../include")]
}

#[test]
fn the_fabric_for_tofino_has_no_type_error() {
    for path in programs() {
        let name = path.display().to_string();
        let program = check(&name, &read(&path), folders(&path));
        let program = program.unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let expected = match name.ends_with("fabric_adaptive.p4") {
            true => Architecture::T2na,
            false => Architecture::Tna,
        };
        assert_eq!(program.architecture, expected);
        assert!(program.main.is_some(), "{name}");
    }
}

/// A program of one pipeline, with `ingress` in its ingress control and `more` in front of it.
pub(crate) fn pipeline(more: &str, ingress: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
header h_t {{ bit<16> a; bit<16> b; }}
struct headers {{ h_t h; }}
struct metadata {{ bit<16> x; }}
{more}
parser IP(packet_in p, out headers hdr, out metadata md, out ingress_intrinsic_metadata_t ig) {{
    Checksum() sum;
    state start {{
        p.extract(ig);
        p.advance(PORT_METADATA_SIZE);
        p.extract(hdr.h);
        sum.add({{ hdr.h.a }});
        md.x = sum.get();
        transition accept;
    }}
}}
control I(inout headers hdr, inout metadata md, in ingress_intrinsic_metadata_t ig,
          in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
          inout ingress_intrinsic_metadata_for_tm_t tm) {{
    {ingress}
    apply {{ tm.ucast_egress_port = ig.ingress_port; {apply} }}
}}
control ID(packet_out p, inout headers hdr, in metadata md, in ingress_intrinsic_metadata_for_deparser_t dprsr) {{
    Mirror() mirror;
    apply {{
        if (dprsr.mirror_type == 1) {{ mirror.emit<h_t>(5, {{ md.x, 0 }}); }}
        p.emit(hdr);
    }}
}}
parser EP(packet_in p, out headers hdr, out metadata md, out egress_intrinsic_metadata_t eg) {{
    state start {{ p.extract(eg); md.x = 0; transition accept; }}
}}
control E(inout headers hdr, inout metadata md, in egress_intrinsic_metadata_t eg,
          in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
          inout egress_intrinsic_metadata_for_output_port_t port) {{ apply {{ }} }}
control ED(packet_out p, inout headers hdr, in metadata md, in egress_intrinsic_metadata_for_deparser_t dprsr) {{
    apply {{ p.emit(hdr); }}
}}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"
    )
}

#[test]
fn parts_of_an_architecture_file_stand_for_all_of_it() {
    for (generation, whole, expected) in [
        (1, "tna", Architecture::Tna),
        (2, "t2na", Architecture::T2na),
    ] {
        let parts = ["specs", "base", "arch"];
        let parts = parts.map(|part| format!("#include <tofino{generation}_{part}.p4>\n"));
        let parts = format!("#define __TARGET_TOFINO__ {generation}\n{}", parts.concat());
        let text = pipeline("", "", "").replace(&format!("#include <{whole}.p4>"), "");
        let program = check("parts.p4", &format!("{parts}{text}"), Vec::new());
        assert_eq!(program.expect("no errors").architecture, expected);
    }
}

#[test]
fn a_register_action_brings_its_method() {
    let text = pipeline(
        "",
        "Register<bit<16>, bit<9>>(512, 7) seen;
         RegisterAction<bit<16>, bit<9>, bit<16>>(seen) count = {
             void apply(inout bit<16> value, out bit<16> result) {
                 if (value < md.x) { value = value + 1; }
                 result = value;
             }
         };
         RegisterAction<bit<16>, _, bit<16>>(seen) reset = { void apply(inout bit<16> value) { value = 0; } };",
        "hdr.h.b = count.execute(ig.ingress_port); reset.execute(ig.ingress_port);",
    );
    let program = check("t.p4", &text, Vec::new()).unwrap_or_else(|errors| panic!("{errors}"));
    let methods = program.instances.iter().flat_map(|i| &i.methods);
    let names: Vec<&str> = methods.map(|m| m.signature.name.as_str()).collect();
    assert_eq!(names, ["apply", "apply"]);
    let main = &program.instances[program.main.expect("main")];
    assert_eq!(main.construct.args.len(), 4, "a pipe and three left out");
    let packages = program.blocks.iter();
    assert!(packages.filter(|b| b.kind == BlockKind::Package).count() >= 2);
}

#[test]
fn tables_have_the_objects_of_the_architecture() {
    let text = pipeline(
        "",
        "DirectCounter<bit<32>>(CounterType_t.PACKETS) counted;
         Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
         ActionProfile(16) members;
         ActionSelector(members, hash, SelectorMode_t.FAIR, 8, 2) selector;
         action to(PortId_t port) { counted.count(); tm.ucast_egress_port = port; }
         table t {
             key = { hdr.h.a : exact; hdr.h.b : selector; }
             actions = { to; }
             counters = counted;
             implementation = selector;
             idle_timeout = true;
         }",
        "t.apply();",
    );
    let program = check("t.p4", &text, Vec::new()).unwrap_or_else(|errors| panic!("{errors}"));
    let table = program.tables.iter().find(|t| t.name == "t");
    let table = table.expect("the table");
    assert!(table.counters.is_some() && table.implementation.is_some() && table.support_timeout);
}

/// `execute` of a meter has two forms, both with an optional argument.
#[test]
fn names_of_arguments_choose_among_the_forms_of_a_method() {
    for argument in ["", "adjust_byte_count = 4", "color = MeterColor_t.RED"] {
        let text = pipeline(
            "",
            &format!(
                "DirectMeter(MeterType_t.BYTES) contract;
                 bit<8> colour = 0;
                 action police() {{ colour = contract.execute({argument}); }}
                 table t {{ key = {{ hdr.h.a : exact; }} actions = {{ police; }} meters = contract; }}"
            ),
            "t.apply(); hdr.h.b[7:0] = colour;",
        );
        check("t.p4", &text, Vec::new()).unwrap_or_else(|errors| panic!("{argument}: {errors}"));
    }
}

#[test]
fn faults_are_told_in_the_words_of_the_program() {
    let register = "Register<bit<16>, bit<9>>(512) seen;
        RegisterAction<bit<16>, bit<9>, bit<16>>(seen) count";
    let faults = [
        (format!("{register};"), "`count` has no method `apply`"),
        (
            format!("{register} = {{ void apply(inout bit<8> value) {{ }} }};"),
            "`apply` has other parameters or another result",
        ),
        (
            format!("{register} = {{ void aply(inout bit<16> value) {{ }} }};"),
            "`count` has no abstract method `aply`",
        ),
        (
            format!(
                "{register} = {{ void apply(inout bit<16> v) {{ }} void apply(inout bit<16> v) {{ }} }};"
            ),
            "the method `apply` is written twice",
        ),
        (
            "Random<bit<8>>() dice = { void apply() { } };".to_owned(),
            "`dice` has no abstract method `apply`",
        ),
    ];
    for (ingress, expected) in faults {
        let text = pipeline("", &ingress, "");
        let errors = check("t.p4", &text, Vec::new()).map(|_| ());
        let errors = errors.expect_err(&ingress);
        assert!(errors.contains(expected), "{ingress}: {errors}");
    }
}

/// Metadata begin as zero, and the size of a table is memory.
#[test]
fn there_are_no_warnings_of_what_only_bmv2_lacks() {
    let text = pipeline(
        "",
        "action to(PortId_t port) { tm.ucast_egress_port = port; }
         table t {
             key = { hdr.h.a : exact; }
             actions = { to; }
             const entries = { 1 : to(2); }
             size = 512;
         }",
        "t.apply();",
    );
    let text = text
        .replace("md.x = 0;", "")
        .replace("md.x = sum.get();", "");
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let file = sources.add("t.p4", text.as_str());
    let options = Options::default();
    let tokens = preprocess(file, &mut sources, &options, &diagnostics).tokens;
    assert!(ebb_p4c::check_tokens(&tokens, &diagnostics, &mut |_, _| {}).is_some());
    let codes: Vec<&str> = diagnostics.list().iter().map(|d| d.code).collect();
    assert!(!codes.contains(&"mismatch") && !codes.contains(&"uninitialized-out-param"));
}
