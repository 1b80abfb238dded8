//! A message as a JSON object, for editors and programs: `--error-format=json` writes one a line.
//!
//! ```text
//! {"severity": "warning", "code": "unused", "message": "..", "place": {"file": "a.p4", "line": 3, "column": 5,
//!  "end_line": 3, "end_column": 9}, "notes": [{"message": "declared here", "place": {..}}], "help": ".."}
//! ```

use std::borrow::Cow;

use ebb_printable::printable_lines;
use serde::Serialize;

use super::Diagnostic;
use crate::source::{SourceMap, Span};

#[derive(Serialize)]
struct Message<'a> {
    /// error, warning or info
    severity: &'static str,
    /// The name of the cause, which `--Wdisable` and its kin take.
    code: &'static str,
    message: &'a str,
    /// None for what belongs to no place in a file.
    place: Option<Place<'a>>,
    notes: Vec<Note<'a>>,
    help: Option<&'a str>,
}

#[derive(Serialize)]
struct Note<'a> {
    message: &'a str,
    place: Place<'a>,
}

/// Lines and columns count from 1, columns in characters; the end is behind the last character.
#[derive(Serialize)]
struct Place<'a> {
    file: Cow<'a, str>,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

impl<'a> Place<'a> {
    fn of(span: Span, sources: &'a SourceMap) -> Place<'a> {
        let (file, line, column) = sources.position(span);
        let end = Span {
            start: span.end,
            ..span
        };
        let (_, end_line, end_column) = sources.position(end);
        Place {
            file: printable_lines(file),
            line,
            column,
            end_line,
            end_column,
        }
    }
}

/// The object and the end of its line.
pub(super) fn line(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let notes = diagnostic.notes.iter();
    let message = Message {
        severity: diagnostic.severity.word(),
        code: diagnostic.code,
        message: &diagnostic.message,
        place: diagnostic.span.map(|span| Place::of(span, sources)),
        notes: notes
            .map(|(span, text)| Note {
                message: text,
                place: Place::of(*span, sources),
            })
            .collect(),
        help: diagnostic.help.as_deref(),
    };
    // Nothing of it can fail to be JSON.
    serde_json::to_string(&message).unwrap_or_default() + "\n"
}
