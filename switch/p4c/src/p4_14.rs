//! Programs of P4_14, the language before P4_16, are known by declarations that P4_16 cannot have.

use crate::diagnostics::Diagnostic;
use crate::lex::{Tok, Token};

/// Words that begin a declaration of a name and a block in P4_14. In P4_16 none of them is followed so.
const WITH_BLOCK: &[&str] = &[
    "action_profile",
    "action_selector",
    "blackbox_type",
    "counter",
    "extern_type",
    "field_list",
    "field_list_calculation",
    "header_type",
    "meter",
    "parser_exception",
    "register",
];

/// Error for a program of P4_14, at its first declaration that is of that language; none if it has none.
pub fn recognise(tokens: &[Token]) -> Option<Diagnostic> {
    // The library of P4_16 declares some: what is wrong in a program that includes it is a mistake in P4_16.
    if tokens.iter().any(|token| token.is_word("match_kind")) {
        return None;
    }
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match &token.tok {
            Tok::Punct("{" | "(" | "[") => depth += 1,
            Tok::Punct("}" | ")" | "]") => depth = depth.saturating_sub(1),
            Tok::Ident(word) if depth == 0 && is_declaration(word, &tokens[at + 1..]) => {
                let message = "this is a program of P4_14, this compiler is for P4_16";
                let help = "translate it with p4c: `p4test --std p4-14 --pp OUT.p4 FILE`, \
                            or `p4c --std p4-14 --pp OUT.p4 FILE`";
                let error = Diagnostic::error("p4-14", token.span, message);
                let label = format!("P4_16 has no such `{word}`");
                return Some(error.label(label).help(help));
            }
            _ => {}
        }
    }
    None
}

/// Whether `word` and what follows it declare something of P4_14.
fn is_declaration(word: &str, rest: &[Token]) -> bool {
    let is_name = |at: usize| matches!(rest.get(at).map(|t| &t.tok), Some(Tok::Ident(_)));
    let is = |at: usize, punct: &str| rest.get(at).is_some_and(|t| t.is(punct));
    if !is_name(0) {
        return false;
    }
    match word {
        _ if WITH_BLOCK.contains(&word) => is(1, "{"),
        // A P4_16 program may have forgotten the parameters.
        "parser" => is(1, "{") && !has(block(&rest[1..]), "state", is_word),
        "control" => is(1, "{") && !has(block(&rest[1..]), "apply", |t| t.is("{")),
        "table" => {
            let opens = |property| has(block(&rest[1..]), property, |t| t.is("{"));
            is(1, "{") && (opens("reads") || opens("actions"))
        }
        "header" | "metadata" => is_name(1) && (is(2, ";") || is(2, "{") || is(2, "[")),
        "blackbox" | "extern" => is_name(1) && is(2, "{"),
        // Parameters have no types.
        "action" => is(1, "(") && is_name(2) && (is(3, ",") || is(3, ")")),
        "calculated_field" => is(1, "."),
        "primitive_action" => is(1, "("),
        "parser_value_set" => is(1, ";"),
        _ => false,
    }
}

/// The tokens up to the end of the block that begins with the first of them.
fn block(tokens: &[Token]) -> &[Token] {
    let mut depth = 0usize;
    let end = tokens.iter().position(|token| {
        match token {
            t if t.is("{") => depth += 1,
            t if t.is("}") => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Whether a block has the word with something behind it.
fn has(block: &[Token], word: &str, then: fn(&Token) -> bool) -> bool {
    let mut pairs = block.windows(2);
    pairs.any(|pair| pair[0].is_word(word) && then(&pair[1]))
}

fn is_word(token: &Token) -> bool {
    matches!(token.tok, Tok::Ident(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Diagnostics;
    use crate::preprocess::{Options, preprocess};
    use crate::source::SourceMap;

    fn is_recognised(text: &str) -> bool {
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let file = sources.add("t.p4", text);
        let program = preprocess(file, &mut sources, &Options::default(), &diagnostics);
        recognise(&program.tokens).is_some()
    }

    #[test]
    fn declarations_of_p4_14_are_known() {
        for text in [
            "header_type h_t { fields { a : 8; } }",
            "header h_t h;",
            "header h_t h[4];",
            "metadata m_t m;",
            "metadata m_t m { a : 1; }",
            "parser start { extract(h); return ingress; }",
            "parser start { return select(current(0, 8)) { 1 : next; default : ingress; } }",
            "control ingress { apply(t); }",
            "control ingress { if (valid(h)) { apply(t) { hit { apply(u); } } } }",
            "control egress { }",
            "table t { reads { h.a : exact; } actions { a; } }",
            "table t { actions { a; } }",
            "action a(x, y) { modify_field(h.a, x); }",
            "action a(x) { drop(); }",
            "field_list l { h.a; }",
            "field_list_calculation c { input { l; } algorithm : crc16; output_width : 16; }",
            "calculated_field h.a { update c; }",
            "primitive_action f(a, b);",
            "parser_value_set v;",
            "parser_exception p4_pe_default { parser_drop; }",
            "counter c { type : packets; instance_count : 4; }",
            "register r { width : 8; instance_count : 4; }",
            "action_profile p { actions { a; } size : 4; }",
            "blackbox_type b { }",
            "action nop() { }\n#define N 1\ncontrol ingress { apply(t); }",
        ] {
            assert!(is_recognised(text), "{text}");
        }
    }

    #[test]
    fn programs_of_p4_16_are_not() {
        for text in [
            "#include <core.p4>\n#include <v1model.p4>",
            "#include <core.p4>\naction a(x, y) { }\ncontrol ingress { a(1, 2); }",
            "header h_t { bit<8> a; } struct metadata { bit<8> m; }",
            "parser P(packet_in p) { state start { transition accept; } }",
            "parser P { state start { transition accept; } }",
            "control C { apply { } }",
            "control C(inout h_t h) { table t { key = { h.a : exact; } actions = { a; } } apply { } }",
            "action a(bit<8> x) { } action b(t x, in t y) { } action nop() { }",
            "extern counter { counter(bit<32> size); } extern register<T> { }",
            "typedef bit<8> metadata; const metadata m = 1; header g<T> { T a; }",
            "V1Switch(P(), V(), I(), E(), C(), D()) main;",
        ] {
            assert!(!is_recognised(text), "{text}");
        }
    }
}
