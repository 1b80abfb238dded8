//! Small sources that ask for a lot: each ends with an error at its place, soon and in little memory.
//!
//! The compiler runs as a process of its own, with a limit of its memory that the kernel keeps.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Address space, of which 256 MiB are the stack of the compiler's thread.
const MEMORY_KIB: u64 = 900 * 1024;
/// Far more time of the processor than any of them takes; the kernel ends what takes more.
const PROCESSOR_S: u32 = 20;
/// The same on a machine that does other things too.
const TIME: Duration = Duration::from_secs(200);
/// Doubling so often is beyond every memory.
const LEVELS: usize = 40;

/// A v1model program with these declarations, and these statements in the parser's first state and in ingress.
pub(crate) fn program(declarations: &str, parser: &str, locals: &str, ingress: &str) -> String {
    format!(
        "#include <v1model.p4>
header h_t {{ bit<8> f; }}
{declarations}
struct headers {{ h_t h; }}
struct metadata {{ bit<8> m; }}
parser P(packet_in p, out headers hdr, inout metadata m, inout standard_metadata_t s) {{
    state start {{ p.extract(hdr.h); {parser} transition accept; }}
}}
control V(inout headers hdr, inout metadata m) {{ apply {{}} }}
control I(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{
    {locals}
    apply {{ {ingress} }}
}}
control E(inout headers hdr, inout metadata m, inout standard_metadata_t s) {{ apply {{}} }}
control C(inout headers hdr, inout metadata m) {{ apply {{}} }}
control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

/// `line` for every level, with the numbers of this and of the one below.
fn chain(levels: usize, line: impl Fn(usize, usize) -> String) -> String {
    (1..=levels).fold(String::new(), |mut text, level| {
        writeln!(text, "{}", line(level, level - 1)).expect("memory");
        text
    })
}

/// Compiles; the messages. Fails if the compiler takes too long, or dies of something else than an error.
fn messages(name: &str, text: &str) -> String {
    let (code, messages) = in_time(name, text);
    assert_eq!(code, Some(1), "{name}: {messages}");
    messages
}

/// Compiles; the exit code and the messages. Fails if the compiler takes too long.
pub(crate) fn in_time(name: &str, text: &str) -> (Option<i32>, String) {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -v $0 && ulimit -t $1 && shift && exec \"$@\""])
        .arg(MEMORY_KIB.to_string())
        .arg(PROCESSOR_S.to_string())
        .arg(env!("CARGO_BIN_EXE_ebb-p4c"))
        .args(["--Wdisable", "-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the compiler");
    let mut input = child.stdin.take().expect("its input");
    let text = text.to_owned();
    // A compiler that has seen enough may close its input.
    let writer = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let start = Instant::now();
    while child.try_wait().expect("its state").is_none() {
        if start.elapsed() > TIME {
            child.kill().expect("it runs");
            child.wait().expect("it ended");
            panic!("{name}: no end after {TIME:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.join().expect("the writer");
    let output = child.wait_with_output().expect("its messages");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), messages)
}

/// Sources whose size doubles with every level. Each is a few kilobytes long.
fn doubling() -> Vec<(&'static str, String)> {
    let n = LEVELS;
    let types = |declarations: String, ty: &str| {
        program(&declarations, "", "", &format!("{ty} x; hdr.h.f = 1;"))
    };
    let calls = |declarations: String, call: &str| program(&declarations, "", "", call);
    let values = |declarations: String, value: &str| {
        program(
            &declarations,
            "",
            "",
            &format!("hdr.h.f = (bit<8>)({value});"),
        )
    };
    let last = |prefix: &str| format!("{prefix}{n}");
    let twice = |what: &str| format!("{what} {what}");
    let instances = |kind: &str, parameters: &str, arguments: &str, first: &str| {
        let end = if kind == "parser" {
            "transition accept; }"
        } else {
            ""
        };
        let open = if kind == "parser" {
            "state start {"
        } else {
            "apply {"
        };
        let close = if kind == "parser" { "" } else { "}" };
        format!("{kind} c0({parameters}) {{ {open} {first} {end}{close} }}\n")
            + &chain(n, |this, below| {
                format!(
                    "{kind} c{this}({parameters}) {{ c{below}() a; c{below}() b; \
                     {open} a.apply({arguments}); b.apply({arguments}); {end}{close} }}"
                )
            })
    };
    let tuple = |this, below| format!("typedef tuple<t{below}, t{below}> t{this};");
    let structure = |this, below| format!("struct t{this} {{ t{below} a; t{below} b; }}");
    let base = "typedef bit<8> t0;\n".to_owned();
    vec![
        (
            "nested tuples",
            types(base.clone() + &chain(n, tuple), &last("t")),
        ),
        (
            "nested structs",
            types(base.clone() + &chain(n, structure), &last("t")),
        ),
        (
            "structs without fields",
            types(
                "struct t0 {}\n".to_owned() + &chain(n, structure),
                &last("t"),
            ),
        ),
        (
            "generic structs",
            types(
                "struct g<T> { T a; T b; }\ntypedef bit<8> t0;\n".to_owned()
                    + &chain(n, |this, below| format!("typedef g<t{below}> t{this};")),
                &last("t"),
            ),
        ),
        (
            "arguments of generic structs that have no field",
            types(
                "struct g<A, B> { bit<8> a; }\ntypedef bit<8> t0;\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("typedef g<t{below}, t{below}> t{this};")
                    }),
                &last("t"),
            ),
        ),
        (
            "stacks in structs in stacks",
            types(
                "struct t0 { h_t[4096] s; }\n".to_owned() + &chain(n, structure),
                &last("t"),
            ),
        ),
        (
            "tuples in generic functions",
            calls(
                "void f0<T>(in T x) {}\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("void f{this}<T>(in T x) {{ f{below}<tuple<T, T>>({{ x, x }}); }}")
                    }),
                &format!("f{n}<bit<8>>(8w1);"),
            ),
        ),
        (
            "tuples that functions return",
            calls(
                "tuple<T, T> f<T>(in T x) { return { x, x }; }\n".to_owned(),
                &format!("{}8w1{};", "f(".repeat(n), ")".repeat(n)),
            ),
        ),
        (
            "functions",
            calls(
                "void f0(inout bit<8> x) { x = x + 1; }\n".to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "void f{this}(inout bit<8> x) {{ {} }}",
                            twice(&format!("f{below}(x);"))
                        )
                    }),
                &format!("f{n}(hdr.h.f);"),
            ),
        ),
        (
            "functions that do nothing",
            calls(
                "void f0() {}\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("void f{this}() {{ {} }}", twice(&format!("f{below}();")))
                    }),
                &format!("f{n}();"),
            ),
        ),
        (
            "actions",
            program(
                "",
                "",
                &("action a0() { hdr.h.f = hdr.h.f + 1; }\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("action a{this}() {{ {} }}", twice(&format!("a{below}();")))
                    })),
                &format!("a{n}();"),
            ),
        ),
        (
            "controls",
            program(
                &instances("control", "inout bit<8> x", "x", "x = x + 1;"),
                "",
                &format!("c{n}() c;"),
                "c.apply(hdr.h.f);",
            ),
        ),
        (
            "controls that are not applied",
            program(
                &("control c0() { apply {} }\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("control c{this}() {{ c{below}() a; c{below}() b; apply {{}} }}")
                    })),
                "",
                &format!("c{n}() c;"),
                "",
            ),
        ),
        (
            "a control that is applied twice",
            program(
                &("control c0(inout bit<8> x) { apply { x = x + 1; } }\n".to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "control c{this}(inout bit<8> x) {{ c{below}() a; apply {{ a.apply(x); a.apply(x); }} }}"
                        )
                    })),
                "",
                &format!("c{n}() c;"),
                "c.apply(hdr.h.f);",
            ),
        ),
        (
            "parsers",
            program(
                &instances("parser", "inout bit<8> x", "x", "x = x + 1;"),
                &format!("c{n}.apply(hdr.h.f);"),
                "",
                "",
            ),
        ),
        (
            "a parser that is applied twice",
            program(
                &("parser c0(inout bit<8> x) { state start { x = x + 1; transition accept; } }\n"
                    .to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "parser c{this}(inout bit<8> x) {{ c{below}() a; \
                             state start {{ a.apply(x); a.apply(x); transition accept; }} }}"
                        )
                    })),
                &format!("c{n}.apply(hdr.h.f);"),
                "",
                "",
            ),
        ),
        (
            "default arguments",
            calls(
                "bit<8> f0(in bit<8> x = 1) { return x; }\n".to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "bit<8> f{this}(in bit<8> x = f{below}() + f{below}()) {{ return x; }}"
                        )
                    }),
                &format!("hdr.h.f = f{n}();"),
            ),
        ),
        (
            "squares of constants",
            values(
                "const int a0 = 3;\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("const int a{this} = a{below} * a{below};")
                    }),
                &last("a"),
            ),
        ),
        (
            "shifts of constants",
            values(
                "const int a0 = 1;\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("const int a{this} = a{below} << 65535;")
                    }),
                &last("a"),
            ),
        ),
        (
            "strings",
            program(
                &("const string a0 = \"text\";\n".to_owned()
                    + &chain(n, |this, below| {
                        format!("const string a{this} = a{below} ++ a{below};")
                    })),
                "",
                "",
                &format!("log_msg(a{n});"),
            ),
        ),
        (
            "widths",
            values(
                "const bit<8> a0 = 1;\n".to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "const bit<{}> a{this} = a{below} ++ a{below};",
                            8u64 << this.min(60)
                        )
                    }),
                &last("a"),
            ),
        ),
        (
            "lists of lists",
            program(
                &("typedef list<bit<8>> t0;\nconst t0 a0 = (t0){ 1, 2 };\n".to_owned()
                    + &chain(n, |this, below| {
                        format!(
                            "typedef list<t{below}> t{this};\n\
                             const t{this} a{this} = (t{this}){{ a{below}, a{below} }};"
                        )
                    })),
                "",
                "",
                &format!("for (t{} x in a{n}) {{ hdr.h.f = 1; }}", n - 1),
            ),
        ),
        (
            "loops in loops",
            program(
                "",
                "",
                "",
                &((1..n).fold(String::new(), |text, level| {
                    text + &format!("for (bit<8> x{level} in (list<bit<8>>){{ 1, 2 }}) {{ ")
                }) + "hdr.h.f = hdr.h.f + 1; "
                    + &"}".repeat(n - 1)),
            ),
        ),
        (
            "macros that stand for nothing",
            "#define M0\n".to_owned()
                + &chain(n, |this, below| {
                    format!("#define M{this} M{below} M{below}")
                })
                + &last("M"),
        ),
        (
            "arguments of macros",
            "#define M0(x) x\n".to_owned()
                + &chain(n, |this, below| format!("#define M{this}(x) M{below}(x x)"))
                + &format!("M{n}(a)"),
        ),
        (
            "arguments of macros that stand for nothing",
            "#define M0(x)\n".to_owned()
                + &chain(n, |this, below| format!("#define M{this}(x) M{below}(x x)"))
                + &format!("M{n}(a)"),
        ),
        (
            "names that are pasted",
            "#define M0(x) x\n".to_owned()
                + &chain(n, |this, below| {
                    format!("#define M{this}(x) M{below}(x##x)")
                })
                + &format!("M{n}(a)"),
        ),
        (
            "strings of strings",
            "#define M0(x) x\n".to_owned()
                + &chain(n, |this, below| format!("#define M{this}(x) M{below}(#x)"))
                + &format!("M{n}(\"\")"),
        ),
        (
            "variable arguments",
            "#define M0(...) a\n".to_owned()
                + &chain(n, |this, below| {
                    format!("#define M{this}(...) M{below}(__VA_OPT__(__VA_ARGS__, __VA_ARGS__))")
                })
                + &format!("M{n}(a)"),
        ),
        (
            "macros in conditions",
            "#define M0 1 +\n".to_owned()
                + &chain(n, |this, below| {
                    format!("#define M{this} M{below} M{below}")
                })
                + &format!("#if M{n} 0\n#endif\n"),
        ),
    ]
}

#[test]
fn what_doubles_at_every_level_is_too_large() {
    let mut wrong = Vec::new();
    for (name, text) in doubling() {
        assert!(text.len() < 8_000, "{name}: {} bytes", text.len());
        let start = Instant::now();
        let found = messages(name, &text);
        println!("{name}: {:?}", start.elapsed());
        let named = ["too-large", "too-deep", "bad-width"];
        // With a place.
        if !named.iter().any(|code| found.contains(code)) || !found.contains("-:") {
            wrong.push(format!("{name}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs that do not double, but multiply sizes that the source only names.
#[test]
fn large_numbers_in_the_source_are_too_large() {
    let ranges = "0x1 .. 0xfffffffffffffffe";
    let select = format!(
        "transition select(x, x, x, x, x, x) {{ ({}): accept; default: accept; }} }} state unused {{",
        [ranges; 6].join(", ")
    );
    let indices: String = (1..20).map(|_| "[s.egress_spec]").collect();
    let sources = [
        (
            "ranges in a select",
            program("", &format!("bit<64> x = 1; {select}"), "", ""),
        ),
        (
            "elements chosen at run time",
            program(
                "header_union u_t { h_t a; }\nstruct big { h_t[4096] s; }\n",
                "",
                "",
                "big b; big c; b.s[s.ingress_port ++ s.egress_spec].f = c.s[s.egress_spec ++ s.ingress_port].f; \
                 b.s[s.ingress_port ++ s.egress_spec] = c.s[s.egress_spec ++ s.ingress_port]; \
                 hdr.h.f = b.s[(bit<32>)c.s[(bit<32>)b.s[s.egress_spec ++ s.egress_spec].f].f].f; \
                 b.s[(bit<32>)b.s[s.egress_spec ++ s.egress_spec].f] = c.s[s.egress_spec ++ s.ingress_port];",
            ),
        ),
        (
            "a width",
            program("header w_t { bit<4294967295> x; }\n", "", "", ""),
        ),
        (
            "a stack",
            program("struct w_t { h_t[4294967295] x; }\n", "", "", ""),
        ),
        (
            "a shift",
            program("const int a = 1 << 4294967295;\n", "", "", ""),
        ),
        (
            "a literal",
            program(
                &format!("const int a = {};\n", "9".repeat(200_000)),
                "",
                "",
                "",
            ),
        ),
        (
            "an index of an index",
            program("", "", "", &format!("hdr.h.f = hdr.h.f{indices};")),
        ),
        (
            "braces",
            program("", "", "", &("{".repeat(50_000) + &"}".repeat(50_000))),
        ),
        (
            "parentheses",
            program(
                "",
                "",
                "",
                &format!("hdr.h.f = {}1{};", "(".repeat(50_000), ")".repeat(50_000)),
            ),
        ),
        (
            "type arguments",
            program(
                &format!(
                    "typedef {}bit<8>{} t;\n",
                    "tuple<".repeat(5_000),
                    ">".repeat(5_000)
                ),
                "",
                "",
                "",
            ),
        ),
        (
            "arguments within arguments",
            format!(
                "#define I(x) x\n{}a{}",
                "I(".repeat(3_000),
                ")".repeat(3_000)
            ),
        ),
        (
            "arguments within arguments of macros",
            "#define I(x) x\n#define M0 1\n".to_owned()
                + &chain(10_000, |this, below| format!("#define M{this} I(M{below})"))
                + "M10000",
        ),
        (
            "a long text that a macro brings again and again",
            format!(
                "#define S \"{}\"\n{}",
                "x".repeat(60_000),
                "S ".repeat(60_000)
            ),
        ),
        (
            "a library that is included again",
            format!(
                "#include <v1model.p4>\n{}",
                "#undef _V1_MODEL_P4_\n#include <v1model.p4>\n".repeat(1_000)
            ),
        ),
        ("quotes that are never closed", "\\\"\n".repeat(300_000)),
        (
            "a long line that asks for its number",
            "__LINE__ ".repeat(200_000),
        ),
        (
            "levels of structs",
            program(
                &("struct t0 { bit<8> a; }\n".to_owned()
                    + &chain(2_000, |this, below| {
                        format!("struct t{this} {{ t{below} a; }}")
                    })),
                "",
                "",
                "t2000 x; hdr.h.f = 1;",
            ),
        ),
    ];
    for (name, text) in sources {
        let start = Instant::now();
        let found = messages(name, &text);
        println!(
            "{name}: {:?} {}",
            start.elapsed(),
            found.lines().next().unwrap_or_default()
        );
        assert!(found.contains("error"), "{name}: {found}");
    }
}

/// In one table, and in few that a control has as often as it has instances.
#[test]
fn many_entries_are_too_large() {
    let entries = |count: usize| (0..count).map(|n| format!("{n}: a();")).collect::<String>();
    let table = |count| {
        format!(
            "table t {{ key = {{ hdr.h.f: exact; }} actions = {{ a; }} const entries = {{ {} }} }}",
            entries(count)
        )
    };
    let one = format!("action a() {{}} {}", table(400_000)).replace("hdr.h.f", "(bit<32>)hdr.h.f");
    let repeated = format!(
        "control K(inout headers hdr) {{ action a() {{}} {} apply {{ t.apply(); }} }}",
        table(20_001).replace("hdr.h.f", "(bit<32>)hdr.h.f")
    );
    let instances: String = (0..10).map(|n| format!("K() k{n};")).collect();
    let applied: String = (0..10).map(|n| format!("k{n}.apply(hdr);")).collect();
    let whole = program("", "", &one, "t.apply();");
    let of_instances = program("", "", &instances, &applied)
        .replace("control V(", &format!("{repeated}\ncontrol V("));
    for (name, text) in [("one table", whole), ("instances", of_instances)] {
        let told = messages(name, &text);
        let expected = "with this table the program has more than 200000 entries [too-large]";
        assert_eq!(told.matches(expected).count(), 1, "{name}: {told}");
    }
}
