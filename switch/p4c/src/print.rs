//! Tokens as P4 text, which means the same when it is read again, with lines of its own and the compiler's library as
//! `#include`s, as p4c's `--pp` writes it.

use crate::lex::{Tok, Token, radix_prefix};
use crate::source::SourceMap;

/// How many columns each level of braces is indented.
const INDENT: usize = 4;

/// White space between two tokens. `>` `>` and others are one where they touch.
fn space(left: &Token) -> &'static str {
    if left.joint { "" } else { " " }
}

/// A token as the lexer reads it.
fn spelling(tok: &Tok) -> String {
    match tok {
        Tok::Ident(name) => name.clone(),
        Tok::Number {
            value,
            width,
            radix,
        } => {
            let width = width.map_or(String::new(), |w| {
                format!("{}{}", w.width, if w.signed { 's' } else { 'w' })
            });
            let prefix = radix_prefix(*radix);
            format!("{width}{prefix}{}", value.to_str_radix(*radix))
        }
        Tok::Str(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Tok::Punct(punct) => (*punct).to_owned(),
        // The parser has refused the program.
        Tok::Bad(_) | Tok::Eof => String::new(),
    }
}

/// The program with one statement on a line.
pub fn pretty(tokens: &[Token], sources: &SourceMap) -> String {
    let mut printer = Printer::default();
    if let Some(version) = v1model_version(tokens) {
        printer.directive(&format!("#define V1MODEL_VERSION {version}"));
    }
    let mut included: Vec<&str> = Vec::new();
    let own = tokens.iter().filter(|t| t.tok != Tok::Eof);
    let own = own.filter(|token| {
        let name = sources.file(token.span.file).name.as_str();
        let library = name.starts_with('<') && name.ends_with(".p4>");
        if library && !included.contains(&name) {
            included.push(name);
        }
        !library
    });
    let own: Vec<&Token> = own.collect();
    for name in included {
        printer.directive(&format!("#include {name}"));
    }
    for (at, token) in own.iter().enumerate() {
        printer.token(token, own.get(at + 1).copied());
    }
    printer.end_line();
    printer.out
}

/// The version of the library that the program has asked for before it included it.
fn v1model_version(tokens: &[Token]) -> Option<String> {
    tokens.windows(3).find_map(|three| match three {
        [
            name,
            equals,
            Token {
                tok: tok @ Tok::Number { .. },
                ..
            },
        ] if name.is_word("__v1model_version") && equals.is("=") => Some(spelling(tok)),
        _ => None,
    })
}

/// A pair of brackets that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Statements or declarations.
    Block,
    /// Names with commas between them: `enum`, `error`, `match_kind`.
    Names,
    /// `{ .. }` as an expression, or parentheses.
    Inline,
}

#[derive(Default)]
struct Printer<'a> {
    out: String,
    line: String,
    open: Vec<Open>,
    previous: Option<&'a Token>,
    /// The first word of the declaration, which says what its braces hold.
    head: String,
    /// Whether this is an annotation of the form `@pragma ..`, which ends with its line.
    in_pragma: bool,
}

impl<'a> Printer<'a> {
    fn directive(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn end_line(&mut self) {
        let line = self.line.trim();
        if !line.is_empty() {
            let blocks = self.open.iter().filter(|o| **o != Open::Inline).count();
            // A closing brace stands under the line that opened it, which it has already left.
            self.out.push_str(&" ".repeat(blocks * INDENT));
            self.out.push_str(line);
            self.out.push('\n');
        }
        self.line.clear();
        self.head.clear();
    }

    fn token(&mut self, token: &'a Token, next: Option<&'a Token>) {
        if token.starts_line && std::mem::take(&mut self.in_pragma) {
            self.end_line();
        }
        if self.in_pragma {
            return self.push(token);
        }
        self.in_pragma = token.is_word("pragma") && self.previous.is_some_and(|p| p.is("@"));
        if let Tok::Ident(word) = &token.tok
            && self.head.is_empty()
        {
            self.head.clone_from(word);
        }
        let opens = token.is("{") || token.is("{#");
        if opens || token.is("(") {
            let kind = self.kind_of(token);
            self.push(token);
            // The line that opens a block is outside of it.
            if kind != Open::Inline {
                self.end_line();
            }
            self.open.push(kind);
        } else if token.is("}") || token.is(")") {
            let kind = self.open.last().copied().unwrap_or(Open::Block);
            if kind != Open::Inline {
                self.end_line();
            }
            self.open.pop();
            self.push(token);
            if kind != Open::Inline && !next.is_some_and(|n| n.is(";") || n.is_word("else")) {
                self.end_line();
            }
        } else {
            self.push(token);
            let within = self.open.last().copied().unwrap_or(Open::Block);
            let ends = match within {
                Open::Block => token.is(";"),
                Open::Names => token.is(","),
                Open::Inline => false,
            };
            if ends {
                self.end_line();
            }
        }
    }

    fn kind_of(&self, token: &Token) -> Open {
        let inside = self.open.last() == Some(&Open::Inline);
        // A brace behind one of these begins a value.
        let value = self.previous.is_some_and(|p| {
            let before = ["=", "==", "!=", ",", "(", "&&", "||", "?", "++", "&&&"];
            before.iter().any(|b| p.is(b)) || p.is_word("return") || p.is_word("in")
        });
        match &self.head[..] {
            _ if !token.is("{") || inside || value => Open::Inline,
            "enum" | "error" | "match_kind" => Open::Names,
            _ => Open::Block,
        }
    }

    fn push(&mut self, token: &'a Token) {
        if let Some(previous) = self.previous
            && !self.line.is_empty()
        {
            self.line.push_str(space(previous));
        }
        self.line.push_str(&spelling(&token.tok));
        self.previous = Some(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Diagnostics;
    use crate::preprocess::{Options, preprocess};

    fn tokens(text: &str) -> (Vec<Token>, SourceMap) {
        let mut sources = SourceMap::default();
        let file = sources.add("t.p4", text);
        let diagnostics = Diagnostics::default();
        let program = preprocess(file, &mut sources, &Options::default(), &diagnostics);
        assert!(
            !diagnostics.has_errors(),
            "{}",
            diagnostics.render(&sources, false)
        );
        (program.tokens, sources)
    }

    #[test]
    fn what_is_printed_reads_the_same() {
        let text = "#define F(a, b) a b >> 8w0x0A\n#define N -\nF(x, y)\n\
                    F(x,y)-N 1 \"a\\\\\\\"b\nc\" T<U<bit<8>>> 4s0b11";
        let (before, sources) = tokens(text);
        let toks = |list: &[Token]| list.iter().map(|t| t.tok.clone()).collect::<Vec<_>>();
        let printed = pretty(&before, &sources);
        let (after, _) = tokens(&printed);
        assert_eq!(toks(&before), toks(&after), "{printed}");
    }

    #[test]
    fn blocks_are_indented_and_values_stay_on_their_line() {
        let text = "enum E {A,B} control c(){apply{if(x=={1,2}){y={a=1};}else f({3});}}";
        let (tokens, sources) = tokens(text);
        let expected = "enum E {\n    A,\n    B\n}\ncontrol c(){\n    apply{\n        if(x=={1,2}){\n            \
                        y={a=1};\n        }else f({3});\n    }\n}\n";
        assert_eq!(pretty(&tokens, &sources), expected);
    }

    #[test]
    fn a_pragma_ends_with_its_line() {
        let text = "@pragma stage 0;\n@pragma b\n table t{size=1;}";
        let (tokens, sources) = tokens(text);
        let expected = "@pragma stage 0;\n@pragma b\ntable t{\n    size=1;\n}\n";
        assert_eq!(pretty(&tokens, &sources), expected);
    }

    #[test]
    fn the_library_is_included() {
        let (tokens, sources) =
            tokens("#define V1MODEL_VERSION 20200408\n#include <v1model.p4>\nconst bool b = true;");
        let text = pretty(&tokens, &sources);
        let expected = "#define V1MODEL_VERSION 20200408\n#include <core.p4>\n\
                        #include <v1model.p4>\nconst bool b = true;\n";
        assert_eq!(text, expected);
    }
}
