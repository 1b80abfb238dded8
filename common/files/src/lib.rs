//! Reading of whole files that other programs or people wrote. A path may name a device, which never ends, so the
//! length is bounded.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Longest file that is read, in bytes; files that people or programs write for Ebb are far shorter.
pub const MAX_BYTES: u64 = 1 << 30;

/// The content of a file. One that is longer than [`MAX_BYTES`] is an error.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    read_bounded(File::open(path)?, MAX_BYTES)
}

/// The text of a file, which is UTF-8. One that is longer than [`MAX_BYTES`] is an error.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::other(format!("it is not UTF-8 text (byte {at})"))
    })
}

/// The content of a file or pipe. More than `most` bytes are an error.
pub fn read_bounded(source: impl Read, most: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(Error::other(format!("it has more than {most} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_up_to_the_bound() {
        let error = read_bounded(std::io::repeat(0), 1_000).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 1000 bytes");
        assert_eq!(read_bounded(&[7; 1_000][..], 1_000).unwrap().len(), 1_000);
    }

    #[test]
    fn what_is_not_text_says_where() {
        let path = std::env::temp_dir().join(format!("ebb-files-{}", std::process::id()));
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.to_string(), "it is not UTF-8 text (byte 2)");
    }
}
