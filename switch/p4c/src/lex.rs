//! Characters to tokens (P4_16 specification, section 6.3).
//!
//! The lexer never fails: what it cannot read becomes [`Tok::Bad`], which is only an error if it
//! reaches the parser. The preprocessor may skip it (`#if 0`, the text of `#error`).

use num_bigint::{BigInt, BigUint};

use crate::budget::MAX_INT_BITS;
use crate::source::{FileId, Span};

/// The width in bits that is written in front of a literal, as in `8w255` and `4s1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralWidth {
    pub width: u32,
    pub signed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// Identifiers and keywords: P4 keywords are partly contextual, so the parser decides.
    Ident(String),
    Number {
        value: BigInt,
        width: Option<LiteralWidth>,
        /// The base it was written in: 2, 8, 10 or 16.
        radix: u32,
    },
    Str(String),
    /// Operators and punctuation; `>` is always single, the parser joins `>>`.
    Punct(&'static str),
    /// Input that cannot be read, with a phrase that says what it is.
    Bad(String),
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

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
    /// Whether it is the first token of its line.
    pub starts_line: bool,
    /// Whether the next token follows without space.
    pub joint: bool,
}

impl Token {
    pub fn is(&self, punct: &str) -> bool {
        matches!(self.tok, Tok::Punct(p) if p == punct)
    }

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

pub fn lex(file: FileId, text: &str) -> Vec<Token> {
    Lexer {
        file,
        text,
        pos: 0,
        starts_line: true,
        tokens: Vec::new(),
    }
    .run()
}

struct Lexer<'a> {
    file: FileId,
    text: &'a str,
    pos: usize,
    starts_line: bool,
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
            let open_comment = self.rest().starts_with("/*");
            let tok = if open_comment {
                self.pos += 2;
                Tok::Bad("a comment without closing `*/`".into())
            } else if c.is_ascii_digit() {
                self.number()
            } else if c.is_alphabetic() || c == '_' {
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
            if open_comment {
                self.pos = self.text.len();
            }
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

    /// Reads characters as long as they are accepted, also over the ends of lines that `\` takes back, as in C.
    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                Some(c) if accept(c) => {
                    taken.push(c);
                    self.pos += c.len_utf8();
                }
                Some('\\') if rest[joined_lines(rest)..].starts_with(&accept) => {
                    self.pos += joined_lines(rest);
                }
                _ => return taken,
            }
        }
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let joined = joined_lines(rest);
            if joined > 0 {
                self.pos += joined;
            } else if rest.starts_with("//") {
                self.pos += comment_length(rest);
            } else if rest.starts_with("/*")
                && let Some(end) = rest.find("*/").map(|i| i + 2)
            {
                self.starts_line |= rest[..end].contains('\n');
                self.pos += end;
            } else if let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
                self.starts_line |= c == '\n';
                self.pos += c.len_utf8();
            } else {
                return;
            }
        }
    }

    fn word(&mut self) -> Tok {
        Tok::Ident(self.take_while(|c| c.is_alphanumeric() || c == '_'))
    }

    fn punctuation(&mut self) -> Tok {
        let found = PUNCTUATION.iter().find(|p| self.rest().starts_with(**p));
        match found {
            Some(p) => {
                self.pos += p.len();
                Tok::Punct(p)
            }
            None => {
                let c = self.peek().unwrap_or_default();
                self.pos += c.len_utf8();
                Tok::Bad(format!("the character `{}`", c.escape_default()))
            }
        }
    }

    /// Reads a string, which may go over several lines, as the restrictions in annotations of SAI programs do. One that
    /// is never closed is bad to the end of its line only.
    fn string(&mut self) -> Tok {
        self.pos += 1;
        let mut value = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((i, c)) = chars.next() {
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
        let line = self.rest().find('\n').unwrap_or(self.rest().len());
        self.pos += line;
        Tok::Bad("a string without closing `\"`".into())
    }

    /// Reads a number: `[width (w|s)] [0x|0o|0d|0b] digits`, with `_` anywhere after the first digit.
    fn number(&mut self) -> Tok {
        let text = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        parse_number(&text)
            .unwrap_or_else(|reason| Tok::Bad(format!("the number `{text}` ({reason})")))
    }
}

/// The length in bytes of the ends of lines at the start of `text` that a `\` in front takes back.
fn joined_lines(text: &str) -> usize {
    let mut rest = text;
    while let Some(next) = ["\\\n", "\\\r\n"]
        .iter()
        .find_map(|end| rest.strip_prefix(end))
    {
        rest = next;
    }
    text.len() - rest.len()
}

/// The length in bytes of a `//` comment. It goes on in the next line if this one ends with `\`, as in C.
fn comment_length(text: &str) -> usize {
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        let line_end = line.trim_end_matches(['\n', '\r']);
        if !line_end.ends_with('\\') {
            return end - (line.len() - line_end.len());
        }
    }
    end
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
        assert!(matches!(toks("0xZZ")[0], Tok::Bad(_)));
    }

    #[test]
    fn unterminated_comment_is_one_bad_token() {
        let tokens = lex(0, "a /* b c");
        assert!(matches!(
            &tokens[..],
            [Token { tok: Tok::Ident(_), .. }, Token { tok: Tok::Bad(_), span, .. }, _]
                if (span.start, span.end) == (2, 4)
        ));
    }

    #[test]
    fn comments_and_joined_tokens() {
        let tokens = lex(0, "a/*x*/>> b // c\n#d");
        assert!(!tokens[0].joint && tokens[1].joint && !tokens[2].joint);
        assert!(tokens[4].is("#") && tokens[4].starts_line && tokens[4].joint);
    }

    #[test]
    fn a_backslash_joins_lines() {
        let ident = |name: &str| Tok::Ident(name.into());
        assert_eq!(
            toks("ab\\\ncd \\\r\n e\\\n\\\nf \"g\\\nh\""),
            [ident("abcd"), ident("ef"), Tok::Str("gh".into()), Tok::Eof]
        );
        assert_eq!(
            toks("a // b \\\nc\nd // \\"),
            [ident("a"), ident("d"), Tok::Eof]
        );
        assert!(!lex(0, "a \\\nb")[1].starts_line);
    }

    #[test]
    fn unterminated_string_is_one_bad_token() {
        assert!(matches!(
            &toks("\"abc\nx")[..],
            [Tok::Bad(_), Tok::Ident(_), Tok::Eof]
        ));
    }
}
