//! The output of the preprocessor as text, with the place in the sources of each part of it.

use super::token::{Kind, Padding, Spellings, Token};
use crate::lex::{self, lex};
use crate::source::{FileId, SourceMap, Span};

/// A part of the text, which ends where the next part begins, and its place in the sources.
#[derive(Debug)]
struct Piece {
    /// Where it begins in the text.
    start: u32,
    place: Span,
    /// Whether it is a copy of the file from `place.start` on. Otherwise all of it has the same place, as the expansion
    /// of a macro has.
    copied: bool,
}

/// The preprocessed program as text. White space separates tokens where the C preprocessor separates them, since P4
/// reads `>` `>` and `|` `+` `|` as one token where they touch.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub text: String,
    pieces: Vec<Piece>,
    /// Where the last token ends in its file, if it was copied from there.
    copied_to: Option<(FileId, u32)>,
    /// The last token of this line.
    previous: Option<Token>,
    /// White space between it and the next one.
    padding: Padding,
}

impl Output {
    pub fn pad(&mut self, pad: Token) {
        self.padding.add(pad);
    }

    /// Adds a token, on a line of its own if `new_line`.
    pub fn token(
        &mut self,
        token: Token,
        place: Span,
        new_line: bool,
        spellings: &Spellings,
        sources: &SourceMap,
    ) {
        let text = spellings.file(sources, token.text.file);
        let copied = place == token.text;
        let gap = match self.copied_to {
            Some((file, end)) if copied && file == place.file && end <= place.start => {
                Some(&text[end as usize..place.start as usize])
            }
            _ => None,
        };
        match gap {
            Some(gap) if !self.padding.any && is_blank(gap) => self.text.push_str(gap),
            _ => {
                let line =
                    new_line || (!self.padding.any && gap.is_some_and(|gap| gap.contains('\n')));
                if self.text.is_empty() {
                    // Nothing separates the first token.
                } else if line {
                    self.text.push('\n');
                } else if self.needs_space(token, spellings, sources) {
                    self.text.push(' ');
                }
                self.pieces.push(Piece {
                    start: self.text.len() as u32,
                    place,
                    copied,
                });
            }
        }
        self.text.push_str(&text[token.text.range()]);
        self.copied_to = copied.then_some((place.file, place.end));
        self.previous = Some(token);
        self.padding = Padding::default();
    }

    fn needs_space(&self, token: Token, spellings: &Spellings, sources: &SourceMap) -> bool {
        let text = |token: Token| spellings.text(sources, token.text);
        let joins = |left: Token| would_join(left.kind, text(left), token.kind, text(token));
        self.padding.has_space(token) || (self.padding.any && self.previous.is_some_and(joins))
    }

    /// The tokens of P4, with their places in the files.
    pub fn tokens(&self, spellings: &Spellings) -> Vec<lex::Token> {
        let mut tokens = lex(0, &self.text);
        let mut first = 0;
        for token in &mut tokens {
            let begins_before = |piece: usize, at| {
                self.pieces
                    .get(piece)
                    .is_some_and(|piece| piece.start <= at)
            };
            while begins_before(first + 1, token.span.start) {
                first += 1;
            }
            let mut last = first;
            while begins_before(last + 1, token.span.end.saturating_sub(1)) {
                last += 1;
            }
            let part =
                |piece: usize| Some(self.pieces.get(piece)?.part(token.span, self.end(piece)));
            if let (Some(first), Some(last)) = (part(first), part(last)) {
                token.span = spellings.original(first.to(last));
            }
        }
        tokens
    }

    /// Where a piece ends in the text.
    fn end(&self, piece: usize) -> u32 {
        let next = self.pieces.get(piece + 1);
        next.map_or(self.text.len() as u32, |next| next.start)
    }
}

impl Piece {
    /// The place in the sources of the part of `span` that lies in this piece, which ends at `end`.
    fn part(&self, span: Span, end: u32) -> Span {
        if !self.copied {
            return self.place;
        }
        let place = |at: u32| self.place.start + (at.clamp(self.start, end) - self.start);
        Span {
            start: place(span.start),
            end: place(span.end),
            ..self.place
        }
    }
}

fn is_blank(gap: &str) -> bool {
    gap.bytes()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c))
}

/// Whether the C preprocessor separates two adjacent tokens, since they could be read as one.
fn would_join(left: Kind, left_text: &str, right: Kind, right_text: &str) -> bool {
    let sign = match right {
        Kind::Punct => right_text.chars().next(),
        _ => None,
    };
    let is = |signs: &str| sign.is_some_and(|sign| signs.contains(sign));
    match left {
        Kind::Punct => match left_text {
            ">" | "+" | "&" | "|" => is("=") || is(left_text),
            "<" => is("=<%:"),
            "-" => is("=->"),
            "/" => is("=/*"),
            "%" => is("=:%"),
            "=" | "!" | "*" | "^" | ">>" | "<<" => is("="),
            ":" => is(":>"),
            "->" => is("*"),
            "." => is(".%") || right == Kind::Number,
            "#" => is("#%"),
            _ => false,
        },
        Kind::Name => match right {
            Kind::Number => right_text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
            Kind::Str | Kind::Char => !right_text.starts_with('L'),
            _ => right == Kind::Name,
        },
        Kind::Number => matches!(right, Kind::Name | Kind::Number | Kind::Char) || is(".+-"),
        Kind::Other => left_text.starts_with('\\') && right == Kind::Name,
        _ => false,
    }
}
