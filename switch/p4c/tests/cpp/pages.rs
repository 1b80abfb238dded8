//! Pages of macros, directives, conditions and odd lexical forms, made from a seed.

/// Files that pages include.
pub const INCLUDED: &[(&str, &str)] = &[
    ("one.h", "in one __INCLUDE_LEVEL__ __LINE__ O0\n"),
    ("once.h", "#pragma once\nin once\n"),
    (
        "guarded.h",
        "#ifndef GUARD\n#define GUARD\n#include \"one.h\"\nin guarded F0\n#endif\n",
    ),
];

pub struct Page {
    pub text: String,
    /// Whether there are comments where `cpp -C` has other tokens for them: before `#`, and in the use of a macro.
    pub has_comments: bool,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Names of macros without parameters, and of those with them.
const OBJECTS: [&str; 6] = ["O0", "O1", "O2", "O3", "O4", "O5"];
const FUNCTIONS: [&str; 6] = ["F0", "F1", "F2", "F3", "F4", "F5"];
const PARAMS: [&str; 3] = ["x", "y", "z"];
const PLAIN: &[&str] = &[
    "a",
    "b",
    "L",
    "u8",
    "_",
    "x",
    "0",
    "1",
    "0x1F",
    "8w0xFF",
    "4s1",
    "0..7",
    "0..O1",
    "1_000",
    ".5",
    "1e+O0",
    "00",
    "1.a",
    "\"s\"",
    "\"\"",
    "\"a\\n\"",
    "\"q\\\"q\"",
    "\"//\"",
    "\"/*\"",
    "\"O0\"",
    "'c'",
    "'\\''",
    "L\"w\"",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<",
    ">",
    "<<",
    ">>",
    "<=",
    "==",
    "!=",
    "&",
    "&&",
    "|",
    "||",
    "^",
    "!",
    "~",
    "=",
    ".",
    "..",
    "...",
    ";",
    ":",
    "::",
    "?",
    "->",
    "++",
    "--",
    "+=",
    "|+|",
    "&&&",
    "@",
    "$",
    "`",
    "é",
    "[",
    "]",
    "{",
    "}",
    "{#}",
];
/// Errors behind a `#`, or where nothing is read.
const GARBAGE: &[&str] = &[
    "don't", "\"odd", "'", "(", ")", "##", "#", "@", "\\", "O1", "a", "1 / 0", "é", "*/",
];

/// How a function-like macro is called.
#[derive(Clone, Copy)]
struct Function {
    params: u64,
    variadic: bool,
}

struct Maker {
    random: Random,
    has_comments: bool,
    functions: [Option<Function>; 6],
    out: String,
}

pub fn page(seed: u64) -> Page {
    let mut random = Random(seed);
    let has_comments = random.one_in(2);
    let mut maker = Maker {
        random,
        has_comments,
        functions: [None; 6],
        out: String::new(),
    };
    let lines = 4 + maker.random.below(20);
    for _ in 0..lines {
        maker.line(0);
    }
    // The last line has no end, now and then.
    if maker.random.one_in(4) {
        maker.out.pop();
    }
    Page {
        text: maker.out,
        has_comments,
    }
}

impl Maker {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// White space or a comment between two tokens.
    fn gap(&mut self) {
        let text = match self.random.below(24) {
            0..=7 => "",
            8 => "  ",
            9 => "\t",
            10 => "\\\n",
            11 => " \\ \n ",
            12 if self.has_comments => "/**/",
            13 if self.has_comments => "/*/ O0 \" */",
            14 if self.has_comments => " /* F0(\n */",
            _ => " ",
        };
        self.put(text);
    }

    fn line(&mut self, depth: u64) {
        match self.random.below(20) {
            0..=2 => self.define_object(),
            3..=6 => self.define_function(),
            7 if depth < 3 => self.conditional(depth),
            8 if depth < 3 => self.conditional(depth),
            9 => self.small_directive(),
            10 if depth < 2 => self.skipped(depth),
            _ => self.text_line(),
        }
    }

    fn directive(&mut self, name: &str) {
        let before = match self.has_comments {
            true => self.random.of(&["", "", " ", "/* c */", "\t"]),
            false => self.random.of(&["", "", " "]),
        };
        self.put(before);
        self.put("#");
        let between = self.random.of(&["", "", " ", "\\\n"]);
        self.put(between);
        self.put(name);
    }

    fn end_line(&mut self) {
        let end = match self.random.below(12) {
            0 if self.has_comments => " // c \\\n O0",
            1 if self.has_comments => " /* c\n */",
            2 => " ",
            _ => "",
        };
        self.put(end);
        self.put("\n");
    }

    fn small_directive(&mut self) {
        match self.random.below(14) {
            0 => {
                let name = self.random.of(&OBJECTS);
                self.directive("undef ");
                self.put(name);
            }
            1 => {
                let at = self.random.below(6) as usize;
                self.directive("undef ");
                self.put(FUNCTIONS[at]);
                self.functions[at] = None;
            }
            2 => self.directive("line 70"),
            3 => self.directive("line 7 \"other.p4\""),
            4 => {
                let file = self
                    .random
                    .of(&["\"one.h\"", "<one.h>", "\"once.h\"", "\"guarded.h\""]);
                self.directive("include ");
                self.put(file);
            }
            5 => {
                self.put("#define INC <one.h>\n#include INC\n#undef INC");
            }
            6 => self.directive("pragma O0 \"x\""),
            7 => self.directive(""),
            8 => {
                let name = self.random.of(&OBJECTS);
                let text = format!(
                    "#pragma push_macro(\"{name}\")\n#undef {name}\n#define {name} other\n{name}\n\
                                    #pragma pop_macro(\"{name}\")"
                );
                self.put(&text);
            }
            9 | 10 => {
                self.put("# ");
                for _ in 0..self.random.below(4) {
                    let word = self
                        .random
                        .of(&["don't", "\"odd", "a", "@", "\\", "é", "O9"]);
                    self.put(word);
                    self.put(" ");
                }
            }
            11 => self.directive("ident \"x\""),
            12 if self.random.one_in(6) => self.directive("error don't"),
            _ => self.put("__LINE__ __COUNTER__ __FILE__ __INCLUDE_LEVEL__ __STDC__;"),
        }
        self.put("\n");
    }

    fn plain(&mut self) -> &'static str {
        self.random.of(PLAIN)
    }

    fn define_object(&mut self) {
        let name = self.random.of(&OBJECTS);
        self.put("#undef ");
        self.put(name);
        self.put("\n");
        self.directive("define ");
        self.put(name);
        self.put(" ");
        let length = self.random.below(6);
        for at in 0..length {
            if at > 0 {
                self.gap();
                if self.random.one_in(6) {
                    self.put("##");
                    self.gap();
                }
            }
            self.word();
        }
        self.end_line();
    }

    /// A token of a body or of the text, that may be the name of a macro.
    fn word(&mut self) {
        let word = match self.random.below(8) {
            0 | 1 => self.random.of(&OBJECTS),
            2 => self.random.of(&FUNCTIONS),
            3 => self.random.of(&["(", ")", ",", "__LINE__", "__FILE__"]),
            _ => self.plain(),
        };
        self.put(word);
    }

    fn define_function(&mut self) {
        let at = self.random.below(6) as usize;
        let params = self.random.below(4);
        let variadic = self.random.one_in(3);
        self.functions[at] = Some(Function { params, variadic });
        let undefine = format!("#undef {}\n", FUNCTIONS[at]);
        self.put(&undefine);
        self.directive("define ");
        self.put(FUNCTIONS[at]);
        self.put("(");
        let mut names: Vec<&str> = PARAMS[..params as usize].to_vec();
        let gnu = variadic && self.random.one_in(3);
        let mut list = names.join(", ");
        if variadic {
            names.push(if gnu { "rest" } else { "__VA_ARGS__" });
            list += if list.is_empty() { "" } else { "," };
            list += if gnu { "rest..." } else { "..." };
        }
        self.put(&list);
        self.put(")");
        let space = self.random.of(&["", " "]);
        self.put(space);
        self.body(&names, variadic, 0);
        self.end_line();
    }

    fn body(&mut self, names: &[&str], variadic: bool, depth: u64) {
        let length = self.random.below(8);
        for at in 0..length {
            if at > 0 {
                self.gap();
                if self.random.one_in(5) {
                    self.put("##");
                    self.gap();
                }
            }
            match self.random.below(10) {
                0..=3 if !names.is_empty() => {
                    let name = self.random.of(names);
                    self.put(name);
                }
                4 if !names.is_empty() => {
                    let name = self.random.of(names);
                    self.put("#");
                    let gap = self.random.of(&["", " "]);
                    self.put(gap);
                    self.put(name);
                    self.put(" ");
                }
                5 if variadic && depth == 0 => {
                    let open = self
                        .random
                        .of(&["__VA_OPT__(", "#__VA_OPT__(", "__VA_OPT__ ("]);
                    self.put(open);
                    self.body(names, variadic, 1);
                    self.put(")");
                }
                6 if variadic => {
                    self.put(", ## ");
                    let last = names[names.len() - 1];
                    self.put(last);
                }
                7 => self.call(depth + 1),
                8 if depth == 0 => self.word(),
                _ => {
                    let plain = self.plain();
                    self.put(plain);
                }
            }
        }
    }

    fn text_line(&mut self) {
        for _ in 0..1 + self.random.below(8) {
            match self.random.below(4) {
                0 | 1 => self.call(0),
                2 => {
                    let word = match self.random.one_in(2) {
                        true => self.random.of(&OBJECTS),
                        false => self.plain(),
                    };
                    self.put(word);
                }
                _ => self.word(),
            }
            self.gap();
        }
        // A line that ends so is not continued by arguments on the next one.
        let end = self.random.of(&[";", ";", ";", ""]);
        self.put(end);
        self.end_line();
        if !self.has_comments && end == ";" && self.random.one_in(6) {
            self.put("/*/ O0 // ' */ ; // F0( \"\n");
        }
    }

    /// The use of a macro with arguments, usually as many as it has parameters.
    fn call(&mut self, depth: u64) {
        let at = self.random.below(6) as usize;
        self.put(FUNCTIONS[at]);
        let Some(function) = self.functions[at] else {
            return;
        };
        let space = self.random.of(&["", "", "", " ", "\\\n"]);
        self.put(space);
        let mut count = function.params;
        if function.variadic {
            count += self.random.below(3);
        } else if self.random.one_in(100) {
            count += 1;
        }
        self.put("(");
        for argument in 0..count {
            if argument > 0 {
                self.put(",");
            }
            for _ in 0..self.random.below(4) {
                match self.random.below(8) {
                    0 if depth < 3 => self.call(depth + 1),
                    1 => {
                        self.put("(a, ");
                        let object = self.random.of(&OBJECTS);
                        self.put(object);
                        self.put(")");
                    }
                    2 => {
                        let object = self.random.of(&OBJECTS);
                        self.put(object);
                    }
                    3 if depth == 0 && self.random.one_in(4) => {
                        let end = self.random.of(&[
                            "\n",
                            "\n  ",
                            "\n#define O5 within\nO5 \n",
                            "\n#if 0\na\n#elif __LINE__\nb\n#endif\n",
                        ]);
                        self.put(end);
                    }
                    _ => {
                        let plain = self.plain();
                        self.put(plain);
                    }
                }
                self.gap();
            }
        }
        self.put(")");
    }

    fn conditional(&mut self, depth: u64) {
        let name = self.random.of(&OBJECTS);
        match self.random.below(4) {
            0 => {
                let which = self.random.of(&["ifdef ", "ifndef "]);
                self.directive(which);
                self.put(name);
            }
            _ => {
                self.directive("if ");
                self.expression(0);
            }
        }
        self.end_line();
        self.line(depth + 1);
        for _ in 0..self.random.below(3) {
            match self.random.below(4) {
                0 => {
                    let which = self.random.of(&["elifdef ", "elifndef "]);
                    self.directive(which);
                    self.put(name);
                }
                _ => {
                    self.directive("elif ");
                    self.expression(0);
                }
            }
            self.end_line();
            self.line(depth + 1);
        }
        if self.random.one_in(2) {
            self.directive("else");
            self.end_line();
            self.line(depth + 1);
        }
        self.directive("endif");
        self.end_line();
    }

    fn expression(&mut self, depth: u64) {
        match self.random.below(if depth > 3 { 4 } else { 10 }) {
            0 | 1 => {
                let number = self.random.of(&[
                    "0",
                    "1",
                    "2",
                    "3u",
                    "0x10",
                    "010",
                    "0b11",
                    "7L",
                    "1ull",
                    "9LLU",
                    "'a'",
                    "'\\n'",
                    "'\\377'",
                    "'ab'",
                    "18446744073709551615",
                    "9223372036854775807",
                    "0xFFFFFFFF",
                    "'\\x41'",
                    "L'a'",
                ]);
                self.put(number);
            }
            2 => {
                let name = self.random.of(&[
                    "a",
                    "true",
                    "__LINE__",
                    "__STDC__",
                    "N",
                    "__has_include(<one.h>)",
                    "__has_include(\"none.h\")",
                    "defined(__has_include)",
                ]);
                self.put(name);
            }
            3 => {
                let open = self.random.of(&["defined ", "defined(", "!defined ( "]);
                self.put(open);
                let name = self.random.of(&OBJECTS);
                self.put(name);
                self.put(if open.contains('(') { ")" } else { "" });
            }
            4 => {
                let sign = self.random.of(&["!", "~", "- ", "+ "]);
                self.put(sign);
                self.expression(depth + 1);
            }
            5 => {
                self.put("(");
                self.expression(depth + 1);
                self.put(")");
            }
            6 => {
                self.expression(depth + 1);
                self.put(" ? ");
                self.expression(depth + 1);
                self.put(" : ");
                self.expression(depth + 1);
            }
            _ => {
                self.expression(depth + 1);
                let operator = self.random.of(&[
                    "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&",
                    "|", "^", "&&", "||", "&&", "||",
                ]);
                self.put(" ");
                self.put(operator);
                self.put(" ");
                self.expression(depth + 1);
            }
        }
    }

    /// A group that is never read.
    fn skipped(&mut self, depth: u64) {
        self.directive("if 0");
        self.put("\n");
        for _ in 0..self.random.below(4) {
            for _ in 0..self.random.below(5) {
                let word = self.random.of(GARBAGE);
                self.put(word);
                self.put(" ");
            }
            self.put("\n");
            if self.random.one_in(4) {
                self.directive("if )\n#elif\n#else\n#error\n#endif\n");
            }
        }
        if self.random.one_in(2) {
            self.directive("else\n");
            self.line(depth + 1);
        }
        self.directive("endif\n");
    }
}
