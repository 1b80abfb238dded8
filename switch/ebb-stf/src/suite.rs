//! Finds tests and runs each in a process of its own, so that none can take others with it.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::options::Arguments;
use crate::verdict::{Outcome, Verdict};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub program: PathBuf,
    pub script: PathBuf,
}

/// The tests that the paths on the command line stand for.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Pair>> {
    if let [program, script] = paths
        && !program.is_dir()
        && is(script, "stf")
        && !is(program, "stf")
    {
        return Ok(vec![Pair {
            program: program.clone(),
            script: script.clone(),
        }]);
    }
    let mut pairs = BTreeSet::new();
    for path in paths {
        if path.is_dir() {
            search(path, &mut pairs)?;
        } else if let Some(pair) = pair(path) {
            pairs.insert(pair);
        } else {
            bail!(
                "{}: there is no program with an .stf file of the same name beside it",
                path.display()
            );
        }
    }
    Ok(pairs.into_iter().collect())
}

fn search(folder: &Path, pairs: &mut BTreeSet<Pair>) -> Result<()> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        // No links, which might lead in circles.
        if entry.file_type()?.is_dir() {
            search(&path, pairs)?;
        } else if is(&path, "stf") {
            pairs.extend(pair(&path));
        }
    }
    Ok(())
}

fn pair(path: &Path) -> Option<Pair> {
    let script = path.with_extension("stf");
    let programs = ["p4", "json"].map(|extension| path.with_extension(extension));
    let program = match is(path, "stf") {
        true => programs.into_iter().find(|program| program.exists())?,
        false => path.to_owned(),
    };
    (program.exists() && script.exists()).then_some(Pair { program, script })
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

/// Runs all tests, and calls `done` as each ends. The verdicts are in the order of the pairs.
pub fn run(
    pairs: &[Pair],
    arguments: &Arguments,
    done: impl Fn(&Pair, &Verdict) + Sync,
) -> Result<Vec<Verdict>> {
    let myself = std::env::current_exe().context("cannot find the own program file")?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(cores).clamp(1, pairs.len().max(1));
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![None; pairs.len()]);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(pair) = pairs.get(number) else {
                        return;
                    };
                    let verdict = run_one(&myself, pair, arguments);
                    done(pair, &verdict);
                    if let Ok(mut verdicts) = verdicts.lock() {
                        verdicts[number] = Some(verdict);
                    }
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap_or_default();
    Ok(verdicts.into_iter().flatten().collect())
}

fn run_one(myself: &Path, pair: &Pair, arguments: &Arguments) -> Verdict {
    let mut command = Command::new(myself);
    command.arg("--worker");
    for dir in &arguments.include_dirs {
        command.arg("-I").arg(dir);
    }
    for define in &arguments.defines {
        command.arg("-D").arg(define);
    }
    if let Some(compiler) = &arguments.json_from {
        command.arg("--json-from").arg(compiler);
    }
    if arguments.interpreted {
        command.arg("--interpreted");
    }
    command.arg("--").arg(&pair.program).arg(&pair.script);
    command
        // A group of its own for it and a compiler that it may run, so that both can be ended.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => watch(child, Duration::from_secs(arguments.timeout)),
        Err(error) => Verdict::new(Outcome::BadTest, format!("cannot start a process: {error}")),
    }
}

fn watch(mut child: Child, timeout: Duration) -> Verdict {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(|| read_all(stdout));
        let stderr = scope.spawn(|| read_all(stderr));
        let status = wait(&mut child, timeout);
        let (stdout, stderr) = (stdout.join(), stderr.join());
        let verdict = || serde_json::from_str(stdout.as_deref().unwrap_or_default()).ok();
        match status {
            None => Verdict::new(
                Outcome::Hang,
                format!("it was not done after {} s", timeout.as_secs()),
            ),
            Some(status) if status.success() => verdict().unwrap_or_else(|| crash(status, "")),
            Some(status) => crash(status, stderr.as_deref().unwrap_or_default()),
        }
    })
}

fn crash(status: ExitStatus, stderr: &str) -> Verdict {
    let text = format!("the test's process ended with {status}\n{stderr}");
    Verdict::new(Outcome::Crash, text.trim_end())
}

/// How the process ended; none if it took too long and was killed.
fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + timeout;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= end {
            // It may have ended just now.
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn read_all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // A part is better than nothing.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
