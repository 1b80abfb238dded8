//! What a user without rights can ask the fabric service for: nothing.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ebb_test_needs::Need;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

const PATIENCE: Duration = Duration::from_secs(20);
const NOBODY: u32 = 65534;

struct Fabric {
    process: Child,
    directory: PathBuf,
    socket: PathBuf,
}

impl Fabric {
    fn start() -> Self {
        let name = format!("ebb-user-test-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("fabric.toml");
        let text = r#"
            fabric_socket = "fabric.sock"
            [[switch]]
            name = "s1"
            device_id = 1
            grpc_server_addr = "127.0.0.1:0"
        "#;
        std::fs::write(&file, text).expect("written");
        let process = Command::new(env!("CARGO_BIN_EXE_ebb-switch"))
            .args(["--fabric", file.to_str().expect("UTF-8"), "-L", "error"])
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let socket = directory.join("fabric.sock");
        let fabric = Self {
            process,
            directory,
            socket,
        };
        let began = Instant::now();
        while first_bytes(&fabric.socket).is_err() {
            assert!(began.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(20));
        }
        fabric
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What the server says first: its HTTP/2 settings.
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

ebb_test_needs::tests! {
    Need::Root => [another_user_gets_no_answer],
}
