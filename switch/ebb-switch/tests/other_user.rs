//! Rights of another user at the fabric service: none.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use ebb_testkit::{Folder, Need, PATIENCE, Process, wait_until};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use crate::server::SWITCH;

const NOBODY: u32 = 65534;

struct Fabric {
    _process: Process,
    _folder: Folder,
    socket: PathBuf,
}

impl Fabric {
    fn start() -> Self {
        let folder = Folder::new("other-user");
        let text = r#"
            fabric_socket = "fabric.sock"
            [[switch]]
            name = "s1"
            device_id = 1
            grpc_server_addr = "127.0.0.1:0"
        "#;
        let file = folder.write("fabric.toml", text);
        let mut command = Command::new(SWITCH);
        command.arg("--fabric").arg(file).args(["-L", "error"]);
        let process = Process::start(command.stderr(Stdio::null()));
        let socket = folder.join("fabric.sock");
        wait_until("the service answers", || first_bytes(&socket).is_ok());
        Self {
            _process: process,
            _folder: folder,
            socket,
        }
    }
}

/// First bytes of the server: its HTTP/2 settings.
fn first_bytes(socket: &Path) -> io::Result<usize> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read(&mut [0; 1])
}

fn first_bytes_as_nobody(socket: &Path) -> io::Result<usize> {
    let socket = socket.to_owned();
    let nobody = thread::spawn(move || {
        let user = Uid::from_raw(NOBODY);
        // Only this thread becomes the other user.
        set_thread_res_uid(user, user, user).expect("as root");
        first_bytes(&socket)
    });
    nobody.join().expect("no panic")
}

fn another_user_gets_no_answer() {
    let fabric = Fabric::start();
    let refused = first_bytes_as_nobody(&fabric.socket).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    // The peer is refused even if somebody has opened the file for all.
    let all = Permissions::from_mode(0o777);
    std::fs::set_permissions(&fabric.socket, all).expect("changed");
    match first_bytes_as_nobody(&fabric.socket) {
        Ok(bytes) => assert_eq!(bytes, 0, "closed without a word"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert_eq!(first_bytes(&fabric.socket).expect("answered"), 1);
}

ebb_testkit::tests! {
    Need::Root => [another_user_gets_no_answer],
}
