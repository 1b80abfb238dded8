//! Preprocessing tokens: what they are, and how they are spelled.

use crate::source::{FileId, SourceMap, Span};

/// Kinds of preprocessing tokens (C11, 6.4), in the assembler mode of the C preprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    /// A number in the wide sense of the standard (6.4.8): `0..N` and `8w0xFF` are one.
    Number,
    /// A string, which may go over several lines.
    Str,
    /// A character constant.
    Char,
    Punct,
    /// The name of a file with its quotes or angles, where only such a name may stand.
    Header,
    /// Any other character, or a quote that is not closed with the rest of its line.
    Other,
    /// The `/*` of a comment that is never closed. Nothing follows it.
    OpenComment,
    /// No token: its neighbours are tokens of their own, also without a blank between them.
    Pad,
    /// As [`Kind::Pad`], in place of a macro's name or parameter, whose blank in front counts.
    PadOf,
    /// The end of what is being read: a directive, an argument or a file.
    End,
}

/// A preprocessing token. Its spelling is in [`Spellings`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// Where it is spelled, which is its place too unless a macro has brought it.
    pub text: Span,
    pub kind: Kind,
    /// Whether there is a blank, a comment or the end of a line in front of it.
    pub space: bool,
    /// Whether it is the first token of its line.
    pub starts_line: bool,
    /// Whether it names a macro within its own expansion, and so never stands for it again (C11, 6.10.3.4).
    pub painted: bool,
}

impl Token {
    pub fn new(kind: Kind, text: Span) -> Token {
        Token {
            text,
            kind,
            space: false,
            starts_line: false,
            painted: false,
        }
    }

    pub fn pad() -> Token {
        Token::new(Kind::Pad, Span::default())
    }

    /// A pad in place of `token`, with the blank in front of it.
    pub fn pad_of(token: Token) -> Token {
        Token {
            space: token.space,
            ..Token::new(Kind::PadOf, Span::default())
        }
    }

    pub fn is_pad(self) -> bool {
        matches!(self.kind, Kind::Pad | Kind::PadOf)
    }

    pub fn end() -> Token {
        Token::new(Kind::End, Span::default())
    }
}

/// The pads between two tokens, as one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Padding {
    /// Whether there are any.
    pub any: bool,
    /// Whether there is a blank in front of what one of them is in place of; none: of nothing.
    space: Option<bool>,
}

impl Padding {
    pub fn add(&mut self, pad: Token) {
        let space = (pad.kind == Kind::PadOf).then_some(pad.space);
        self.any = true;
        if self.space.is_none() || (self.space == Some(false) && space.is_none()) {
            self.space = space;
        }
    }

    /// Whether there is a blank in front of `next`, which follows.
    pub fn has_space(self, next: Token) -> bool {
        self.space.unwrap_or(next.space)
    }

    /// A pad that says the same as all of them.
    pub fn pad(self) -> Token {
        match self.space {
            Some(space) => Token {
                space,
                ..Token::new(Kind::PadOf, Span::default())
            },
            None => Token::pad(),
        }
    }
}

/// A file that has ends of lines which a `\` takes back (C11, 5.1.1.2, phase 2).
#[derive(Debug)]
struct Spliced {
    /// The text without them.
    text: String,
    /// For each, where it was in the text, and the bytes that are missing from there on.
    gaps: Vec<(u32, u32)>,
}

/// The spellings of tokens: the files without spliced ends of lines, and what `#` and `##` have made.
///
/// Spans within the preprocessor are about these texts; [`Spellings::original`] leads back to the files.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    /// None for a file that nothing was taken out of.
    files: Vec<Option<Spliced>>,
    pub made: String,
}

/// The file of spans of [`Spellings::made`].
pub(super) const MADE: FileId = FileId::MAX;

impl Spellings {
    /// Takes the next file of the sources.
    pub fn add(&mut self, text: &str) {
        self.files.push(spliced(text));
    }

    /// The text of a whole file.
    pub fn file<'a>(&'a self, sources: &'a SourceMap, file: FileId) -> &'a str {
        if file == MADE {
            return &self.made;
        }
        match &self.files[file as usize] {
            Some(spliced) => &spliced.text,
            None => &sources.file(file).text,
        }
    }

    pub fn text<'a>(&'a self, sources: &'a SourceMap, span: Span) -> &'a str {
        &self.file(sources, span.file)[span.range()]
    }

    /// Adds a text, of which a token can be made.
    pub fn make(&mut self, text: &str) -> Span {
        let start = self.made.len() as u32;
        self.made.push_str(text);
        Span {
            file: MADE,
            start,
            end: self.made.len() as u32,
        }
    }

    /// Where the text of a span is in its file.
    pub fn original(&self, span: Span) -> Span {
        let file = self.files.get(span.file as usize);
        let Some(Some(Spliced { gaps, .. })) = file else {
            return span;
        };
        let original = |at: u32| {
            let before = gaps.partition_point(|(gap, _)| *gap <= at);
            at + before.checked_sub(1).map_or(0, |last| gaps[last].1)
        };
        let start = original(span.start);
        // An end of line that was taken out behind it is no part of it.
        let end = match span.end > span.start {
            true => original(span.end - 1) + 1,
            false => start,
        };
        Span { start, end, ..span }
    }
}

/// The text without the ends of lines behind a `\`, also with blanks between the two, as cpp takes them.
fn spliced(text: &str) -> Option<Spliced> {
    let mut kept = String::new();
    let mut gaps = Vec::new();
    let (mut done, mut missing) = (0, 0);
    for (at, _) in text.match_indices('\\') {
        let behind = &text[at + 1..];
        let line = behind.trim_start_matches([' ', '\t', '\x0b', '\x0c', '\r']);
        if !line.starts_with('\n') {
            continue;
        }
        let end = text.len() - line.len() + 1;
        kept.push_str(&text[done..at]);
        missing += end - at;
        gaps.push((kept.len() as u32, missing as u32));
        done = end;
    }
    if gaps.is_empty() {
        return None;
    }
    kept.push_str(&text[done..]);
    Some(Spliced { text: kept, gaps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_file() {
        let mut spellings = Spellings::default();
        let (mut sources, text) = (SourceMap::default(), "ab\\\ncd \\ \t\r\ne\\\n\\\nf");
        let file = sources.add("t.p4", text);
        spellings.add(text);
        assert_eq!(spellings.file(&sources, file), "abcd ef");
        let original = |start, end| {
            let span = spellings.original(Span { file, start, end });
            &text[span.range()]
        };
        assert_eq!(original(0, 4), "ab\\\ncd");
        assert_eq!(original(0, 2), "ab");
        assert_eq!(original(2, 4), "cd");
        assert_eq!(original(5, 6), "e");
        assert_eq!(original(6, 7), "f");
    }
}
