//! The preprocessor against the one that p4c runs, `cpp -C -undef -nostdinc -x assembler-with-cpp`: the same tokens of
//! P4 from files of this repository, from those of a folder, and from pages made at random.

mod pages;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebb_p4c::diagnostics::Diagnostics;
use ebb_p4c::lex::{Tok, Token, lex};
use ebb_p4c::preprocess::{Options, preprocess};
use ebb_p4c::source::SourceMap;
use ebb_testkit::{Folder, Need, cases};

fn main() -> ExitCode {
    ebb_testkit::run_trials([trials()])
}

ebb_testkit::tests! {
    Need::Command("cpp") => [
        pages_made_at_random_are_read_as_by_cpp,
        programs_of_this_repository_are_read_as_by_cpp,
    ],
    Need::Variable("EBB_P4C_TESTDATA") => [programs_of_a_folder_are_read_as_by_cpp],
}

/// A text as P4 reads it: the spellings of its tokens, with a mark behind each `>` that touches the next token. None if
/// there were errors.
type Read = Option<Vec<String>>;

/// Output of cpp for a text, or for a file. It reads comments as tokens of their own if it is to keep them (`-C`).
fn by_cpp(input: &Path, text: &str, folders: &[PathBuf], keeps_comments: bool) -> Read {
    let mut command = Command::new("cpp");
    if keeps_comments {
        command.arg("-C");
    }
    command.args([
        "-w",
        "-undef",
        "-nostdinc",
        "-x",
        "assembler-with-cpp",
        "-D__TARGET_BMV2__",
    ]);
    for folder in folders {
        command.arg("-I").arg(folder);
    }
    command.arg(input);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("cpp");
    let mut stdin = child.stdin.take().expect("its input");
    let text = text.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer");
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| tokens(&text))
}

/// Output of the compiler, and its messages.
fn by_ours(name: &str, text: &str, folders: &[PathBuf]) -> (Read, String) {
    let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
    let file = sources.add(name, text);
    let options = Options {
        include_dirs: folders.to_vec(),
        ..Options::default()
    };
    let program = preprocess(file, &mut sources, &options, &diagnostics);
    // The parser will refuse it.
    let is_open =
        |token: &Token| matches!(&token.tok, Tok::Bad(why) if why.starts_with("a comment"));
    let refused = diagnostics.has_errors() || program.tokens.iter().any(is_open);
    let read = (!refused).then(|| tokens(&program.text));
    (read, diagnostics.render(&sources, false))
}

fn tokens(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let spelling = |token: &Token| {
        let spelling = &text[token.span.range()];
        // cpp joins blanks, also those in strings over several lines.
        let words: Vec<&str> = spelling.split_whitespace().collect();
        let joins = spelling == ">" && token.joint;
        words.join(" ") + if joins { "~" } else { "" }
    };
    lex(0, &text).iter().map(spelling).collect()
}

/// The text without comments and without lines that begin with `#`.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let line = rest.find('\n').unwrap_or(rest.len());
        let starts_line = out.is_empty() || out.ends_with('\n');
        let is_hash = starts_line && rest[..line].trim_start().starts_with('#');
        let (length, kept) = if is_hash || rest.starts_with("//") {
            (line, false)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            (comment.find("*/").map_or(rest.len(), |end| end + 4), false)
        } else if rest.starts_with(['"', '\'']) {
            (quoted_length(rest).unwrap_or(line), true)
        } else {
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let end = rest[first..].find(['"', '\'', '/', '\n']);
            let end = end.map_or(rest.len(), |end| first + end);
            (if line == 0 { 1 } else { end }, true)
        };
        out.push_str(if kept { &rest[..length] } else { " " });
        rest = &rest[length..];
    }
    out
}

/// The length of a string, which may go over lines, or of a character constant; none if it is not closed.
fn quoted_length(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\n' if quote == '\'' => return None,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Where two texts begin to differ, with what is around it.
fn difference(cpp: &Read, ours: &Read) -> Option<String> {
    let (cpp, ours) = match (cpp, ours) {
        (None, None) => return None,
        (Some(cpp), Some(ours)) if cpp == ours => return None,
        (Some(cpp), Some(ours)) => (cpp, ours),
        (cpp, ours) => {
            let word = |read: &Read| if read.is_some() { "takes" } else { "refuses" };
            return Some(format!("cpp {} it, ours {} it", word(cpp), word(ours)));
        }
    };
    let same = cpp.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let around =
        |tokens: &[String]| tokens[same.saturating_sub(10)..tokens.len().min(same + 10)].join(" ");
    Some(format!("cpp:  {}\nours: {}", around(cpp), around(ours)))
}

/// Calls `check` with every number below `count`, on all processors; fails with the first few problems that it returns.
fn all(count: usize, check: impl Fn(usize) -> Option<String> + Sync) {
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let problem = check(index);
                    problems.lock().expect("no panic").extend(problem);
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    let shown = problems.iter().take(10).cloned().collect::<Vec<_>>();
    assert!(
        problems.is_empty(),
        "{} of {count} differ\n\n{}",
        problems.len(),
        shown.join("\n\n")
    );
}

fn pages_made_at_random_are_read_as_by_cpp() {
    let folder = Folder::new("cpp");
    for (name, text) in pages::INCLUDED {
        folder.write(name, text);
    }
    let folders = [folder.to_path_buf()];
    let refused = AtomicUsize::new(0);
    let count = cases(250) as usize;
    all(count, |seed| {
        let page = pages::page(seed as u64);
        let cpp = by_cpp(Path::new("-"), &page.text, &folders, !page.has_comments);
        let (ours, messages) = by_ours("<stdin>", &page.text, &folders);
        refused.fetch_add(usize::from(cpp.is_none()), Ordering::Relaxed);
        let difference = difference(&cpp, &ours)?;
        Some(format!(
            "seed {seed}: {difference}\n{messages}\n{}",
            page.text
        ))
    });
    let refused = refused.into_inner();
    println!("{count} pages, {refused} of them refused by both");
    // Pages with mistakes say little.
    assert!(
        refused * 4 < count,
        "{refused} of {count} pages are refused"
    );
}

/// All P4 files below a folder, without what is built.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_symlink()
                || name.starts_with('.')
                || ["build", "target", "node_modules"].contains(&name)
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "p4") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Compares what is made of files. Those of `known` differ, for the reason that is given.
fn compare(files: &[PathBuf], folders: &[PathBuf], known: &[(&str, &str)]) {
    assert!(!files.is_empty(), "no programs");
    let refused = AtomicUsize::new(0);
    all(files.len(), |index| {
        let file = &files[index];
        let name = file.display().to_string();
        let Ok(text) = std::fs::read_to_string(file) else {
            println!("{name}: no UTF-8");
            return None;
        };
        let cpp = by_cpp(file, "", folders, true);
        let (ours, messages) = by_ours(&name, &text, folders);
        refused.fetch_add(usize::from(cpp.is_none()), Ordering::Relaxed);
        let difference = difference(&cpp, &ours)?;
        match known.iter().find(|(known, _)| file.ends_with(known)) {
            Some((known, why)) => {
                println!("{known}: {why}");
                None
            }
            None => Some(format!("{name}: {difference}\n{messages}")),
        }
    });
    let refused = refused.into_inner();
    println!(
        "{} programs, {refused} of them refused by both",
        files.len()
    );
}

fn programs_of_this_repository_are_read_as_by_cpp() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    let folders = [
        "switch/p4c/p4include",
        "switch/p4c/tests/diagnostics",
        "p4src/include",
        "p4src/tna/include",
    ];
    compare(
        &programs(&root),
        &folders.map(|folder| root.join(folder)),
        &[],
    );
}

/// Programs of any folder; library files are those of p4c's `p4include` in it or above it.
fn programs_of_a_folder_are_read_as_by_cpp() {
    let folder = std::env::var_os("EBB_P4C_TESTDATA").expect("checked");
    let folder = Path::new(&folder).canonicalize().expect("the folder");
    let library = folder.ancestors().map(|above| above.join("p4include"));
    let library = library
        .filter(|folder| folder.is_dir())
        .take(1)
        .collect::<Vec<_>>();
    compare(&programs(&folder), &library, &[]);
}
