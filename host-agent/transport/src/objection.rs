//! Why an object was of no use where it arrived, for its sender: one of a few reasons, whose words are those
//! of the sender's host. Text of a peer would have to be believed.

/// Reason for which the user of a transport refuses an arriving object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Objection {
    /// A file of its name is there already, and none is overwritten.
    NameTaken,
    /// No file may have its name there.
    BadName,
    /// The content has another hash than its envelope says.
    WrongContent,
}

impl Objection {
    /// All reasons.
    pub const ALL: [Objection; 3] = [
        Objection::NameTaken,
        Objection::BadName,
        Objection::WrongContent,
    ];

    /// On the wire: in a RESET (`docs/wire-format.md`).
    pub fn code(self) -> u32 {
        match self {
            Objection::NameTaken => 7,
            Objection::BadName => 8,
            Objection::WrongContent => 9,
        }
    }

    /// The reason of a code; none for codes of other causes.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|objection| objection.code() == code)
    }

    /// On the wire: in a segment with RST, which may say in text what caused it (RFC 1122 4.2.2.12).
    pub fn word(self) -> &'static str {
        match self {
            Objection::NameTaken => "name-taken",
            Objection::BadName => "bad-name",
            Objection::WrongContent => "wrong-content",
        }
    }

    /// The reason of a word; none for any other text.
    pub fn from_word(word: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|objection| objection.word().as_bytes() == word)
    }

    /// For the record of the flow that sent the object.
    pub fn describe(self) -> &'static str {
        match self {
            Objection::NameTaken => {
                "it refused the object: a file of that name is there already, and it overwrites none; \
                 send it under another name, or start the receiver with --overwrite"
            }
            Objection::BadName => "it refused the object: it takes no file of that name",
            Objection::WrongContent => {
                "it refused the object: what arrived is not what was announced (SHA-256)"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood_and_nothing_else() {
        for objection in Objection::ALL {
            assert_eq!(Objection::from_code(objection.code()), Some(objection));
            let word = objection.word().as_bytes();
            assert_eq!(Objection::from_word(word), Some(objection));
            assert_eq!(Objection::from_word(&word[1..]), None);
        }
        assert_eq!(Objection::from_code(5), None);
        assert_eq!(Objection::from_word(b"\x1b]0;x"), None);
    }
}
