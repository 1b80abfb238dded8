//! Untrusted text, escaped for a terminal or a log.
//!
//! Names of objects, refusals and reasons come from whoever sends packets, and a compiler's messages quote programs.
//! Written as it is, such text could move the cursor, rename a window or forge a line (control characters of C0 and
//! C1), or show other text than is there (characters that change the direction of writing, or have no width).

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with unprintable characters as escapes such as `\u{1b}`. Escapes stay as they are, since a message may quote
/// another one.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, prints, |out, c| out.extend(c.escape_unicode()))
}

/// The same, except that line breaks stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    let stays = |c| c == '\n' || prints(c);
    escaped(text, stays, |out, c| out.extend(c.escape_unicode()))
}

/// The same for JSON, with the escapes of JSON: it is parsed to the same values.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    escaped(json, prints, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A String takes everything.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escaped(
    text: &str,
    stays: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if text.chars().all(&stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match stays(c) {
            true => out.push(c),
            false => escape(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal shows the character and does nothing else: those that `char::escape_debug` leaves alone, those
/// that it escapes for Rust's syntax only, and accents.
pub fn prints(c: char) -> bool {
    match c {
        '\'' | '"' | '\\' => true,
        // Combining accents: `escape_debug` escapes them because they stand alone; after a letter they print.
        '\u{300}'..='\u{36f}' => true,
        _ => c.escape_debug().len() == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Title of the window, lines, C1, direction, no width, separators of lines, tags, no character.
    const HOSTILE: [char; 16] = [
        '\u{1b}',
        '\r',
        '\n',
        '\t',
        '\u{7f}',
        '\u{85}',
        '\u{9b}',
        '\u{9d}',
        '\u{202e}',
        '\u{2066}',
        '\u{200f}',
        '\u{61c}',
        '\u{200b}',
        '\u{2028}',
        '\u{feff}',
        '\u{e0041}',
    ];

    #[test]
    fn nothing_of_a_peer_reaches_a_terminal_as_a_command() {
        assert_eq!(
            printable("\u{1b}]0;title\u{7}\r\n\u{9b}31m\u{202e}fdp"),
            "\\u{1b}]0;title\\u{7}\\u{d}\\u{a}\\u{9b}31m\\u{202e}fdp"
        );
        for c in HOSTILE {
            let text = printable(&format!("a{c}b")).into_owned();
            assert_eq!(text, format!("a\\u{{{:x}}}b", c as u32));
        }
    }

    #[test]
    fn lines_stay_lines_where_they_are_asked_for() {
        for c in HOSTILE.into_iter().filter(|c| *c != '\n') {
            let text = format!("a\n{c}");
            assert_eq!(printable_lines(&text), format!("a\n\\u{{{:x}}}", c as u32));
        }
        assert!(matches!(printable_lines("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_prints_stays() {
        for text in [
            "",
            r"C:\a",
            "model-3.bin",
            "it's \"x\"",
            "Übung 日本 e\u{301} 🦀",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn json_reads_back_as_it_was() {
        for c in HOSTILE.into_iter().chain(['a', '\\', '"', 'é', '🦀']) {
            let value = serde_json::json!({"name": format!("x{c}y")});
            let text = value.to_string();
            let shown = printable_json(&text);
            assert!(shown.chars().all(prints), "{shown}");
            let back: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(back, value);
        }
    }
}
