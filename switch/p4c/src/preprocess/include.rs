//! Search for included files.

use std::fs::File;
use std::io::{Error, Read};
use std::path::{Path, PathBuf};

use crate::diagnostics::nearest;

/// The most bytes of an included file, so that one that never ends is refused. The largest public program has less than
/// a megabyte in all its files.
const MAX_BYTES: u64 = 1 << 26;

const PSA: &str = include_str!("../../p4include/psa.p4");
const TNA: &str = include_str!("../../p4include/tna.p4");
const T2NA: &str = include_str!("../../p4include/t2na.p4");

/// The library files that live inside the compiler.
const EMBEDDED: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../p4include/core.p4")),
    ("v1model.p4", include_str!("../../p4include/v1model.p4")),
    ("psa.p4", PSA),
    ("tna.p4", TNA),
    ("t2na.p4", T2NA),
    (
        "ebb_tofino.p4",
        include_str!("../../p4include/ebb_tofino.p4"),
    ),
    // Where p4c has it.
    ("bmv2/psa.p4", PSA),
    // The parts of p4c's tna.p4 and t2na.p4, which some programs include in its place: the first brings all.
    ("tofino1_specs.p4", TNA),
    ("tofino1_base.p4", TNA),
    ("tofino1_arch.p4", TNA),
    ("tofino2_specs.p4", T2NA),
    ("tofino2_base.p4", T2NA),
    ("tofino2_arch.p4", T2NA),
];

/// The library file that declares a name at its top level.
pub fn library_with(name: &str) -> Option<&'static str> {
    let declares = |line: &str| {
        let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        !line.starts_with([' ', '#', '/']) && words.into_iter().any(|w| w == name)
    };
    EMBEDDED
        .iter()
        .find(|(_, text)| text.lines().any(declares))
        .map(|(file, _)| *file)
}

/// Files by which programs for other architectures are known.
const OTHER_ARCHITECTURES: &[&str] = &[
    "pna.p4",
    "ebpf_model.p4",
    "ubpf_model.p4",
    "xdp_model.p4",
    "tc_may_override.p4",
];

/// A file, and its name in messages.
pub struct Found {
    pub name: String,
    pub text: String,
    /// The folder of the list at which a search for the next file of that name begins.
    pub next_folder: usize,
}

/// Reason why an included file cannot be read.
pub struct Missing {
    pub code: &'static str,
    pub problem: String,
    pub help: String,
}

/// Finds and reads an included file. `own_folder`: the folder of the file with the `#include "..."`, which is searched
/// first. None: only the include folders are searched.
pub fn find(
    path: &str,
    own_folder: Option<&Path>,
    include_dirs: &[PathBuf],
) -> Result<Found, Missing> {
    let own_folder = own_folder.map(|own| (0, own));
    let dirs = own_folder
        .into_iter()
        .chain((1..).zip(include_dirs.iter().map(PathBuf::as_path)));
    let mut searched = Vec::new();
    for (next_folder, dir) in dirs {
        let candidate = dir.join(path);
        let name = candidate.display().to_string();
        match read(&candidate) {
            Ok(bytes) => {
                return text(name, bytes).map(|found| Found {
                    next_folder,
                    ..found
                });
            }
            // Another folder may have it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) if candidate.is_dir() => {}
            Err(error) => {
                return Err(Missing {
                    code: "include-unreadable",
                    problem: format!("cannot read the include file `{name}`: {error}"),
                    help: "it must be an ordinary file that you may read".into(),
                });
            }
        }
        let shown = dir.display().to_string();
        searched.push(if shown.is_empty() { ".".into() } else { shown });
    }
    if let Some((name, text)) = EMBEDDED.iter().find(|(name, _)| *name == path) {
        return Ok(Found {
            name: format!("<{name}>"),
            text: (*text).to_owned(),
            next_folder: include_dirs.len(),
        });
    }
    searched.push("the compiler's own files".into());
    let other = OTHER_ARCHITECTURES
        .iter()
        .any(|file| Path::new(path).ends_with(file));
    let searched = searched.join(", ");
    Err(match other {
        true => Missing {
            code: "other-architecture",
            problem: format!("`{path}` is of an architecture that this compiler does not know"),
            help: format!(
                "it knows v1model.p4, tna.p4, t2na.p4 and psa.p4; searched in: {searched}"
            ),
        },
        false => Missing {
            code: "include-not-found",
            problem: format!("cannot find the include file `{path}`"),
            help: match nearest(path, EMBEDDED.iter().map(|(name, _)| *name)) {
                Some(meant) => format!("did you mean `{meant}`? Searched in: {searched}"),
                None => format!("searched in: {searched}; add a folder with -I"),
            },
        },
    })
}

/// Pipes and devices are refused before they are opened: a source that is not trusted could name
/// one that never ends, or that waits for ever.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(Error::other("it is not an ordinary file"));
    }
    read_to_end(File::open(path)?)
}

/// Reads all of a file or pipe; more than [`MAX_BYTES`] are an error.
pub fn read_to_end(source: impl Read) -> Result<Vec<u8>, Error> {
    ebb_files::read_bounded(source, MAX_BYTES)
}

/// The text of a file that was read.
pub fn text(name: String, bytes: Vec<u8>) -> Result<Found, Missing> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Found {
            name,
            text,
            next_folder: 0,
        }),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = &error.as_bytes()[..valid];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(Missing {
                code: "include-unreadable",
                problem: format!("the file `{name}` is not UTF-8 text"),
                help: format!(
                    "byte 0x{:02x} in its line {line} is no UTF-8; convert the file",
                    error.as_bytes()[valid]
                ),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_testkit::Folder;

    use super::*;

    #[test]
    fn what_is_no_text_says_where() {
        let folder = Folder::new("include");
        folder.write("latin.p4", b"// fine\n// caf\xe9\n");
        let missing = find("latin.p4", Some(&folder), &[])
            .err()
            .expect("unreadable");
        assert_eq!(missing.code, "include-unreadable");
        assert!(missing.problem.ends_with("latin.p4` is not UTF-8 text"));
        assert!(missing.help.starts_with("byte 0xe9 in its line 2 "));
    }

    #[test]
    fn what_never_ends_is_refused_before_it_is_read() {
        let refused = |path: &str| find(path, Some(Path::new("/dev")), &[]).err();
        for device in ["zero", "/dev/zero", "urandom"] {
            let missing = refused(device).expect("refused");
            assert_eq!(missing.code, "include-unreadable");
            let why = missing.problem;
            assert!(why.ends_with("it is not an ordinary file"), "{why}");
        }
        let folder = Folder::new("include");
        // It has a hole in place of bytes.
        let file = File::create(folder.join("large.p4")).expect("a file");
        file.set_len(MAX_BYTES + 1).expect("a size");
        let missing = find("large.p4", Some(&folder), &[]).err();
        let why = missing.expect("refused").problem;
        assert!(why.ends_with("it has more than 67108864 bytes"), "{why}");
    }

    #[test]
    fn folders_come_before_the_files_of_the_compiler() {
        let found = |path| find(path, None, &[]).map(|f| f.name).map_err(|m| m.code);
        assert_eq!(found("core.p4"), Ok("<core.p4>".into()));
        assert_eq!(found("bmv2/pna.p4"), Err("other-architecture"));
        assert_eq!(found("bmv2/psa.p4"), Ok("<bmv2/psa.p4>".into()));
        assert_eq!(found("mine.p4"), Err("include-not-found"));
    }
}
