//! Long programs take time in proportion to their length. With work that grows by its square each of these would take
//! more than a minute.

use crate::limits::{in_time, program};

/// `line` for every number below `count`.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

fn fields(count: usize) -> String {
    lines(count, |i| format!("bit<8> f{i};"))
}

#[test]
fn long_programs_are_compiled_in_time() {
    let names = |count: usize| lines(count, |i| format!("m{i},"));
    let named = lines(30_000, |i| format!("@name(\"x{i}\") bit<8> f{i};"));
    let assigned = lines(10_000, |i| format!("big.f{i} = 1;"));
    let sources = [
        (
            "fields of a header",
            program(
                &format!("header big_t {{ {} }}", fields(30_000)),
                "",
                "big_t big;",
                "",
            ),
        ),
        (
            "fields with names of their own",
            program(&format!("header big_t {{ {named} }}"), "", "big_t big;", ""),
        ),
        (
            "fields that are named",
            program(
                &format!("struct big_t {{ {} }}", fields(10_000)),
                "",
                "",
                &format!("big_t big; {assigned}"),
            ),
        ),
        (
            "copies of fields",
            program(
                &format!("struct big_t {{ {} }}", fields(10_000)),
                "",
                "",
                "big_t a; big_t b; a.f1 = 1; b = a; hdr.h.f = b.f1;",
            ),
        ),
        (
            "members of an enum",
            program(
                &format!("enum big {{ {} last }}", names(150_000)),
                "",
                "",
                "big x = big.last;",
            ),
        ),
        (
            "errors",
            program(&format!("error {{ {} last }}", names(150_000)), "", "", ""),
        ),
        (
            "values that are computed for a hash",
            program(
                "",
                "",
                "",
                &lines(10_000, |i| {
                    let value = format!("hdr.h.f + {}", i % 256);
                    format!("hash(m.m, HashAlgorithm.crc16, 8w0, {{ {value} }}, 8w5);")
                }),
            ),
        ),
    ];
    for (name, text) in sources {
        let (code, messages) = in_time(name, &text);
        assert_eq!(code, Some(0), "{name}: {messages}");
    }
}
