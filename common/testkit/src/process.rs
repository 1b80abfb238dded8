//! Processes of tests.

use std::io::{BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, kill_process};

pub use rustix::process::Signal;

use crate::wait_until;

/// A process; killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command. A stream that is read must have been made a pipe by it.
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its standard output; to be taken once.
    pub fn stdout(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("a pipe, not taken before"))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        // It has not been waited for, so its id is still its own.
        kill_process(Pid::from_child(&self.0), signal).expect("not waited for");
    }

    /// Stops it while all its threads sleep, as an engine does that waits for its next deadline. To be resumed with
    /// [`Signal::CONT`].
    pub fn stop_asleep(&self) {
        wait_until("the process sleeps", || {
            let asleep = self.all_threads_sleep();
            if asleep {
                self.signal(Signal::STOP);
            }
            asleep
        });
    }

    /// Whether the kernel shows all its threads in an interruptible sleep (proc(5), `/proc/PID/task/TID/stat`).
    fn all_threads_sleep(&self) -> bool {
        let threads =
            std::fs::read_dir(format!("/proc/{}/task", self.id())).expect("not waited for");
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name of the process, in parentheses, may hold anything.
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| state.starts_with('S'))
        })
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the process ends", || self.has_ended());
        self.0.wait().expect("a child")
    }

    /// Waits for its end; returns its exit code (none: a signal ended it) and what it has said on stderr.
    pub fn end(mut self) -> (Option<i32>, String) {
        let said = self.said();
        (self.wait().code(), said)
    }

    /// Its standard error; to be taken once.
    pub fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().expect("a pipe, not taken before"))
    }

    /// Its standard error, until that is closed.
    pub fn said(&mut self) -> String {
        let mut text = Vec::new();
        self.stderr().read_to_end(&mut text).expect("readable");
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A loopback address at which nobody listens, another one each time. Its port is below those that Linux gives to
/// connections (`ip_local_port_range`), one of which could take it before the test does.
pub fn free_address() -> SocketAddr {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Processes that run side by side begin at different ports.
    let first = std::process::id().wrapping_mul(97);
    loop {
        let number = first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + (number % 22_000) as u16;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        Process::start(command.args(["-c", script]).stderr(Stdio::piped()))
    }

    #[test]
    fn its_end_is_told_with_what_it_has_said() {
        assert_eq!(
            shell("echo why >&2; exit 3").end(),
            (Some(3), "why\n".into())
        );
        let sleeping = shell("exec sleep 100");
        sleeping.signal(Signal::TERM);
        assert_eq!(sleeping.end(), (None, String::new()));
    }

    #[test]
    fn it_is_stopped_when_it_sleeps() {
        let process = shell("exec sleep 100");
        process.stop_asleep();
        wait_until("it is stopped", || !process.all_threads_sleep());
        process.signal(Signal::CONT);
        wait_until("it sleeps again", || process.all_threads_sleep());
    }

    #[test]
    fn it_does_not_outlive_its_test() {
        let process = shell("exec sleep 100");
        let proc = format!("/proc/{}", process.id());
        assert!(std::fs::exists(&proc).expect("readable"));
        drop(process);
        assert!(!std::fs::exists(&proc).expect("readable"));
    }
}
