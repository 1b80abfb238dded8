//! Text of a program, made fit for a terminal: programs come from others, and messages quote them.
//!
//! What does not print could move the cursor, rename a window or forge a line (control characters
//! of C0 and C1), or show other text than is there (characters that change the direction of
//! writing, or have no width).

use crate::diagnostics::Diagnostic;

/// With escapes in place of what does not print; lines stay lines.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c == '\n' || prints(c) {
            true => out.push(c),
            false => out.extend(c.escape_unicode()),
        }
    }
    out
}

/// Everything that a message says.
pub fn diagnostic(diagnostic: &Diagnostic) -> Diagnostic {
    let note = |(span, note): &(_, String)| (*span, text(note));
    Diagnostic {
        message: text(&diagnostic.message),
        label: text(&diagnostic.label),
        notes: diagnostic.notes.iter().map(note).collect(),
        help: diagnostic.help.as_deref().map(text),
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

/// What `char::escape_debug` leaves alone prints, and so does all of ASCII that is not a control
/// character, and accents.
fn prints(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // Escaped where they stand alone; behind a letter they print.
        '\u{300}'..='\u{36f}' => true,
        _ => c.escape_debug().len() == 1,
    }
}
