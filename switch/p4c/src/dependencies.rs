//! Rules for `make`: which files a program was read from (`-M`, `-MD` and their kin, as the C preprocessor has them).

use crate::options::Dependencies;
use crate::source::SourceMap;

/// The rule for the files that were read, in that order; `output` is the target if the user names none.
pub fn rule(wanted: &Dependencies, output: &str, sources: &SourceMap) -> String {
    let mut files: Vec<&str> = Vec::new();
    // The sources inside the compiler are no files.
    for name in sources.names().filter(|name| !name.starts_with('<')) {
        if !files.contains(&name) {
            files.push(name);
        }
    }
    let targets = match &wanted.targets[..] {
        [] => quoted(output),
        // `-MQ` has quoted its own already; `-MT` is as the user wants it.
        targets => targets.join(" "),
    };
    let mut text = format!("{targets}:");
    for file in &files {
        text.push_str(&format!(" \\\n  {}", quoted(file)));
    }
    text.push('\n');
    if wanted.phony {
        for file in files.iter().skip(1) {
            text.push_str(&format!("{}:\n", quoted(file)));
        }
    }
    text
}

/// A file name as a word of a makefile.
fn quoted(name: &str) -> String {
    name.replace('$', "$$")
        .replace(' ', "\\ ")
        .replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named_once() {
        let mut sources = SourceMap::default();
        for name in ["a b.p4", "<core.p4>", "inc$.p4", "inc$.p4"] {
            sources.add(name, "");
        }
        let mut wanted = Dependencies {
            phony: true,
            ..Dependencies::default()
        };
        let files = " \\\n  a\\ b.p4 \\\n  inc$$.p4\ninc$$.p4:\n";
        assert_eq!(rule(&wanted, "a.json", &sources), format!("a.json:{files}"));
        wanted.targets = vec!["x".into(), "y".into()];
        assert_eq!(rule(&wanted, "a.json", &sources), format!("x y:{files}"));
    }
}
