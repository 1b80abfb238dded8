//! Which values meet without a cast: those that P4_16 casts by itself (section 8.11.2), as p4c does.
//!
//! Most of it is about enums with an underlying type, which become numbers, and numbers of `int`, which take the type
//! of what they meet; the two often meet each other.

use ebb_p4c::diagnostics::{Diagnostics, Policy};
use ebb_p4c::preprocess::Options;
use ebb_p4c::source::SourceMap;

/// Values that the tables below name. Fields are of run time: `e` is of an enum of `bit<8>`, `f` of another one, `w` of
/// one of `bit<16>`, `s` of one of `int<8>`; `b` is a `bit<8>`, and `n` of an enum without an underlying type.
const DECLARATIONS: &str = "
enum bit<8> E { A = 1, B = 2 }
enum bit<8> F { A = 1 }
enum bit<16> W { A = 1 }
enum int<8> S { A = -1, B = 1 }
enum N { A, B }
const int K = 1;
const E KE = E.A;
header h_t { E e; F f; W w; S s; bit<8> b; }
struct H { h_t h; h_t[4] t; }
struct M { bool c; N n; E e; bit<8> b; }
";

/// Where a cell of a table stands in the program.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    TopLevel,
    /// A state of the parser.
    State,
    /// A declaration of the control.
    Local,
    Statement,
}

/// Code that is to be accepted or refused, in parts; `#` in it is the number of the cell.
struct Cell {
    parts: Vec<(Place, String)>,
    accepted: bool,
}

#[derive(Default)]
struct Cells(Vec<Cell>);

impl Cells {
    fn statement(&mut self, statement: &str, accepted: bool) {
        self.cell(&[(Place::Statement, statement)], accepted);
    }

    fn state(&mut self, transition: &str, accepted: bool) {
        let state = format!("state s# {{ {transition} }}");
        self.cell(&[(Place::State, &state)], accepted);
    }

    fn table(&mut self, declarations: &str, accepted: bool) {
        let parts = [
            (Place::Local, declarations),
            (Place::Statement, "t#.apply();"),
        ];
        self.cell(&parts, accepted);
    }

    fn cell(&mut self, parts: &[(Place, &str)], accepted: bool) {
        let number = self.0.len().to_string();
        let part = |(place, text): &(Place, &str)| (*place, text.replace('#', &number));
        let parts = parts.iter().map(part).collect();
        self.0.push(Cell { parts, accepted });
    }

    /// Compiles all cells at once, of which those that are to be refused have errors and the others none, and then
    /// those without errors, which compile to the end.
    fn finish(self, at_least: usize) {
        let all: Vec<&Cell> = self.0.iter().collect();
        let right: Vec<&Cell> = self.0.iter().filter(|cell| cell.accepted).collect();
        assert!(all.len() >= at_least, "{} cells", all.len());
        for cells in [all, right] {
            let refused = refused(&cells);
            for (cell, message) in cells.iter().zip(refused) {
                let code: Vec<&str> = cell.parts.iter().map(|(_, text)| &text[..]).collect();
                let code = code.join(" ");
                match (cell.accepted, message) {
                    (true, Some(message)) => panic!("{code}: {message}"),
                    (false, None) => panic!("{code}: accepted"),
                    _ => {}
                }
            }
        }
    }
}

/// For each cell the first error in its lines.
fn refused(cells: &[&Cell]) -> Vec<Option<String>> {
    let mut lines: Vec<String> = Vec::new();
    // The cell that each line belongs to.
    let mut owners: Vec<Option<usize>> = Vec::new();
    let mut add = |text: &str, owner: Option<usize>| {
        lines.extend(text.lines().map(str::to_owned));
        owners.resize(lines.len(), owner);
    };
    let begin = |place| match place {
        Place::TopLevel => format!("#include <v1model.p4>\n{DECLARATIONS}"),
        Place::State => {
            "parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {
            state start { p.extract(hdr.h); transition accept; }"
                .to_owned()
        }
        Place::Local => "}
            control V(inout H hdr, inout M m) { apply { } }
            control I(inout H hdr, inout M m, inout standard_metadata_t sm) {"
            .to_owned(),
        Place::Statement => "apply {".to_owned(),
    };
    for place in [
        Place::TopLevel,
        Place::State,
        Place::Local,
        Place::Statement,
    ] {
        add(&begin(place), None);
        for (number, cell) in cells.iter().enumerate() {
            for (_, text) in cell.parts.iter().filter(|(at, _)| *at == place) {
                match place {
                    Place::Statement => add(&format!("{{ {text} }}"), Some(number)),
                    _ => add(text, Some(number)),
                }
            }
        }
    }
    let end = "} }
        control G(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
        control D(packet_out p, in H hdr) { apply { p.emit(hdr); } }
        V1Switch(P(), V(), I(), G(), V(), D()) main;";
    add(end, None);
    let policy = Policy {
        max_errors: Some(10_000),
        ..Policy::default()
    };
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::with_policy(policy));
    let text = lines.join("\n");
    ebb_p4c::compile(
        "t.p4",
        &text,
        &Options::default(),
        &mut sources,
        &diagnostics,
    );
    let mut refused = vec![None; cells.len()];
    for error in diagnostics.list().iter().filter(|d| d.is_error()) {
        let span = error.span.unwrap_or_default();
        let (_, line, _) = sources.position(span);
        match owners.get(line.wrapping_sub(1)).copied().flatten() {
            Some(owner) => refused[owner] = Some(error.message.clone()),
            None => panic!("line {line}: {}", error.message),
        }
    }
    refused
}

/// A value as the program writes it.
fn written(value: &str) -> String {
    match value {
        "e" | "f" | "w" | "s" | "b" => format!("hdr.h.{value}"),
        "n" => "m.n".to_owned(),
        other => other.to_owned(),
    }
}

/// Expressions that meet `e` as a number of eight bits, and such that do not.
const LIKE_E: [&str; 8] = ["e", "E.A", "KE", "f", "1", "K", "8w1", "b"];
const UNLIKE_E: [&str; 7] = ["w", "s", "n", "16w1", "8s1", "true", "N.A"];
const LIKE_S: [&str; 5] = ["s", "S.A", "-1", "K", "8s1"];
const UNLIKE_S: [&str; 5] = ["e", "b", "8w1", "16s1", "n"];

const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const ARITHMETIC: [&str; 8] = ["+", "-", "*", "|+|", "|-|", "&", "|", "^"];

#[test]
fn operands_meet_as_numbers_in_both_orders() {
    let mut cells = Cells::default();
    let operators = COMPARISONS.iter().map(|op| (op, "bool"));
    let arithmetic = ARITHMETIC
        .iter()
        .chain(&["/", "%"])
        .map(|op| (op, "bit<8>"));
    for (op, ty) in operators.chain(arithmetic) {
        for (others, accepted) in [(&LIKE_E[..], true), (&UNLIKE_E[..], false)] {
            for other in others.iter().map(|other| written(other)) {
                cells.statement(&format!("{ty} x = hdr.h.e {op} {other};"), accepted);
                cells.statement(&format!("{ty} x = {other} {op} hdr.h.e;"), accepted);
            }
        }
    }
    let operators = COMPARISONS.iter().map(|op| (op, "bool"));
    for (op, ty) in operators.chain(ARITHMETIC.iter().map(|op| (op, "int<8>"))) {
        for (others, accepted) in [(&LIKE_S[..], true), (&UNLIKE_S[..], false)] {
            for other in others.iter().map(|other| written(other)) {
                cells.statement(&format!("{ty} x = hdr.h.s {op} {other};"), accepted);
                cells.statement(&format!("{ty} x = {other} {op} hdr.h.s;"), accepted);
            }
        }
    }
    cells.finish(700);
}

#[test]
fn other_operators_take_enums_as_numbers() {
    let mut cells = Cells::default();
    for (expression, accepted) in [
        ("hdr.h.e << 1", true),
        ("hdr.h.e >> K", true),
        ("hdr.h.e << hdr.h.e", true),
        ("hdr.h.e << hdr.h.w", true),
        ("hdr.h.e << 16w1", true),
        ("hdr.h.b >> hdr.h.f", true),
        ("hdr.h.b << E.A", true),
        ("8w1 << hdr.h.e", true),
        ("1 << E.A", true),
        ("hdr.h.e << hdr.h.s", false),
        ("hdr.h.e << -1", false),
        ("hdr.h.b << m.n", false),
        ("m.n << 1", false),
        ("1 << hdr.h.e", false),
        ("-hdr.h.e", true),
        ("+hdr.h.e", true),
        ("~hdr.h.e", true),
        ("-m.n", false),
        ("~K", false),
        ("hdr.h.e[7:0]", true),
        ("8w0 ++ hdr.h.e[E.B:E.A] == 10w1 ? 8w1 : 8w2", true),
        ("(hdr.h.e ++ hdr.h.f)[8:1]", true),
        ("(hdr.h.e ++ 16w1)[8:1]", true),
        ("(hdr.h.b ++ hdr.h.s)[8:1]", true),
        ("(hdr.h.e ++ 1)[8:1]", false),
        ("(K ++ hdr.h.e)[8:1]", false),
        ("(hdr.h.e ++ m.n)[8:1]", false),
        ("m.c ? hdr.h.e : 1", true),
        ("m.c ? K : hdr.h.e", true),
        ("m.c ? E.A : E.B", true),
        // p4c wants a literal here; the specification casts both.
        ("m.c ? hdr.h.e : 8w1", true),
        ("m.c ? hdr.h.e : hdr.h.f", false),
        ("m.c ? hdr.h.e : hdr.h.w", false),
        ("m.c ? hdr.h.e : m.n", false),
        ("m.c ? 1 : 2", false),
        ("hdr.t[hdr.h.e].b", true),
        ("hdr.t[E.A].b", true),
        ("hdr.t[m.n].b", false),
        ("(bit<8>) hdr.h.e", true),
        ("(bit<8>) (E) hdr.h.b", true),
        ("(bit<8>) (E) 1", true),
        ("(bit<8>) (E) hdr.h.f", true),
        ("(bit<8>) m.n", false),
    ] {
        cells.statement(&format!("bit<8> x = {expression};"), accepted);
    }
    for (statement, accepted) in [
        ("hdr.h.b += hdr.h.e;", true),
        ("hdr.h.b <<= hdr.h.e;", true),
        ("hdr.h.b |= E.A;", true),
        ("hdr.h.e += 1;", false),
        ("hdr.h.e |= hdr.h.b;", false),
        ("hdr.h.b += hdr.h.w;", false),
    ] {
        cells.statement(statement, accepted);
    }
    cells.finish(45);
}

/// Types, with the values that take them and those that do not: no number becomes an enum by itself.
const TARGETS: [(&str, &[&str], &[&str]); 5] = [
    ("bit<8>", &LIKE_E, &UNLIKE_E),
    ("int<8>", &LIKE_S, &UNLIKE_S),
    (
        "bit<16>",
        &["w", "W.A", "1", "K", "16w1"],
        &["e", "8w1", "b", "s"],
    ),
    (
        "E",
        &["e", "E.B", "KE"],
        &["1", "K", "8w1", "b", "f", "w", "n", "true"],
    ),
    ("N", &["n", "N.A"], &["1", "8w1", "e"]),
];

/// Where a value goes to a place of a type: declarations, statements.
const PLACES: [(&str, &str); 9] = [
    ("", "TYPE x = VALUE;"),
    ("", "TYPE x; x = VALUE;"),
    ("struct s#_t { TYPE x; }", "s#_t x = { VALUE };"),
    ("struct s#_t { TYPE x; }", "s#_t x = { x = VALUE };"),
    ("struct s#_t { TYPE x; }", "s#_t x = (s#_t) { VALUE };"),
    ("", "tuple<TYPE, bool> x = { VALUE, true };"),
    ("bool g#(in TYPE x) { return true; }", "bool x = g#(VALUE);"),
    (
        "bool g#(in TYPE x) { return true; }",
        "bool x = g#(x = VALUE);",
    ),
    (
        "TYPE g#(inout H hdr, inout M m) { return VALUE; }",
        "TYPE x = g#(hdr, m);",
    ),
];

#[test]
fn values_take_the_type_of_where_they_go() {
    let mut cells = Cells::default();
    for (ty, takes, refuses) in TARGETS {
        for (values, accepted) in [(takes, true), (refuses, false)] {
            for value in values.iter().map(|value| written(value)) {
                for (declarations, statements) in PLACES {
                    let fill = |text: &str| text.replace("TYPE", ty).replace("VALUE", &value);
                    let (declarations, statements) = (fill(declarations), fill(statements));
                    let parts = [
                        (Place::TopLevel, &declarations[..]),
                        (Place::Statement, &statements[..]),
                    ];
                    cells.cell(&parts, accepted);
                }
            }
        }
    }
    cells.finish(400);
}

#[test]
fn labels_are_compared_as_operands_are() {
    let mut cells = Cells::default();
    let enums = ["E.A", "KE", "1", "K", "8w1", "F.A"];
    let sets = [
        "1 &&& 3",
        "E.A &&& 8w3",
        "1 .. 2",
        "E.A .. E.B",
        "1 .. E.B",
        "_",
    ];
    let others = ["16w1", "W.A", "N.A", "true", "S.A"];
    let labels = |lists: &[(&[&'static str], bool)]| -> Vec<(&'static str, bool)> {
        let all = lists.iter();
        all.flat_map(|(list, accepted)| list.iter().map(|label| (*label, *accepted)))
            .collect()
    };
    for key in ["hdr.h.e", "hdr.h.b"] {
        for (label, accepted) in labels(&[(&enums, true), (&sets, true), (&others, false)]) {
            let one = format!("transition select({key}) {{ {label}: accept; default: reject; }}");
            cells.state(&one, accepted);
            let two = format!(
                "transition select({key}, hdr.h.w) {{ ({label}, 1): accept; default: reject; }}"
            );
            cells.state(&two, accepted);
            // Ranges have a match kind of their own.
            let kind = if label.contains("..") {
                "range"
            } else {
                "ternary"
            };
            let table = format!(
                "action a#() {{ }} table t# {{ key = {{ {key}: {kind}; }} actions = {{ a#; }} \
                 const entries = {{ {label}: a#(); }} }}"
            );
            cells.table(&table, accepted);
        }
        // p4c wants members as labels of an enum; the specification casts both.
        for (label, accepted) in labels(&[(&enums, true), (&others, false)]) {
            let switch = format!("switch ({key}) {{ {label}: {{ hdr.h.b = 0; }} default: {{ }} }}");
            cells.statement(&switch, accepted);
        }
    }
    for (label, accepted) in [("N.A", true), ("0", false), ("8w0", false), ("E.A", false)] {
        let switch = format!("switch (m.n) {{ {label}: {{ hdr.h.b = 0; }} default: {{ }} }}");
        cells.statement(&switch, accepted);
    }
    cells.finish(120);
}

/// Data of an action is an argument.
#[test]
fn data_of_actions_converts_as_arguments_do() {
    let mut cells = Cells::default();
    for (ty, value, accepted) in [
        ("bit<8>", "E.A", true),
        ("bit<8>", "1", true),
        ("bit<8>", "K", true),
        ("bit<8>", "16w1", false),
        ("E", "E.A", true),
        ("E", "1", false),
        ("E", "8w1", false),
        ("E", "F.A", false),
    ] {
        for property in [
            "default_action = a#(VALUE);",
            "const entries = { 1: a#(VALUE); }",
        ] {
            let property = property.replace("VALUE", value);
            let table = format!(
                "action a#({ty} x) {{ hdr.h.b = (bit<8>) x; }} table t# {{ \
                 key = {{ hdr.h.b: exact; }} actions = {{ a#; }} {property} }}"
            );
            cells.table(&table, accepted);
        }
    }
    cells.finish(16);
}
