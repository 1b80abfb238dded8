//! The files that the compiler writes.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ebb_p4c::diagnostics::Diagnostic;
use ebb_p4c::source::SourceMap;

/// Device and inode of a file, which it has under all its names.
type Identity = (u64, u64);

/// The files of one run of the compiler.
pub struct Outputs {
    read: HashSet<Identity>,
    written: RefCell<HashSet<Identity>>,
}

impl Outputs {
    /// Outputs of a program with these files.
    pub fn of(sources: &SourceMap) -> Outputs {
        let found = sources.names().map(std::fs::metadata);
        Outputs {
            read: found.flatten().filter_map(|of| identity(&of)).collect(),
            written: RefCell::default(),
        }
    }

    /// Writes a file whole or not at all, and neither over a file of the program nor over another output.
    pub fn write(&self, file: &Path, bytes: &[u8]) -> Result<(), Box<Diagnostic>> {
        let name = file.display();
        let present = std::fs::metadata(file).ok().as_ref().and_then(identity);
        if present.is_some_and(|of| self.read.contains(&of)) {
            let message = format!("`{name}` is a file of the program, and not written over");
            return Err(problem(message, "give the output another name"));
        }
        if present.is_some_and(|of| self.written.borrow().contains(&of)) {
            let message = format!("two outputs are to be written to `{name}`");
            return Err(problem(message, "give each a name of its own"));
        }
        let cannot = |error| {
            let message = format!("cannot write `{name}`: {error}");
            Box::new(Diagnostic::global("output", message))
        };
        let mut open = File::create(file).map_err(cannot)?;
        let made = open.metadata().ok().as_ref().and_then(identity);
        if let Err(error) = open.write_all(bytes) {
            // A part of it would pass for the output of this program.
            if made.is_some() {
                let _ = std::fs::remove_file(file);
            }
            return Err(cannot(error));
        }
        self.written.borrow_mut().extend(made);
        Ok(())
    }
}

/// None: it is no ordinary file, as a terminal is none.
fn identity(of: &Metadata) -> Option<Identity> {
    of.is_file().then(|| (of.dev(), of.ino()))
}

fn problem(message: String, help: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::global("output", message).help(help))
}
