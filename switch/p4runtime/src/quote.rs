//! Words of a client in the errors that it gets. Errors travel in headers, whose size is limited.

use std::borrow::Cow;

use prost_types::Any;

const MAX_CHARACTERS: usize = 100;

/// The text, or its beginning.
pub fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_CHARACTERS) {
        None => text.into(),
        Some((end, _)) => format!("{}.. ({} bytes)", &text[..end], text.len()).into(),
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
    }
}
