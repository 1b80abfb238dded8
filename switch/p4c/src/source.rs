//! Source files and positions in them.

use std::ops::Range;

/// Index of a file in [`SourceMap`].
pub type FileId = u16;

/// The program itself, which is read before the files that it includes.
pub const PROGRAM: FileId = 0;

/// A byte range in one source file. Every token, expression and declaration carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// File that it is in.
    pub file: FileId,
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both. Spans of different files (a macro, an include) keep the first.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span {
            file: self.file,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Whether all of `other` is within it.
    pub fn contains(self, other: Span) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }

    /// Its offsets, as a range of the text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One file as it was read.
#[derive(Debug)]
pub struct SourceFile {
    /// Path, as messages show it.
    pub name: String,
    /// Contents, without a byte order mark.
    pub text: String,
    line_starts: Vec<u32>,
    /// Whether each byte is a character, so that columns need no counting in what may be a long line.
    is_ascii: bool,
}

impl SourceFile {
    /// The length in bytes of the longest among the lines that a span is in and those beside them.
    pub fn longest_line_around(&self, span: Span) -> usize {
        let line = |at| self.line_starts.partition_point(|start| *start <= at);
        let lines =
            line(span.start).saturating_sub(2)..self.line_starts.len().min(line(span.end) + 1);
        let end_of = |line| self.line_starts.get(line + 1).copied();
        let length = |line: usize| {
            let end = end_of(line).map_or(self.text.len(), |end| end as usize);
            end - self.line_starts[line] as usize
        };
        lines.map(length).max().unwrap_or_default()
    }
}

/// All files of one compilation.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a file. Its id is the number of those before it.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let mut text = text.into();
        // Some editors put a byte order mark before the first character.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let line_starts = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(i, _)| i as u32 + 1))
            .collect();
        self.files.push(SourceFile {
            name: name.into(),
            is_ascii: text.is_ascii(),
            text,
            line_starts,
        });
        (self.files.len() - 1) as FileId
    }

    /// Names of all files, in the order in which they were read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// The file of an id of this map.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id as usize]
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The text a span covers.
    pub fn text(&self, span: Span) -> &str {
        self.files
            .get(span.file as usize)
            .and_then(|f| f.text.get(span.range()))
            .unwrap_or("")
    }

    /// File name and line (from 1). It takes no longer where the line is long.
    pub fn line(&self, span: Span) -> (&str, usize) {
        let Some(file) = self.files.get(span.file as usize) else {
            return ("", 0);
        };
        let line = file.line_starts.partition_point(|&s| s <= span.start);
        (&file.name, line)
    }

    /// File name, line and column (both from 1).
    pub fn position(&self, span: Span) -> (&str, usize, usize) {
        let Some(file) = self.files.get(span.file as usize) else {
            return ("", 0, 0);
        };
        let (_, line) = self.line(span);
        let start = file.line_starts[line.saturating_sub(1)] as usize;
        let before = file.text.get(start..span.start as usize);
        let column = match file.is_ascii {
            true => before.map_or(0, str::len),
            false => before.map_or(0, |t| t.chars().count()),
        };
        (&file.name, line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_one() {
        let mut map = SourceMap::default();
        let file = map.add("a.p4", "ab\ncd\n");
        let span = Span {
            file,
            start: 4,
            end: 5,
        };
        assert_eq!(map.position(span), ("a.p4", 2, 2));
        assert_eq!(map.text(span), "d");
        let file = map.add("b.p4", "a\u{e9}b");
        let (start, end) = (3, 4);
        let span = Span { file, start, end };
        assert_eq!(map.position(span), ("b.p4", 1, 3));
    }

    #[test]
    fn byte_order_marks_are_no_text() {
        let mut map = SourceMap::default();
        let file = map.add("a.p4", "\u{feff}ab");
        assert_eq!(map.file(file).text, "ab");
    }
}
