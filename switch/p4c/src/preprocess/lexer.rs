//! Characters to preprocessing tokens (C11, 6.4), as the C preprocessor reads them in its assembler mode.

use super::token::{Kind, Token};
use crate::source::{FileId, Span};

/// All punctuation of more than one character, longest first. What C has not, as `|+|`, is several tokens that touch.
const LONG: &[&str] = &[
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "*=",
    "/=", "%=", "+=", "-=", "&=", "^=", "|=", "##",
];

/// A place in the text of a file, from which tokens are read.
#[derive(Debug)]
pub(super) struct Lexer {
    file: FileId,
    pos: usize,
    /// Whether no token of this line was read yet.
    starts_line: bool,
    /// Whether the end of the line is [`Kind::End`], and no string goes beyond it.
    pub one_line: bool,
    /// From here on no string is closed; none: unknown.
    unclosed: Option<usize>,
}

impl Lexer {
    /// Reads from an offset of the file's text on.
    pub fn new(file: FileId, pos: usize) -> Lexer {
        Lexer {
            file,
            pos,
            starts_line: true,
            one_line: false,
            unclosed: None,
        }
    }

    /// `text` is the same at every call.
    pub fn token(&mut self, text: &str) -> Token {
        let bytes = text.as_bytes();
        let space = self.skip_space(text);
        let start = self.pos;
        let kind = match bytes.get(start) {
            None => Kind::End,
            Some(b'\n') if self.one_line => Kind::End,
            Some(first) => self.read(*first, text),
        };
        let starts_line = match kind {
            Kind::End => false,
            _ => std::mem::take(&mut self.starts_line),
        };
        let text = Span {
            file: self.file,
            start: start as u32,
            end: self.pos as u32,
        };
        if kind == Kind::OpenComment {
            self.pos = bytes.len();
        }
        Token {
            space,
            starts_line,
            ..Token::new(kind, text)
        }
    }

    /// The name of a file in quotes or angles, if one stands here. `\` and `//` mean nothing in it.
    pub fn header(&mut self, text: &str) -> Option<Token> {
        let space = self.skip_space(text);
        let rest = &text[self.pos..];
        let close = match rest.as_bytes().first()? {
            b'<' => '>',
            b'"' => '"',
            _ => return None,
        };
        let line = rest.split('\n').next()?;
        let end = line[1..].find(close)? + 2;
        let start = self.pos;
        self.pos += end;
        let text = Span {
            file: self.file,
            start: start as u32,
            end: self.pos as u32,
        };
        Some(Token {
            space,
            ..Token::new(Kind::Header, text)
        })
    }

    /// Goes to the beginning of the next line, from the end of this one; `false` if there is none.
    pub fn next_line(&mut self, text: &str) -> bool {
        let more = self.pos < text.len();
        self.pos += usize::from(more);
        self.starts_line = true;
        more
    }

    /// Passes blanks and comments, each of which is as good as a blank. Returns whether there was any.
    fn skip_space(&mut self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let start = self.pos;
        while let Some(byte) = bytes.get(self.pos) {
            match byte {
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0 => self.pos += 1,
                b'\n' if self.one_line => break,
                b'\n' => {
                    self.starts_line = true;
                    self.pos += 1;
                }
                b'/' => match bytes.get(self.pos + 1) {
                    Some(b'/') => {
                        let line = &text[self.pos..];
                        self.pos += line.find('\n').unwrap_or(line.len());
                    }
                    // The `*` that opens a comment does not close it.
                    Some(b'*') => match text[self.pos + 2..].find("*/") {
                        Some(length) => self.pos += length + 4,
                        None => break,
                    },
                    _ => break,
                },
                _ => break,
            }
        }
        self.pos > start
    }

    fn read(&mut self, first: u8, text: &str) -> Kind {
        let rest = &text.as_bytes()[self.pos..];
        match first {
            b'L' if matches!(rest.get(1), Some(b'"' | b'\'')) => {
                self.pos += 1;
                self.quoted(text)
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                self.pos += rest.iter().take_while(is_part).count();
                Kind::Name
            }
            b'0'..=b'9' => self.number(rest),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => self.number(rest),
            b'"' | b'\'' => self.quoted(text),
            b'/' if rest.get(1) == Some(&b'*') => {
                self.pos += 2;
                Kind::OpenComment
            }
            _ => self.punctuation(first, text),
        }
    }

    /// A digit, and what follows it of digits, letters, `_`, `.`, and signs behind an exponent's letter.
    fn number(&mut self, rest: &[u8]) -> Kind {
        let mut before = 0;
        let is_part = |byte: &&u8| {
            let sign = matches!(**byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P');
            before = **byte;
            sign || byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'.')
        };
        self.pos += rest.iter().take_while(is_part).count();
        Kind::Number
    }

    /// A string or character constant. What is not closed is an other token up to the end of its line.
    fn quoted(&mut self, text: &str) -> Kind {
        let bytes = text.as_bytes();
        let (open, quote) = (self.pos, bytes[self.pos]);
        let over_lines =
            quote == b'"' && !self.one_line && self.unclosed.is_none_or(|at| open < at);
        let mut at = open + 1;
        let mut line_end = None;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' if bytes.get(at + 1).is_some_and(|next| *next != b'\n') => at += 1,
                b'\n' => {
                    line_end = line_end.or(Some(at));
                    if !over_lines {
                        break;
                    }
                }
                _ if *byte == quote => {
                    self.pos = at + 1;
                    return match quote {
                        b'"' => Kind::Str,
                        _ => Kind::Char,
                    };
                }
                _ => {}
            }
            at += 1;
        }
        if over_lines {
            self.unclosed = Some(open);
        }
        self.pos = line_end.unwrap_or(bytes.len());
        Kind::Other
    }

    fn punctuation(&mut self, first: u8, text: &str) -> Kind {
        let rest = &text[self.pos..];
        let is_long = matches!(
            rest.as_bytes().get(1),
            Some(b'<' | b'>' | b'.' | b'+' | b'-' | b'=' | b'&' | b'|' | b'#')
        );
        let long = LONG.iter().find(|long| is_long && rest.starts_with(**long));
        if let Some(long) = long {
            self.pos += long.len();
            return Kind::Punct;
        }
        self.pos += rest.chars().next().map_or(1, char::len_utf8);
        match first {
            b'!'
            | b'#'
            | b'%'..=b'&'
            | b'('..=b'/'
            | b':'..=b'?'
            | b'['
            | b']'
            | b'^'
            | b'{'..=b'~' => Kind::Punct,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(text: &str, one_line: bool) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(0, 0);
        lexer.one_line = one_line;
        let next = || match lexer.token(text) {
            Token {
                kind: Kind::End, ..
            } => None,
            token => Some((token.kind, &text[token.text.range()])),
        };
        std::iter::from_fn(next).collect()
    }

    fn words(text: &str) -> Vec<&str> {
        spellings(text, false).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn numbers_are_wide() {
        assert_eq!(
            words("0..N 1e+x.y 8w0xFF .5a..b"),
            ["0..N", "1e+x.y", "8w0xFF", ".5a..b"]
        );
    }

    #[test]
    fn punctuation_is_that_of_c() {
        assert_eq!(
            words("|+|= {#} &&& >>= <:"),
            ["|", "+", "|=", "{", "#", "}", "&&", "&", ">>=", "<", ":"]
        );
        let other = |text| spellings(text, false) == [(Kind::Other, text)];
        assert!(["@", "$", "`", "\\", "é"].into_iter().all(other));
    }

    #[test]
    fn the_star_that_opens_a_comment_does_not_close_it() {
        assert_eq!(
            words("a/*/b*/c/*//*/d/**/e// f */\ng"),
            ["a", "c", "d", "e", "g"]
        );
        assert_eq!(words("a \"/*\" '//' */"), ["a", "\"/*\"", "'//'", "*", "/"]);
    }

    #[test]
    fn a_comment_that_is_not_closed_is_the_last_token() {
        assert_eq!(spellings("a /*/ b", false)[1], (Kind::OpenComment, "/*"));
        assert_eq!(words("a /*/ b").len(), 2);
    }

    #[test]
    fn strings_go_over_lines_and_constants_do_not() {
        assert_eq!(words("\"a\n//b\\\"\" c"), ["\"a\n//b\\\"\"", "c"]);
        assert_eq!(words("don't\nb"), ["don", "'t", "b"]);
        assert_eq!(words("a \"b\nc"), ["a", "\"b", "c"]);
        assert_eq!(
            spellings("a \"b\nc\"", true),
            [(Kind::Name, "a"), (Kind::Other, "\"b")]
        );
    }
}
