//! Hints for syntax of other languages: the counterpart in P4.

use super::Parser;
use crate::lex::{Tok, Token};

/// Words that begin a declaration, and so do not stand inside of a struct or an expression.
const DECLARATIONS: &[&str] = &[
    "action",
    "control",
    "enum",
    "extern",
    "header",
    "header_union",
    "package",
    "parser",
    "state",
    "struct",
    "table",
    "typedef",
];

impl Parser<'_> {
    /// A hint about the token at the current position, in whose place `what` was expected.
    pub(super) fn hint(&self, what: &str) -> Option<String> {
        let found = self.peek();
        let before = self.before(1);
        let is_number = |t: Option<&Token>| matches!(t.map(|t| &t.tok), Some(Tok::Number { .. }));
        let is = |t: Option<&Token>, punct: &str| t.is_some_and(|t| t.is(punct));
        let text = match what {
            "`)`" if found.is("=") => "`==` compares",
            "a name" if is(before, ".") && is_number(self.before(2)) => {
                "numbers have no point: 10.0.0.1 is written 0x0a000001"
            }
            "`;`" if found.is(":") && is_number(before) => {
                "an address is one number: 00:11:22:33:44:55 is written 0x001122334455"
            }
            "`;`" if found.is(",") => "`;` stands behind each of them",
            "`;`" if found.is("{") && is(before, ")") => return self.block_hint(),
            "`;`" if is(before, ")") && matches!(found.tok, Tok::Ident(_)) => {
                "instances of externs, controls and parsers are declared outside of `apply`, \
                 actions and states"
            }
            "`:`" if found.is(",") => "several keys stand in parentheses: `(1, 2) : action();`",
            "`:`" if found.is("=") => "what a label does stands in braces: `1: { ... }`",
            "`:`" if before.is_some_and(|t| t.is_word("case")) => {
                "labels are written without `case`: `1: { ... }`"
            }
            "`=` or `(`" if found.is("++") || found.is("-") && self.peek_at(1).is("-") => {
                "write `+= 1` or `-= 1`"
            }
            "`=` or `(`" if found.is("==") => "`=` assigns",
            _ => return self.word_hint(found),
        };
        Some(text.to_owned())
    }

    fn word_hint(&self, found: &Token) -> Option<String> {
        if self.before(1).is_some_and(|t| t.is_word("not")) {
            return Some("not is written `!`".to_owned());
        }
        let Tok::Ident(word) = &found.tok else {
            return None;
        };
        Some(match word.as_str() {
            "and" => "and is written `&&`".to_owned(),
            "or" => "or is written `||`".to_owned(),
            "not" => "not is written `!`".to_owned(),
            _ => return None,
        })
    }

    /// A hint about a block behind what was taken for a call.
    fn block_hint(&self) -> Option<String> {
        let mut depth = 0usize;
        let mut back = 1;
        loop {
            let token = self.before(back)?;
            depth = match token {
                t if t.is(")") => depth + 1,
                t if t.is("(") => depth.checked_sub(1)?,
                _ => depth,
            };
            back += 1;
            if depth == 0 {
                break;
            }
        }
        let Tok::Ident(word) = &self.before(back)?.tok else {
            return None;
        };
        Some(match word.as_str() {
            "elif" | "elsif" | "elseif" => "write `else if`".to_owned(),
            "while" | "foreach" => {
                "write `for (bit<8> i in 0..7) { ... }`, with as many steps as are enough"
                    .to_owned()
            }
            _ => return None,
        })
    }

    /// A hint about a keyword in whose place `what` was expected.
    pub(super) fn keyword_hint(&self, word: &str, what: &str) -> Option<String> {
        Some(match word {
            "transition" => "a state ends with one `transition`; `transition select(...)` chooses \
                             where to go"
                .to_owned(),
            "else" => "`else` follows the statement or block of its `if`".to_owned(),
            _ if self.begins_declaration() => "is a `}` missing above?".to_owned(),
            "bit" | "int" | "bool" if what == "a type name" => {
                "the new name comes last: `typedef bit<48> name;`".to_owned()
            }
            _ if what.ends_with("name") => "choose another name".to_owned(),
            _ => return None,
        })
    }

    /// Whether a line begins here, with a word that only begins declarations.
    pub(super) fn begins_declaration(&self) -> bool {
        let token = self.peek();
        let is_one = |word: &&str| token.is_word(word);
        token.starts_line && DECLARATIONS.iter().any(is_one)
    }

    fn before(&self, back: usize) -> Option<&Token> {
        self.tokens.get(self.pos.checked_sub(back)?)
    }
}
