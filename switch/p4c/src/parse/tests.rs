use crate::ast::{BinaryOp, DeclarationKind, ExprKind, Program};
use crate::diagnostics::Diagnostics;
use crate::lex::lex;
use crate::parse::parse;

fn program(text: &str) -> (Program, Vec<String>) {
    let diagnostics = Diagnostics::default();
    let program = parse(&lex(0, text), &diagnostics);
    let messages = diagnostics.list().into_iter().map(|d| d.message).collect();
    (program, messages)
}

fn constant(text: &str) -> ExprKind {
    let (program, errors) = program(&format!("typedef bit<8> T; const int X = {text};"));
    assert!(errors.is_empty(), "{errors:?}");
    match program.declarations.into_iter().nth(1).map(|d| d.kind) {
        Some(DeclarationKind::Const { value, .. }) => value.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn casts_and_parentheses_are_told_apart() {
    assert!(matches!(constant("(T) x"), ExprKind::Cast(..)));
    assert!(matches!(constant("(bit<8>) -1"), ExprKind::Cast(..)));
    assert!(matches!(
        constant("(a) - 1"),
        ExprKind::Binary(BinaryOp::Sub, ..)
    ));
    assert!(matches!(constant("(T.A)"), ExprKind::Member(..)));
}

#[test]
fn angles_are_types_or_comparisons() {
    assert!(
        matches!(constant("f<bit<8>>(1)"), ExprKind::Call { type_args, .. } if type_args.len() == 1)
    );
    assert!(matches!(
        constant("a < b"),
        ExprKind::Binary(BinaryOp::Lt, ..)
    ));
    assert!(matches!(
        constant("a >> b"),
        ExprKind::Binary(BinaryOp::Shr, ..)
    ));
}

#[test]
fn precedence_follows_the_specification() {
    // `&` binds tighter than `==` in P4, unlike in C.
    assert!(matches!(
        constant("a & b == c"),
        ExprKind::Binary(BinaryOp::Eq, ..)
    ));
    assert!(matches!(
        constant("a + b * c"),
        ExprKind::Binary(BinaryOp::Add, ..)
    ));
    assert!(matches!(
        constant("a ? b : c || d"),
        ExprKind::Conditional(..)
    ));
}

#[test]
fn several_errors_in_one_run() {
    let (program, errors) = program(
        "header h { bit<8> a }\nstruct ok { bit<8> b; }\ncontrol c() { apply { x = ; y = 1; z 5; } }",
    );
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(program.declarations.len(), 3);
}

#[test]
fn an_error_inside_of_braces_ends_with_them() {
    let (program, errors) = program(
        "control c() { table t { key = { a: exact, } actions = { b; } } apply { switch (x) { case 1: {} } y = ; } }
         struct open { bit<8> a;
         struct ok { bit<8> b; }",
    );
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert_eq!(program.declarations.len(), 3);
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let (_, errors) = program(&format!("const int X = {}1;", "(".repeat(10_000)));
    assert!(errors[0].contains("nested"), "{errors:?}");
}

#[test]
fn else_ifs_are_no_nesting() {
    let chain = |n| {
        let else_ifs = "else if (x) {} ".repeat(n);
        program(&format!(
            "control c() {{ apply {{ if (x) {{}} {else_ifs}}} }}"
        ))
        .1
    };
    assert_eq!(chain(1000), [""; 0]);
    assert_eq!(chain(5000), ["this `if` has more than 1000 `else if`"]);
}
