//! Where captures are written: nowhere but in one folder, whatever a client says.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use tonic::Status;

use crate::quote::short;

const MAX_NAME_BYTES: usize = 100;
const SUFFIX: &str = ".pcap";

/// The path of a capture in the folder, without direction and suffix. Makes the folder if it is not there.
pub fn stem(folder: &Path, name: &str) -> Result<PathBuf, Status> {
    let stem = name.trim_end_matches(SUFFIX);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = (1..=MAX_NAME_BYTES).contains(&stem.len())
        && !stem.starts_with('.')
        && stem.chars().all(allowed);
    if !good {
        return Err(Status::invalid_argument(format!(
            "name \"{}\": expected 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.', without a folder \
             and not beginning with '.'; captures are written to {}",
            short(name),
            folder.display()
        )));
    }
    own_folder(folder).map_err(|problem| {
        Status::failed_precondition(format!("folder {}: {problem}", folder.display()))
    })?;
    Ok(folder.join(stem))
}

fn own_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // The folder itself, not what a symbolic link leads to.
    let found = fs::symlink_metadata(folder)?;
    match found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(io::Error::other(
            "captures are written to a folder of the user that runs the switch, and this is none",
        )),
    }
}

/// A port of a switch: index in the layout, number.
type Place = (usize, u16);

/// Captures that have begun and were not stopped.
#[derive(Default)]
pub struct Running(BTreeMap<Place, PathBuf>);

impl Running {
    /// The other place whose capture a capture into these files would take them from.
    pub fn writer_of(&self, stem: &Path, place: Place) -> Option<Place> {
        let mut others = self.0.iter().filter(|(other, _)| **other != place);
        others.find_map(|(other, files)| (files == stem).then_some(*other))
    }

    /// Notes that a capture has begun, which ends another one at this place.
    pub fn begins(&mut self, place: Place, stem: PathBuf) {
        self.0.insert(place, stem);
    }

    /// Notes that there is none any more.
    pub fn ends(&mut self, place: Place) {
        self.0.remove(&place);
    }
}

/// The two files of a capture: what the switch receives, and what it sends.
pub fn files(stem: &Path) -> [String; 2] {
    ["in", "out"].map(|direction| format!("{}_{direction}{SUFFIX}", stem.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_but_into_the_folder() {
        let name = format!("ebb-captures-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for name in ["s1-eth1", "s1-eth1.pcap"] {
            assert_eq!(stem(&folder, name).unwrap(), folder.join("s1-eth1"));
        }
        assert_eq!(
            files(Path::new("/f/a")),
            ["/f/a_in.pcap", "/f/a_out.pcap"].map(str::to_owned)
        );
        let long = "x".repeat(101);
        for name in [
            "", ".pcap", ".x", "..", "../x", "/etc/x", "a/b", "a\0b", "a b", "a\nb", "\u{e9}",
            &long,
        ] {
            let refused = stem(&folder, name).unwrap_err();
            assert!(refused.message().contains("without a folder"), "{refused}");
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        let refused = stem(&link, "x").unwrap_err();
        assert!(refused.message().ends_with("and this is none"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn two_ports_do_not_write_the_same_files() {
        let (mut running, [a, b]) = (Running::default(), ["/f/a", "/f/b"].map(Path::new));
        running.begins((0, 1), a.to_owned());
        assert_eq!(running.writer_of(a, (0, 2)), Some((0, 1)));
        assert_eq!(running.writer_of(a, (1, 1)), Some((0, 1)));
        assert_eq!(running.writer_of(b, (0, 2)), None);
        // A new one at the port itself takes the place of the old one.
        assert_eq!(running.writer_of(a, (0, 1)), None);
        running.begins((0, 1), b.to_owned());
        assert_eq!(running.writer_of(a, (0, 2)), None);
        running.ends((0, 1));
        assert_eq!(running.writer_of(b, (0, 2)), None);
    }
}
