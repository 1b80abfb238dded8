//! The version that a program prints: that of its package, and the commit that it was built from.
//!
//! `cargo install` compiles the commit in. Programs built by make read it from a file: compiled in, it would change the
//! programs with every commit, and stored results are looked up by the programs that made them.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// Files that may hold the commit, relative to the folder of the program: in `build/` of a work tree, and in an
/// installation.
const FILES: [&str; 2] = ["COMMIT", "../lib/ebb/COMMIT"];
/// Characters of the longest commit: SHA-256 in hexadecimal, and the + of a work tree that differs from it.
const LONGEST: usize = 65;
/// Digits of a commit that are shown.
const SHOWN: usize = 12;

/// Version and commit, such as `0.1.0 (commit 0123456789ab)`, with + behind the commit if files differed from it.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let commit = checked(env!("EBB_COMMIT")).or_else(read_beside_program);
        let commit = commit.map_or_else(|| "not recorded".to_owned(), |commit| short(&commit));
        format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"))
    })
}

/// The commit from a file beside the running program.
fn read_beside_program() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    FILES.iter().find_map(|file| read(&folder.join(file)))
}

fn read(file: &Path) -> Option<String> {
    let mut text = String::new();
    let longest = LONGEST as u64 + 1; // with its line break
    let file = std::fs::File::open(file).ok()?;
    file.take(longest).read_to_string(&mut text).ok()?;
    checked(&text)
}

/// The commit without white space at its end. None: the text is not a commit, and is not printed as one.
fn checked(text: &str) -> Option<String> {
    let text = text.trim_end();
    let digits = text.strip_suffix('+').unwrap_or(text);
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits.len() >= SHOWN && hexadecimal).then(|| text.to_owned())
}

fn short(commit: &str) -> String {
    let changed = if commit.ends_with('+') { "+" } else { "" };
    format!("{}{changed}", &commit[..SHOWN])
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn a_commit_is_shown_with_twelve_digits_and_whether_files_differ() {
        assert_eq!(short(COMMIT), "0123456789ab");
        assert_eq!(short(&format!("{COMMIT}+")), "0123456789ab+");
    }

    #[test]
    fn only_a_commit_is_taken_for_one() {
        assert_eq!(checked(&format!("{COMMIT}\n")), Some(COMMIT.to_owned()));
        assert_eq!(checked(&format!("{COMMIT}+\n")), Some(format!("{COMMIT}+")));
        for other in [
            "",
            "+",
            "0123456789a",
            "main",
            "0123456789abcdef\x1b[2J",
            "0123456789ab++",
        ] {
            assert_eq!(checked(other), None, "{other:?}");
        }
    }

    #[test]
    fn it_is_read_from_a_file_that_may_be_missing_or_anything() {
        let folder = std::env::temp_dir().join(format!("ebb-version-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("can be made");
        let file = folder.join("COMMIT");
        assert_eq!(read(&file), None);
        for (content, expected) in [(&b"\xff\xfe"[..], None), (COMMIT.as_bytes(), Some(COMMIT))] {
            std::fs::write(&file, content).expect("can be written");
            assert_eq!(read(&file).as_deref(), expected);
        }
        std::fs::remove_dir_all(&folder).expect("can be removed");
    }

    #[test]
    fn the_text_begins_with_the_version_of_the_packages() {
        let version = concat!(env!("CARGO_PKG_VERSION"), " (commit ");
        assert!(text().starts_with(version), "{}", text());
    }
}
