//! Words of a client in the errors that it gets. Errors travel in headers, whose size is limited.

use std::borrow::Cow;

use ebb_printable::printable;
use prost_types::Any;

const MAX_CHARACTERS: usize = 100;

/// The text, or its beginning, so that a terminal shows it and does nothing else.
pub fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_CHARACTERS) {
        None => printable(text),
        Some((end, _)) => format!("{}.. ({} bytes)", printable(&text[..end]), text.len()).into(),
    }
}

/// The name of a message's type, without the address in front of it.
pub fn type_of(any: &Any) -> &str {
    any.type_url.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_between_characters() {
        let long = "\u{e9}".repeat(101);
        assert_eq!(short(&long), "\u{e9}".repeat(100) + ".. (202 bytes)");
        assert_eq!(short(&long[2..]), &long[2..]);
        assert_eq!(short("\u{1b}]0;x"), "\\u{1b}]0;x");
    }
}
