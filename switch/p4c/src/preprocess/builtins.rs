//! Values of built-in macros.

use super::Preprocessor;
use super::macros::Builtin;
use super::token::{Kind, Token};
use crate::source::Span;

impl Preprocessor<'_> {
    /// Puts what a built-in macro stands for in front of what is still to be read; `false` if there was an error.
    pub(super) fn builtin(&mut self, builtin: Builtin, name: Token, place: Span) -> bool {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let text = match builtin {
            Builtin::File => quoted(&self.presumed(place).0),
            Builtin::Line => self.presumed(place).1.to_string(),
            Builtin::BaseFile => quoted(&self.sources.file(self.program).name),
            Builtin::Counter => {
                self.counter += 1;
                (self.counter - 1).to_string()
            }
            Builtin::IncludeLevel => (self.inputs.len().saturating_sub(1)).to_string(),
            // The text of cpp where there is no clock: a program is compiled to the same on any day.
            Builtin::Date => "\"??? ?? ????\"".to_owned(),
            Builtin::Time => "\"??:??:??\"".to_owned(),
            Builtin::TimeStamp => "\"??? ??? ?? ??:??:?? ????\"".to_owned(),
            Builtin::HasInclude if self.in_condition => {
                let next = self.spelling(name) == "__has_include_next";
                let is = self.has_include(place, next);
                let token = self.truth(is);
                self.put(token, place);
                return true;
            }
            Builtin::HasInclude => {
                self.error("bad-directive", place, "`__has_include` is for `#if` only");
                return false;
            }
            Builtin::Pragma => return self.pragma_operator(place),
        };
        if !self.pay(1, text.len(), place) {
            return false;
        }
        let kind = if text.starts_with('"') {
            Kind::Str
        } else {
            Kind::Number
        };
        let token = Token::new(kind, self.spellings.make(&text));
        self.put(token, place);
        true
    }

    /// `__has_include`: reads its operand, and returns whether there is such a file.
    pub(super) fn has_include(&mut self, place: Span, next: bool) -> bool {
        let mut tokens = Vec::new();
        let open = self.next_unexpanded();
        if self.spelling(open) == "(" {
            loop {
                let (token, _) = self.next();
                if token.kind == Kind::End || self.spelling(token) == ")" {
                    break;
                }
                if !token.is_pad() {
                    tokens.push(token);
                }
            }
        }
        match self.header_of(&tokens) {
            Ok((header, length)) if length == tokens.len() => self.find(header, next).1.is_ok(),
            _ => {
                let message = "`__has_include` needs `(\"file\")` or `(<file>)`";
                self.error("bad-condition", place, message);
                false
            }
        }
    }

    /// The number that an operator of conditions stands for.
    pub(super) fn truth(&mut self, is: bool) -> Token {
        Token::new(
            Kind::Number,
            self.spellings.make(if is { "1" } else { "0" }),
        )
    }

    /// Passes `("..")` behind `_Pragma`.
    fn pragma_operator(&mut self, place: Span) -> bool {
        let mut next = |kind, text: &str| {
            let token = self.next_unexpanded();
            token.kind == kind && (text.is_empty() || self.spelling(token) == text)
        };
        let is_right = next(Kind::Punct, "(") && next(Kind::Str, "") && next(Kind::Punct, ")");
        if !is_right {
            self.error(
                "bad-directive",
                place,
                "`_Pragma` needs a string in parentheses",
            );
        }
        is_right
    }

    /// The file and line that a place counts as, after `#line`.
    fn presumed(&self, place: Span) -> (String, i64) {
        let (name, line) = self.sources.line(self.original(place));
        let input = self.inputs.iter().rfind(|input| input.file == place.file);
        let presumed = input.and_then(|input| input.presumed_name.as_deref());
        let ahead = input.map_or(0, |input| input.lines_ahead);
        (presumed.unwrap_or(name).to_owned(), line as i64 + ahead)
    }
}
