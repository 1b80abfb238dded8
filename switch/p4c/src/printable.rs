//! Messages and the source that they quote, made fit for a terminal: programs come from others.

use ebb_printable::{printable_lines, prints};

use crate::diagnostics::Diagnostic;

/// Everything that a message says.
pub fn diagnostic(diagnostic: &Diagnostic) -> Diagnostic {
    let text = |text: &String| printable_lines(text).into_owned();
    Diagnostic {
        message: text(&diagnostic.message),
        label: text(&diagnostic.label),
        notes: diagnostic
            .notes
            .iter()
            .map(|(span, note)| (*span, text(note)))
            .collect(),
        help: diagnostic.help.as_ref().map(text),
        ..*diagnostic
    }
}

/// As long as the source, so that places stay what they are: a question mark for each byte of what does not print.
pub fn source(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let ends_line = c == '\n' || c == '\r' && characters.peek() == Some(&'\n');
        match c == '\t' || ends_line || prints(c) {
            true => out.push(c),
            false => out.extend(std::iter::repeat_n('?', c.len_utf8())),
        }
    }
    out
}
