//! Objects as files: where they are read from and written to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use ebb_transport::object::{EnvelopeHeader, EnvelopeReader, ObjectSource};

use crate::file_lock::try_lock;

/// A file to be sent, read piece by piece.
pub struct FileSource {
    file: File,
    bytes: u64,
}

impl FileSource {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        // Opening a FIFO would wait for a writer.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .with_context(|| format!("cannot open {shown}"))?;
        let metadata = file
            .metadata()
            .with_context(|| format!("cannot read {shown}"))?;
        anyhow::ensure!(metadata.is_file(), "{shown} is not a regular file");
        Ok(FileSource {
            file,
            bytes: metadata.len(),
        })
    }
}

impl ObjectSource for FileSource {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file
            .read_exact_at(buf, offset)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::new(
                    error.kind(),
                    "the file has become shorter since it was opened",
                ),
                _ => error,
            })
    }
}

/// An object that is being received. Unless [`finish`](Self::finish) succeeds, nothing stays.
pub struct Sink {
    /// `None`: verify and discard.
    dir: Option<PathBuf>,
    /// Keeps the temporary names of concurrent flows apart.
    unique: String,
    reader: EnvelopeReader,
    temporary: Option<Temporary>,
}

/// A file that disappears unless it is kept. It is locked while its receiver lives.
struct Temporary {
    file: File,
    path: PathBuf,
}

const TEMPORARY_PREFIX: &str = ".ebb-";
const TEMPORARY_SUFFIX: &str = ".part";

impl Temporary {
    fn create(dir: &Path, unique: &str) -> anyhow::Result<Self> {
        let path = dir.join(format!("{TEMPORARY_PREFIX}{unique}{TEMPORARY_SUFFIX}"));
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let temporary = Temporary { file, path };
        // A file system without locks only keeps more of what a killed receiver leaves.
        let _ = try_lock(&temporary.file);
        Ok(temporary)
    }
}

/// Removes the temporary files of receivers that were killed: nobody holds their locks.
pub fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with(TEMPORARY_PREFIX)
            || !name.ends_with(TEMPORARY_SUFFIX)
            || !entry.file_type()?.is_file()
        {
            continue;
        }
        // One that vanishes meanwhile, or is somebody's, is none of ours.
        if let Ok(file) = File::open(entry.path())
            && try_lock(&file).unwrap_or(false)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Sink {
    pub fn new(dir: Option<PathBuf>, unique: String) -> Self {
        Sink {
            dir,
            unique,
            reader: EnvelopeReader::new(),
            temporary: None,
        }
    }

    /// What the envelope says, as far as it has arrived.
    pub fn envelope(&self) -> Option<&EnvelopeHeader> {
        self.reader.header()
    }

    /// The next bytes of the stream.
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let content = self.reader.push(bytes)?;
        if let Some(dir) = &self.dir
            && let Some(header) = self.reader.header()
        {
            let temporary = match &mut self.temporary {
                Some(temporary) => temporary,
                None => {
                    anyhow::ensure!(
                        !header.name.starts_with(TEMPORARY_PREFIX),
                        "`{}` is refused: names with {TEMPORARY_PREFIX} are for temporary files",
                        header.name.escape_debug()
                    );
                    self.temporary.insert(Temporary::create(dir, &self.unique)?)
                }
            };
            temporary
                .file
                .write_all(content)
                .with_context(|| format!("cannot write `{}`", header.name))?;
        }
        Ok(())
    }

    /// The stream has ended. Checks the hash and gives the file its name.
    pub fn finish(self) -> anyhow::Result<EnvelopeHeader> {
        let header = self.reader.finish()?;
        if let (Some(dir), Some(temporary)) = (&self.dir, &self.temporary) {
            let path = dir.join(&header.name);
            std::fs::rename(&temporary.path, &path)
                .with_context(|| format!("cannot rename to {}", path.display()))?;
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_transport::object::{Envelope, GeneratedSource};
    use std::sync::Arc;

    fn stream(name: &str, bytes: u64) -> Vec<u8> {
        let content = Arc::new(GeneratedSource { seed: 1, bytes });
        let envelope = Envelope::new(name, content).unwrap();
        let mut stream = vec![0; envelope.len() as usize];
        envelope.read_at(0, &mut stream).unwrap();
        stream
    }

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("ebb-sink-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Dir(dir)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            entries
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_right_object_gets_its_name_at_the_end() {
        let dir = Dir::new("right");
        let mut sink = Sink::new(Some(dir.0.clone()), "7".into());
        for part in stream("a.bin", 10_000).chunks(999) {
            sink.write(part).unwrap();
            assert_eq!(dir.names(), [".ebb-7.part"]);
        }
        sink.finish().unwrap();
        assert_eq!(dir.names(), ["a.bin"]);
        assert_eq!(
            std::fs::metadata(dir.0.join("a.bin")).unwrap().len(),
            10_000
        );
    }

    #[test]
    fn leftovers_go_and_files_in_use_stay() {
        let dir = Dir::new("leftovers");
        std::fs::write(dir.0.join(".ebb-old.part"), "killed").unwrap();
        std::fs::write(dir.0.join("mine.part"), "").unwrap();
        let mut sink = Sink::new(Some(dir.0.clone()), "7".into());
        sink.write(&stream("a.bin", 10)).unwrap();
        remove_leftovers(&dir.0).unwrap();
        let mut names = dir.names();
        names.sort();
        assert_eq!(names, [".ebb-7.part", "mine.part"]);
        sink.finish().unwrap();
    }

    #[test]
    fn the_temporary_file_of_another_flow_is_out_of_reach() {
        let dir = Dir::new("reach");
        let mut sink = Sink::new(Some(dir.0.clone()), "8".into());
        let error = sink.write(&stream(".ebb-7.part", 10)).unwrap_err();
        assert!(error.to_string().contains("is refused"), "{error}");
        assert!(dir.names().is_empty());
    }

    #[test]
    fn only_regular_files_are_sent_and_a_fifo_is_not_waited_for() {
        let dir = Dir::new("regular");
        let fifo = dir.0.join("fifo");
        let status = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(status.unwrap().success());
        for path in [&fifo, &dir.0] {
            let error = FileSource::open(path).err().unwrap().to_string();
            assert!(error.contains("is not a regular file"), "{error}");
        }
    }

    #[test]
    fn a_wrong_or_unfinished_object_leaves_nothing() {
        let dir = Dir::new("wrong");
        let mut bytes = stream("a.bin", 1000);
        let unfinished = bytes.len() - 1;
        let mut sink = Sink::new(Some(dir.0.clone()), "7".into());
        sink.write(&bytes[..unfinished]).unwrap();
        assert!(sink.finish().is_err());
        bytes[500] ^= 1;
        let mut sink = Sink::new(Some(dir.0.clone()), "7".into());
        sink.write(&bytes).unwrap();
        assert!(sink.finish().is_err());
        assert!(dir.names().is_empty());
    }
}
