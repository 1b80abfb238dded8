//! A Unix socket for root and for the user that runs this process.
//!
//! Its file has mode 0600, and every peer is asked for its user: so it is as well guarded in a folder that
//! others can read, and while the mode is not set yet.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tokio::net::UnixStream as Accepted;

use crate::connections::Listen;

/// The longest path of a socket: an address has 108 bytes with the zero at its end (unix(7)).
const MAX_PATH_BYTES: usize = 107;

pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl PrivateSocket {
    /// Makes the socket. One that a process has left behind at its end is replaced.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let length = path.as_os_str().len();
        if length > MAX_PATH_BYTES {
            return Err(io::Error::other(format!(
                "the path of a socket has at most {MAX_PATH_BYTES} bytes, this one has {length}"
            )));
        }
        if is_socket(path) {
            match UnixStream::connect(path) {
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(_) => fs::remove_file(path)?,
            }
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn listener(&self) -> io::Result<impl Listen + use<>> {
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        let user = rustix::process::geteuid().as_raw();
        Ok(Private { listener, user })
    }
}

/// Whether the file of that name itself, not what a symbolic link leads to, is a socket.
fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // The next one would replace it, too.
        let _ = fs::remove_file(&self.path);
    }
}

struct Private {
    listener: tokio::net::UnixListener,
    user: u32,
}

impl Listen for Private {
    type Io = Accepted;

    async fn next(&self) -> io::Result<Accepted> {
        let (stream, _) = self.listener.accept().await?;
        let peer = stream.peer_cred()?.uid();
        match may_connect(peer, self.user) {
            true => Ok(stream),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

fn may_connect(peer: u32, owner: u32) -> bool {
    peer == 0 || peer == owner
}

#[cfg(test)]
mod tests {
    use ebb_testkit::Folder;

    use super::*;

    fn refusal(path: &Path) -> io::Error {
        PrivateSocket::bind(path).err().expect("refused")
    }

    #[test]
    fn nobody_else_may_open_it_and_it_goes_away_again() {
        let folder = Folder::new("socket");
        let path = folder.join("s");
        let socket = PrivateSocket::bind(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(refusal(&path).kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_without_a_process_is_replaced_and_nothing_else_is() {
        let folder = Folder::new("socket");
        let path = folder.join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        PrivateSocket::bind(&path).unwrap();
        let file = folder.join("file");
        fs::write(&file, "mine").unwrap();
        refusal(&file);
        std::os::unix::fs::symlink(&file, folder.join("link")).unwrap();
        refusal(&folder.join("link"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        let long = folder.join("n".repeat(100));
        assert!(refusal(&long).to_string().contains("at most 107 bytes"));
    }

    #[test]
    fn root_and_the_owner_may_connect() {
        assert!(may_connect(0, 1000) && may_connect(1000, 1000));
        assert!(!may_connect(1000, 0) && !may_connect(1001, 1000));
    }
}
