//! Output of the preprocessor for small texts. Far more of them are compared with cpp (`tests/cpp`).

use ebb_testkit::Folder;

use super::*;

struct Result {
    text: String,
    codes: Vec<&'static str>,
}

fn run_with(text: &str, options: &Options) -> Result {
    let mut sources = SourceMap::default();
    let file = sources.add("t.p4", text);
    let diagnostics = Diagnostics::default();
    let program = preprocess(file, &mut sources, options, &diagnostics);
    let words: Vec<&str> = program.text.split_whitespace().collect();
    Result {
        text: words.join(" "),
        codes: diagnostics.list().iter().map(|d| d.code).collect(),
    }
}

/// The text on one line, of a program without mistakes.
#[track_caller]
fn run(text: &str) -> String {
    let Result { text, codes } = run_with(text, &Options::default());
    assert_eq!(codes, [""; 0], "{text}");
    text
}

fn codes(text: &str) -> Vec<&'static str> {
    run_with(text, &Options::default()).codes
}

#[test]
fn what_doubles_at_every_level_ends_with_one_error() {
    let chain = |line: fn(u32) -> String| (1..=40).map(line).collect::<String>();
    let bodies = chain(|n| format!("#define M{n} M{} M{}\n", n - 1, n - 1));
    let arguments = chain(|n| format!("#define M{n}(x) M{}(x x)\n", n - 1));
    let pasted = chain(|n| format!("#define M{n}(x) M{}(x##x)\n", n - 1));
    let spelled = chain(|n| format!("#define M{n}(x) M{}(#x)\n", n - 1));
    let optional = chain(|n| {
        format!(
            "#define M{n}(...) M{}(__VA_OPT__(__VA_ARGS__, __VA_ARGS__))\n",
            n - 1
        )
    });
    for program in [
        format!("#define M0 a\n{bodies}M40"),
        format!("#define M0\n{bodies}M40"),
        format!("#define M0(x) x\n{arguments}M40(a)"),
        format!("#define M0(x)\n{arguments}M40(a)"),
        format!("#define M0(x) x\n{pasted}M40(a)"),
        format!("#define M0(x) x\n{spelled}M40(\"\")"),
        format!("#define M0(...) a\n{optional}M40(a)"),
    ] {
        assert_eq!(codes(&program), ["too-large"], "{program}");
    }
}

#[test]
fn arguments_within_arguments_have_an_end() {
    let nested = |levels| {
        format!(
            "#define I(x) x\n{}a{}",
            "I(".repeat(levels),
            ")".repeat(levels)
        )
    };
    assert_eq!(run(&nested(200)), "a");
    assert_eq!(codes(&nested(3000)), ["too-large"]);
    let chain: String = (1..3000)
        .map(|n| format!("#define M{n} I(M{})\n", n - 1))
        .collect();
    assert_eq!(
        codes(&format!("#define I(x) x\n{chain}M2999")),
        ["too-deep"]
    );
}

#[test]
fn files_that_are_included_again_are_paid_for() {
    let folder = Folder::new("preprocess");
    let include = "#include \"large.p4\"\n";
    folder.write("large.p4", format!("{}\n", "// ".repeat(1 << 20)));
    let options = Options {
        include_dirs: vec![folder.to_path_buf()],
        ..Options::default()
    };
    assert_eq!(run_with(include, &options).codes, [""; 0]);
    assert_eq!(
        run_with(&include.repeat(100), &options).codes,
        ["too-large"]
    );
}

#[test]
fn function_macros_nest_and_do_not_recurse() {
    let text = "#define ADD(a, b) a + b\n#define X ADD(1, X)\nX ADD(ADD(2,3),\n4)";
    assert_eq!(run(text), "1 + X 2 + 3 + 4");
}

#[test]
fn what_follows_a_macro_may_be_its_arguments() {
    let text = "#define F(x) [x]\n#define G F\nG (1) F\n(2) F F (F)(3) F;";
    assert_eq!(run(text), "[1] [2] F [F](3) F;");
    // The standard leaves open whether the last `g` is replaced; cpp does not.
    assert_eq!(run("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)"), "2*9*g");
    // The example of the standard, 6.10.3.5.
    let example = "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n\
                   #define h g(~\n#define m(a) a(w)\n#define w 0,1\n#define t(a) a\n#define p() int\n\
                   #define q(x) x\n#define r(x,y) x ## y\n#define str(x) # x\n\
                   f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\n\
                   g(x+(3,4)-w) | h 5) & m\n(f)^m(m);\n\
                   p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };";
    let expected = "f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1); \
                    f(2 * (2 +(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1); \
                    int i[] = { 1, 23, 4, 5, };";
    assert_eq!(run(example), expected);
}

#[test]
fn spellings_are_joined() {
    let join = "#define J(a, b) a##b\n";
    for (pair, joined) in [
        ("x, y", "xy"),
        ("0x, 10", "0x10"),
        ("8w, 1", "8w1"),
        ("slot_, 00", "slot_00"),
        ("slot_, 0x1F", "slot_0x1F"),
        ("n_, 1_000", "n_1_000"),
        ("<, <", "<<"),
        (", x", "x"),
        ("x, ", "x"),
        (", ", ""),
        // Two tokens that make none stay two.
        ("+,-", "+-"),
        ("a,+", "a+"),
        ("..,.", ". . ."),
        ("/, /", "/ /"),
    ] {
        assert_eq!(run(&format!("{join}J({pair})")), joined, "{pair}");
    }
    assert_eq!(run("#define A 1 ## 2 ## 3\nA"), "123");
    assert_eq!(codes("#define A ## a"), ["bad-directive"]);
    assert_eq!(codes("#define A a ##"), ["bad-directive"]);
}

#[test]
fn spellings_become_strings() {
    let text = r##"#define S(x) #x
#define T(x) S(x)
#define N 0x0A
S( a  /* b */ c ) S("\n" '"') S(N) T(N) S() S(\) S(1,"##;
    assert_eq!(codes(text), ["macro-arguments"]);
    let text = text.trim_end_matches(" S(1,");
    assert_eq!(run(text), r##""a c" "\"\\n\" '\"'" "N" "0x0A" "" """##);
    // `#` without a parameter behind it is an ordinary sign, as in assembler.
    assert_eq!(
        run("#define F(x) #y # x\n#define O #x\nF(1) O"),
        "#y \"1\" #x"
    );
}

#[test]
fn the_last_parameter_may_take_all_the_rest() {
    let text = "#define F(a, ...) a: __VA_ARGS__\n#define G(b...) [b]\n\
                F(1, 2, (3, 4)) F(5) G() G(6, 7)";
    assert_eq!(run(text), "1: 2, (3, 4) 5: [] [6, 7]");
    let text = "#define F(a, ...) f(a, ##__VA_ARGS__)\n#define G(a, ...) g(a __VA_OPT__(,) __VA_ARGS__)\n\
                F(1) F(1,) F(1, 2) G(1) G(1,) G(1, 2)";
    assert_eq!(run(text), "f(1) f(1,) f(1, 2) g(1 ) g(1 ) g(1 , 2)");
    let text = "#define F(x, ...) a ## __VA_OPT__(b x ## x) ## c #__VA_OPT__(x)\nF(1) F(1, 2)";
    assert_eq!(run(text), "ac \"\" ab 11c \"1\"");
    assert_eq!(
        run("#define F(x, ...) a##__VA_OPT__(b##x c)\nF(+, 1)"),
        "ab+ c"
    );
    let text = "#define F(x, ...) __VA_OPT__(x) -\nF(__COUNTER__) F(__COUNTER__, 1)";
    assert_eq!(run(text), "- 1 -");
    assert_eq!(codes("#define F(...) __VA_OPT__(a"), ["bad-directive"]);
    assert_eq!(codes("#define F(..., a) a"), ["bad-directive"]);
}

/// Tokens that `##` beside `__VA_OPT__` joins if an argument at the edge of it has no tokens: each row is what stands
/// behind `y`, and what cpp 12.2 makes of it.
#[test]
fn an_argument_without_tokens_at_the_edge_of_va_opt_leaves_nothing_to_join() {
    for (body, x, expected) in [
        ("##__VA_OPT__(x yx)", "", "q yx"),
        ("##__VA_OPT__(x yx)", "a", "qa yx"),
        ("##__VA_OPT__(x yx)", "E", "q yx"),
        ("##__VA_OPT__(x yx)", "E p", "qp yx"),
        ("##__VA_OPT__(E yx)", "", "qE yx"),
        ("##__VA_OPT__(x)##y", "", "qq"),
        ("##__VA_OPT__(x x x)##y", "", "q q"),
        ("##__VA_OPT__(x x a)##y", "", "q aq"),
        ("##__VA_OPT__(a x)##y", "E", "qa q"),
        ("##__VA_OPT__(x##x a)##y", "", "q aq"),
        ("##__VA_OPT__(x## a)##y", "", "qaq"),
        ("##__VA_OPT__(x##b##+ c)", "a", "qab+ c"),
    ] {
        let text = format!("#define E\n#define F(x, y, ...) y{body}\nF({x}, q, 1)");
        assert_eq!(run(&text), expected, "{body} with x = `{x}`");
    }
}

/// The grammar of `#if`: each row with its value.
#[test]
fn conditions_are_those_of_c() {
    let rows = [
        ("1 ? 2 : 0", true),
        ("0 ? 1 : 0 ? 1 : 0", false),
        ("1, 0", false),
        ("0 || 0 && 1 | 6 ^ 6 & 4", false),
        ("1 | 6 ^ 6 & 4", true),
        ("1 == 1 != 0", true),
        ("2 <= 2 && 2 >= 2 && 1 < 2 && 2 > 1", true),
        (
            "1 << 3 == 8 && -8 >> 1 == -4 && 1 << 64 == 0 && 1 >> -2 == 4",
            true,
        ),
        ("7 + 2 * 3 - 4 / 3 % 2 == 12", true),
        ("-7 / 2 == -3 && -7 % 2 == -1", true),
        ("!0 && ~0 == -1 && +1 && - - 1 == 1", true),
        ("-1 > 0u && (0 ? 0u : -1) > 0", true),
        (
            "-1 < 0 && 0x8000000000000000 > 0 && 18446744073709551615 == -1",
            true,
        ),
        ("(-9223372036854775807 - 1) / -1 < 0", true),
        ("0x10u == 16UL && 010 == 8 && 0b11 == 3ll && 1ULL", true),
        (
            "'B' - 'A' == 1 && '\\n' == 10 && '\\101' == 'A' && '\\x41' == 'A' && '\\'' == 39",
            true,
        ),
        (
            "'\\377' < 0 && 'ab' == 24930 && L'a' == 97 && 'é' == 50089",
            true,
        ),
        (
            "defined A && defined(A) && !defined B && !defined ( B )",
            true,
        ),
        ("DEFINED_A", true),
        ("unknown || true || F", false),
        ("F(3) == 3", true),
        ("(2 || 1 / 0) && (1 ? 2 : 1 / 0) && !(0 && 1 % 0)", true),
        (
            "defined(__has_include) && __has_include(<v1model.p4>)",
            true,
        ),
        (
            "__has_include(\"nowhere.p4\") || __has_include(<nowhere.p4>)",
            false,
        ),
        ("__has_include(LIBRARY) && __has_include(ANGLES)", true),
        ("1 // comment", true),
        ("1 /* comment\n */ && 0", false),
        ("1 \\\n && 0", false),
    ];
    let defines = "#define A 0\n#define DEFINED_A defined A\n#define F(x) x\n\
                   #define LIBRARY \"core.p4\"\n#define ANGLES <core.p4>\n";
    for (condition, value) in rows {
        let text = format!("{defines}#if {condition}\nyes\n#else\nno\n#endif");
        assert_eq!(run(&text), if value { "yes" } else { "no" }, "{condition}");
    }
}

#[test]
fn what_is_no_condition_is_named() {
    for condition in [
        "",
        "1 +",
        "(1",
        "1)",
        "1 2",
        "1 / 0",
        "1 % (2 - 2)",
        "defined",
        "defined(A",
        "1_000",
        "1.0",
        "\"a\"",
        "''",
        "08",
        "0x",
        "1 = 1",
        "1 ? 2",
        "1 ?: 2",
        "@",
        "++1",
        "1lL",
        "1z",
        "0 && \"x\"",
        "!",
        "()",
        "'a",
        "8w1",
        "__has_include",
        "__has_include(1)",
    ] {
        assert_eq!(
            codes(&format!("#if {condition}\n#endif")),
            ["bad-condition"],
            "{condition}"
        );
    }
    let deep = format!("#if {}1{}\n#endif", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(codes(&deep), ["bad-condition"]);
}

#[test]
fn conditionals_choose_one_branch() {
    let text = "#define V 3\n#if V < 3 || !defined(V)\na\n#elif (V & 2) == 2 && defined V\nb\n#elif 1 / 0\n\
                #else\nc\n#endif\n#ifdef W\nd\n#elifdef V\ne\n#endif\n#ifndef V\n#elifndef W\nf\n#endif";
    assert_eq!(run(text), "b e f");
}

#[test]
fn skipped_text_may_be_anything() {
    let text = "#if 0\n#error don't\n'x' /* ' \"\n#else\n*/ #foo\n#if )\n#elif\n#else\n#endif\n#define X 1\n#endif\nX";
    assert_eq!(run(text), "X");
    // A quote hides what opens a comment, up to the end of its line.
    assert_eq!(run("#if 0\ndon't /*\n#endif\nx"), "x");
}

#[test]
fn mistakes_are_named() {
    for (text, code) in [
        ("#if 1\nx", "unterminated-conditional"),
        ("#endif", "unmatched-conditional"),
        ("#if 1\n#else\n#else\n#endif", "unmatched-conditional"),
        (
            "#if 0\n#if 1\n#else\n#elif 1\n#endif\n#endif",
            "unmatched-conditional",
        ),
        ("#include <nope.p4>", "include-not-found"),
        ("#include", "bad-directive"),
        ("#include <a", "bad-directive"),
        ("#include \"a", "bad-directive"),
        ("#define F(a) a\nF(1,2)", "macro-arguments"),
        ("#define F(a, b) a\nF(1)", "macro-arguments"),
        ("#define F() a\nF(1)", "macro-arguments"),
        ("#define F(a) a\nF(1", "macro-arguments"),
        ("#error stop here", "error-directive"),
        ("#warning look", "warning-directive"),
        ("#define", "bad-directive"),
        ("#define 1", "bad-directive"),
        ("#define defined", "bad-directive"),
        ("#define F(a", "bad-directive"),
        ("#define F(a, a) a", "bad-directive"),
        ("#define F(1) a", "bad-directive"),
        ("#undef", "bad-directive"),
        ("#ifdef\n#endif", "bad-directive"),
        ("#ifndef 1\n#endif", "bad-directive"),
        ("#line x", "bad-directive"),
        ("__has_include(<core.p4>)", "bad-directive"),
        ("#define A /* x", "unterminated-comment"),
        ("#define A 1\n#define A 2", "macro-redefined"),
        ("#define A(x) x\n#define A(y) y", "macro-redefined"),
        ("#includ <core.p4>", "unknown-directive"),
    ] {
        assert_eq!(codes(text), [code], "{text}");
    }
    assert_eq!(
        run("#define A(x)  x /* 1 */ + 1\n#define A(x) x  + 1\n#undef B\nA(1)"),
        "1 + 1"
    );
}

#[test]
fn lines_that_are_no_directives_are_passed_over() {
    let text = "# it's \"odd, isn't it\na\n#\n  #! b (\n# 1 \"file\"\n#pragma c\n#ident \"d\"\n_Pragma(\"e\") f";
    let Result { text, codes } = run_with(text, &Options::default());
    assert_eq!(text, "a f");
    assert_eq!(codes, ["unknown-directive"; 2]);
}

#[test]
fn lines_are_spliced_everywhere() {
    let text = "#def\\\nine A\\\nB 1\\\n2\nAB \"a\\\nb\" /\\\n/ c \\\nd\n/\\  \n* e *\\\n/ A\\\nB";
    assert_eq!(run(text), "12 \"ab\" 12");
}

#[test]
fn comments_are_blanks() {
    assert_eq!(run("a/**/b /*/ c */ d/*//*/e // f /*\ng"), "a b d e g");
    assert_eq!(
        run("#define F(x) [x] // c\nF/**/(/*a*/1/*\n*/) /* d */"),
        "[1]"
    );
    assert_eq!(
        run("/* c */ # /* d */ define /* e */ X /* f\n g */ 1 /* h */\nX"),
        "1"
    );
}

#[test]
fn strings_hide_what_is_in_them() {
    let text = "#define X 1\n\"X // /* \\\" X\" 'X' X \"\\\\\" X";
    assert_eq!(run(text), "\"X // /* \\\" X\" 'X' 1 \"\\\\\" 1");
    assert_eq!(
        run("\"X\n#define X 1\n// X\" X"),
        "\"X #define X 1 // X\" X"
    );
}

#[test]
fn directives_stand_within_arguments() {
    let text = "#define F(x) [x]\nF(a\n#define B 1\nB\n#ifdef B\n#undef F\nc\n#endif\n) F(2)";
    assert_eq!(run(text), "[a 1 c] F(2)");
    let text = "#define F(x) [x]\n#define N 1\nF(\n#if !N\na\n#elif N\nb\n#endif\n)";
    assert_eq!(run(text), "[b]");
}

#[test]
fn places_have_names_and_numbers() {
    let text = "#define HERE __FILE__ __LINE__\n#define F(x) x __LINE__\nHERE\nF(\n__LINE__ HERE F(\n__LINE__))\n\
                #line 70 \"other.p4\"\nHERE\n__COUNTER__ __COUNTER__ __INCLUDE_LEVEL__ __BASE_FILE__";
    assert_eq!(
        run(text),
        "\"t.p4\" 3 5 \"t.p4\" 5 6 5 4 \"other.p4\" 70 0 1 0 \"t.p4\""
    );
}

#[test]
fn macros_are_put_aside_and_come_back() {
    let text = "#define A 1\n#pragma push_macro(\"A\")\n#undef A\n#pragma push_macro(\"A\")\n#define A 2\nA\n\
                #pragma pop_macro(\"A\")\nA\n#pragma pop_macro(\"A\")\n#pragma pop_macro(\"A\")\nA";
    assert_eq!(run(text), "2 A 1");
}

#[test]
fn files_are_included_by_macros_once_and_in_turn() {
    let folder = Folder::new("preprocess");
    folder.make_dir("one");
    folder.make_dir("two");
    folder.write(
        "one/a.p4",
        "#pragma once\nfirst __INCLUDE_LEVEL__\n#include_next <a.p4>\n",
    );
    folder.write("two/a.p4", "second\n");
    folder.write("two/f(x).p4", "#define TAIL F\nodd TAIL\n");
    let options = Options {
        include_dirs: vec![folder.join("one"), folder.join("two")],
        ..Options::default()
    };
    let text = "#define F(x) [x]\n#define NAME <a.p4>\n#define PATH \"f(x).p4\"\n\
                #include NAME\n#include <a.p4>\n#include PATH\n(1)\n#import <f(x).p4>\nend";
    let Result { text, codes } = run_with(text, &options);
    assert_eq!(codes, [""; 0]);
    assert_eq!(text, "first 1 second odd F (1) end");
}

#[test]
fn the_command_line_defines_macros() {
    let define = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = Options {
        defines: vec![
            define("A", "1 + 1"),
            define("F(x, ...)", "x:__VA_ARGS__"),
            define("E", ""),
        ],
        undefines: vec!["__STDC__".into()],
        ..Options::default()
    };
    let text = "A F(1, 2, 3) [E] __TARGET_BMV2__ __STDC__";
    let Result { text, codes } = run_with(text, &options);
    assert_eq!(text, "1 + 1 1:2, 3 [] 1 __STDC__");
    assert_eq!(codes, [""; 0]);
    let wrong = Options {
        defines: vec![define("1", "1")],
        ..Options::default()
    };
    assert_eq!(run_with("", &wrong).codes, ["bad-directive"]);
}

/// The place of each token: what its span covers.
fn places(text: &str) -> Vec<String> {
    let mut sources = SourceMap::default();
    let file = sources.add("t.p4", text);
    let program = preprocess(
        file,
        &mut sources,
        &Options::default(),
        &Diagnostics::default(),
    );
    let place = |token: &lex::Token| {
        let (_, line, column) = sources.position(token.span);
        format!("{line}:{column} {}", sources.text(token.span))
    };
    program.tokens.iter().map(place).collect()
}

#[test]
fn tokens_point_to_what_the_user_wrote() {
    let text =
        "#define N 1 + 2\n\n  N; /* c\n */ a\\\nb F(x) >N>\n#define F(x) x\nF(y) 0..7 |/**/+| |+|";
    let expected = [
        "3:3 N",
        "3:3 N",
        "3:3 N",
        "3:4 ;",
        "4:5 a\\\nb",
        "5:3 F",
        "5:4 (",
        "5:5 x",
        "5:6 )",
        "5:8 >",
        "5:9 N",
        "5:9 N",
        "5:9 N",
        "5:10 >",
        "7:1 F",
        "7:6 0",
        "7:7 ..",
        "7:9 7",
        "7:11 |",
        "7:16 +",
        "7:17 |",
        "7:19 |+|",
        "7:22 ",
    ];
    assert_eq!(places(text), expected);
}

#[test]
fn what_macros_bring_is_not_joined_by_accident() {
    let text = "#define GT >\n#define P +\n#define E\n#define ID(x) x\n\
                GT> >GT P+ -P |P| ID(a)b ID(a)1 ID(1)a E- -E- ID(-)ID(-) ID(.)5 ID(:)c";
    assert_eq!(run(text), "> > > > + + -+ |+| a b a 1 1 a - - - - - . 5 :c");
}
