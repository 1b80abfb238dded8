//! Characters to tokens (P4_16 specification, section 6.3), of a text that the preprocessor has made: it has neither
//! comments nor directives.
//!
//! The lexer never fails: what it cannot read becomes [`Tok::Bad`], which the parser refuses.

use ebb_printable::printable;
use num_bigint::{BigInt, BigUint};

use crate::limits::MAX_INT_BITS;
use crate::source::{FileId, Span};

/// The width in bits that is written in front of a literal, as in `8w255` and `4s1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralWidth {
    /// Bits.
    pub width: u32,
    /// True for `s`, false for `w`.
    pub signed: bool,
}

/// Kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// Identifiers and keywords: P4 keywords are partly contextual, so the parser decides.
    Ident(String),
    /// An integer literal.
    Number {
        /// Its value.
        value: BigInt,
        /// Its width and sign. None: a literal of type `int`.
        width: Option<LiteralWidth>,
        /// Base that it is written in: 2, 8, 10 or 16.
        radix: u32,
    },
    /// A string literal, with escapes replaced.
    Str(String),
    /// Operators and punctuation; `>` is always single, the parser joins `>>`.
    Punct(&'static str),
    /// Input that cannot be read, with a phrase that says what it is.
    Bad(String),
    /// End of the text; always the last token.
    Eof,
}

/// How a number of a base is written, in front of its digits.
pub fn radix_prefix(radix: u32) -> &'static str {
    match radix {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    }
}

/// A token with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its kind and its value.
    pub tok: Tok,
    /// Its place in the source.
    pub span: Span,
    /// Whether it is the first token of its line.
    pub starts_line: bool,
    /// Whether the next token follows without space.
    pub joint: bool,
}

impl Token {
    /// Whether it is this operator or punctuation.
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.tok, Tok::Punct(p) if p == punct)
    }

    /// Whether it is this identifier or keyword.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.tok, Tok::Ident(w) if w == word)
    }

    /// How the token is called in messages.
    pub fn describe(&self) -> String {
        match &self.tok {
            Tok::Ident(name) => format!("`{name}`"),
            Tok::Number { value, .. } => format!("number {value}"),
            Tok::Str(_) => "a string".into(),
            Tok::Punct(p) => format!("`{p}`"),
            Tok::Bad(reason) => reason.clone(),
            Tok::Eof => "end of file".into(),
        }
    }
}

/// All operators and punctuation, longest first, so that the first match is the right one.
const PUNCTUATION: &[&str] = &[
    "|+|=", "|-|=", "&&&", "|+|", "|-|", "<<=", "...", "++", "&&", "||", "==", "!=", "<=", ">=",
    "<<", "..", "##", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "{#", "+", "-", "*", "/",
    "%", "&", "|", "^", "~", "!", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".",
    "?", "@", "#",
];

/// All tokens of a text, with an [`Tok::Eof`] at the end.
pub fn lex(file: FileId, text: &str) -> Vec<Token> {
    Lexer {
        file,
        text,
        pos: 0,
        starts_line: true,
        unclosed: false,
        tokens: Vec::new(),
    }
    .run()
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    pos: usize,
    starts_line: bool,
    /// Whether a string was not closed: then none is that begins behind it.
    unclosed: bool,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Token> {
        loop {
            let before = self.pos;
            self.skip_space();
            if self.pos > before
                && let Some(last) = self.tokens.last_mut()
            {
                last.joint = false;
            }
            let start = self.pos;
            let Some(c) = self.peek() else { break };
            let tok = if c.is_ascii_digit() {
                self.number()
            } else if c.is_ascii_alphabetic() || c == '_' {
                self.word()
            } else if c == '"' {
                self.string()
            } else {
                self.punctuation()
            };
            let starts_line = std::mem::take(&mut self.starts_line);
            self.tokens.push(Token {
                tok,
                span: self.span(start),
                starts_line,
                joint: true,
            });
        }
        let span = self.span(self.pos);
        self.tokens.push(Token {
            tok: Tok::Eof,
            span,
            starts_line: true,
            joint: false,
        });
        self.tokens
    }

    fn rest(&self) -> &str {
        &self.text[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn span(&self, start: usize) -> Span {
        Span {
            file: self.file,
            start: start as u32,
            end: self.pos as u32,
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &str {
        let rest = self.rest();
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        let start = self.pos;
        self.pos += length;
        &self.text[start..self.pos]
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek() {
            let skipped = match c {
                // A line that begins with `#` is no part of the program.
                '#' if self.starts_line => self.rest().find('\n').unwrap_or(self.rest().len()),
                _ if c.is_whitespace() => c.len_utf8(),
                _ => return,
            };
            self.starts_line |= c == '\n';
            self.pos += skipped;
        }
    }

    fn word(&mut self) -> Tok {
        Tok::Ident(
            self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
                .to_owned(),
        )
    }

    fn punctuation(&mut self) -> Tok {
        // The preprocessor leaves no other one.
        if self.rest().starts_with("/*") {
            self.pos += 2;
            return Tok::Bad("a comment without closing `*/`".into());
        }
        let rest = self.rest();
        let first = rest.as_bytes().first();
        let mut candidates = PUNCTUATION.iter().filter(|p| p.as_bytes().first() == first);
        let found = candidates.find(|p| rest.starts_with(**p));
        match found {
            Some(p) => {
                self.pos += p.len();
                Tok::Punct(p)
            }
            None => {
                let c = self.peek().unwrap_or_default();
                self.pos += c.len_utf8();
                let shown = printable(c.encode_utf8(&mut [0; 4])).into_owned();
                Tok::Bad(format!("the character `{shown}`"))
            }
        }
    }

    /// Reads a string, which may go over several lines, as the restrictions in annotations of SAI programs do. One that
    /// is never closed is bad to the end of its line only.
    fn string(&mut self) -> Tok {
        self.pos += 1;
        let mut value = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((i, c)) = chars.next().filter(|_| !self.unclosed) {
            match c {
                '"' => {
                    self.pos += i + 1;
                    return Tok::Str(value);
                }
                '\\' => match chars.next() {
                    Some((_, '\n')) => {}
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, escaped)) => value.push(escaped),
                    None => break,
                },
                _ => value.push(c),
            }
        }
        self.unclosed = true;
        let line = self.rest().find('\n').unwrap_or(self.rest().len());
        self.pos += line;
        Tok::Bad("a string without closing `\"`".into())
    }

    /// Reads a number: `[width (w|s)] [0x|0o|0d|0b] digits`, with `_` anywhere after the first digit.
    fn number(&mut self) -> Tok {
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        parse_number(text)
            .unwrap_or_else(|reason| Tok::Bad(format!("the number `{text}` ({reason})")))
    }
}

fn parse_number(text: &str) -> Result<Tok, &'static str> {
    let prefix_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (width, digits) = match text.as_bytes().get(prefix_len) {
        Some(sign @ (b'w' | b's')) => {
            let width: u32 = text[..prefix_len].parse().map_err(|_| "width too large")?;
            let signed = *sign == b's';
            (
                Some(LiteralWidth { width, signed }),
                &text[prefix_len + 1..],
            )
        }
        _ => (None, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, body) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0d") => (10, &lower[2..]),
        _ => (10, lower.as_str()),
    };
    // No constant has more digits than the largest one has in binary.
    if body.len() as u64 > MAX_INT_BITS {
        return Err("too large");
    }
    let clean: String = body.chars().filter(|c| *c != '_').collect();
    if clean.is_empty() {
        return Err("no digits");
    }
    let value =
        BigUint::parse_bytes(clean.as_bytes(), radix).ok_or("digits do not fit its base")?;
    Ok(Tok::Number {
        value: value.into(),
        width,
        radix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toks(text: &str) -> Vec<Tok> {
        lex(0, text).into_iter().map(|t| t.tok).collect()
    }

    #[test]
    fn numbers_with_width_and_base() {
        let number = |value: i64, width, radix| Tok::Number {
            value: value.into(),
            width,
            radix,
        };
        let w8 = Some(LiteralWidth {
            width: 8,
            signed: false,
        });
        assert_eq!(
            toks("8w0xFF 0b10_01 42"),
            [
                number(255, w8, 16),
                number(9, None, 2),
                number(42, None, 10),
                Tok::Eof
            ]
        );
        let reason = |text| match &toks(text)[0] {
            Tok::Bad(reason) => reason.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            reason("0xZZ"),
            "the number `0xZZ` (digits do not fit its base)"
        );
        assert_eq!(reason("8w"), "the number `8w` (no digits)");
        assert_eq!(reason("8s0x"), "the number `8s0x` (no digits)");
    }

    #[test]
    fn a_comment_that_is_not_closed_is_bad() {
        let tokens = lex(0, "a /*");
        assert!(matches!(
            &tokens[..],
            [Token { tok: Tok::Ident(_), .. }, Token { tok: Tok::Bad(_), span, .. }, _]
                if (span.start, span.end) == (2, 4)
        ));
    }

    #[test]
    fn tokens_that_touch_are_joint() {
        let tokens = lex(0, "a >> b\n  c");
        assert!(!tokens[0].joint && tokens[1].joint && !tokens[2].joint);
        assert!(tokens[4].starts_line && !tokens[1].starts_line);
    }

    #[test]
    fn lines_that_begin_with_a_hash_are_no_program() {
        let ident = |name: &str| Tok::Ident(name.into());
        assert_eq!(
            toks("# it's \"odd\na\n  #\nb {#}"),
            [
                ident("a"),
                ident("b"),
                Tok::Punct("{#"),
                Tok::Punct("}"),
                Tok::Eof
            ]
        );
    }

    #[test]
    fn unterminated_string_is_one_bad_token() {
        assert!(matches!(
            &toks("\"abc\nx")[..],
            [Tok::Bad(_), Tok::Ident(_), Tok::Eof]
        ));
    }
}
