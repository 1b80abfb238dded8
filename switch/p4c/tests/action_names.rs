//! Actions that the control plane knows by one name: they are one for P4Info, and each table runs its own.

use ebb_p4_proto::config::{Action, P4Info};

use crate::compiled;

/// A program with these declarations and statements in ingress and egress; both have the parameters `hdr` and `m`.
fn program(top: &str, ingress: [&str; 2], egress: [&str; 2]) -> String {
    let [ingress_locals, ingress] = ingress;
    let [egress_locals, egress] = egress;
    format!(
        "#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers {{ h_t h; }}
struct metadata {{ }}
{top}
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {{
    state start {{ p.extract(hdr.h); transition accept; }}
}}
control V(inout headers hdr, inout metadata m) {{ apply {{}} }}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    {ingress_locals}
    apply {{ {ingress} }}
}}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"
    )
}

fn named<'a>(info: &'a P4Info, name: &str) -> Vec<&'a Action> {
    let is_it = |a: &&Action| a.preamble.as_ref().is_some_and(|p| p.name == name);
    info.actions.iter().filter(is_it).collect()
}

fn id(action: &Action) -> u32 {
    action.preamble.as_ref().expect("a preamble").id
}

#[test]
fn actions_of_one_name_and_parameters_are_listed_once() {
    let mark = |field: &str| {
        format!(
            "@name(\".mark\") action mark(bit<8> value) {{ hdr.h.{field} = value; }}
             @name(\".nop\") action nop() {{ }}
             table t {{ key = {{ hdr.h.a: exact; }} actions = {{ mark; nop; }} }}"
        )
    };
    let (ingress, egress) = (mark("a"), mark("b"));
    let text = program("", [&ingress, "t.apply();"], [&egress, "t.apply();"]);
    let compiled = compiled(&text);
    let info = &compiled.p4info;
    for name in ["mark", "nop"] {
        let found = named(info, name);
        assert_eq!(found.len(), 1, "{name}");
        let ids = info
            .tables
            .iter()
            .flat_map(|t| &t.action_refs)
            .map(|r| r.id);
        assert_eq!(ids.filter(|i| *i == id(found[0])).count(), 2, "{name}");
    }
    // Each table has an action of its own in the JSON.
    let marks = compiled.json.actions.iter().filter(|a| a.name == "mark");
    assert_eq!(marks.count(), 2);
}

#[test]
fn a_control_may_have_copies_of_an_action() {
    let locals = "@name(\"I.set\") action set(bit<8> x) { hdr.h.a = x; }
        @name(\"I.set\") action set_1(bit<8> x) { hdr.h.b = x; }
        table t { key = { hdr.h.a: exact; } actions = { set; } }
        table u { key = { hdr.h.a: exact; } actions = { set_1; } }";
    let text = program("", [locals, "t.apply(); u.apply();"], ["", ""]);
    assert_eq!(named(&compiled(&text).p4info, "I.I.set").len(), 1);
}

/// An action that is only called has no data from the control plane, so it hides no parameters of the one in a table.
#[test]
fn the_action_of_a_table_counts() {
    let locals = "table t { key = { h.a: exact; } actions = { set(h.b); } }";
    let top = "@name(\".set\") action set(inout bit<8> to, bit<8> x) { to = x; }";
    let text = program(
        top,
        ["", "set(hdr.h.a, 5);"],
        [&locals.replace("h.", "hdr.h."), "t.apply();"],
    );
    let info = compiled(&text).p4info;
    let found = named(&info, "set");
    assert_eq!(found.len(), 1);
    let names: Vec<&str> = found[0].params.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["x"]);
}

/// BMv2 knows actions by their number; only the control plane has to tell them apart by their names.
#[test]
fn actions_that_only_share_a_name_are_a_problem_of_p4info() {
    let set = |ty: &str, field: &str| {
        format!(
            "@name(\".set\") action set({ty} x) {{ hdr.h.{field} = (bit<8>) x; }}
             table t {{ key = {{ hdr.h.a: exact; }} actions = {{ set; }} }}"
        )
    };
    let (ingress, egress) = (set("bit<8>", "a"), set("bit<16>", "b"));
    let text = program("", [&ingress, "t.apply();"], [&egress, "t.apply();"]);
    let problem = compiled(&text).p4info_problem.expect("a problem");
    assert_eq!(problem.code, "duplicate-name");

    let packet = "@controller_header(\"packet_in\") header";
    let top = format!("{packet} a_t {{ bit<8> a; }} {packet} b_t {{ bit<8> a; }}");
    let text = program(&top, ["", ""], ["", ""]);
    let problem = compiled(&text).p4info_problem.expect("a problem");
    assert!(problem.message.contains("packet_in"), "{}", problem.message);
    assert!(
        compiled(&program("", ["", ""], ["", ""]))
            .p4info_problem
            .is_none()
    );
}

#[test]
fn digests_of_one_name_have_one_type() {
    let top = "struct a_t { bit<8> x; } @name(\"a_t\") struct b_t { bit<8> x; bit<8> y; }";
    let problem = |ingress: &str| {
        let text = program(top, ["", ingress], ["", ""]);
        compiled(&text).p4info_problem
    };
    let first = "digest<a_t>(1, { hdr.h.a });";
    let other = problem(&format!("{first} digest<b_t>(1, {{ hdr.h.a, hdr.h.b }});"));
    assert!(other.is_some_and(|p| p.message.contains("digests")));
    let same = problem(&format!("{first} digest<a_t>(1, {{ hdr.h.b }});"));
    assert!(same.is_none());
}
