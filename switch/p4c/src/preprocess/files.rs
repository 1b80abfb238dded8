//! Directives that name a file: which one, and whether it is read.

use std::path::{Path, PathBuf};

use super::token::{Kind, Token};
use super::{Input, Preprocessor, include};
use crate::budget::too_large;
use crate::diagnostics::Diagnostic;
use crate::source::Span;

/// The most levels of files that include files: enough for any real program.
const MAX_INCLUDE_DEPTH: usize = 64;
/// The most files that are included, since files that include others twice double them at every level.
const MAX_INCLUDES: usize = 4_000;

/// Bytes of a file for each of its tokens, about.
const BYTES_OF_A_TOKEN: usize = 4;

impl Preprocessor<'_> {
    /// `#include` with macros that stand for the file's name.
    pub(super) fn include_computed(&mut self, directive: &str, line: &[Token], span: Span) {
        let tokens = self.replaced_line(line);
        match self.header_of(&tokens) {
            Ok((header, _)) => self.include(directive, header, span),
            Err(message) => self.error("bad-directive", span, message),
        }
    }

    /// The name of a file that tokens begin with, and how many tokens it has.
    pub(super) fn header_of(&mut self, tokens: &[Token]) -> Result<(Token, usize), &'static str> {
        let first = tokens.first().map(|first| (*first, self.spelling(*first)));
        match first {
            Some((token, _)) if matches!(token.kind, Kind::Str | Kind::Header) => Ok((token, 1)),
            Some((_, "<")) => {
                let mut text = String::from("<");
                for (index, token) in tokens.iter().enumerate().skip(1) {
                    if token.space && index > 1 {
                        text.push(' ');
                    }
                    let spelling = self.spelling(*token);
                    text.push_str(spelling);
                    if spelling == ">" {
                        let header = Token::new(Kind::Header, self.spellings.make(&text));
                        return Ok((header, index + 1));
                    }
                }
                Err("`#include <` without `>`")
            }
            _ => Err("`#include` needs \"file\" or <file>"),
        }
    }

    /// Contents of a file that a directive of the current file names, if it exists.
    pub(super) fn find(
        &self,
        header: Token,
        next: bool,
    ) -> (String, Result<include::Found, include::Missing>) {
        let spelling = self.spelling(header);
        let path = spelling[1..spelling.len() - 1].to_owned();
        let input = self.inputs.last();
        let skipped = input.filter(|_| next).and_then(|input| input.next_folder);
        let own_folder = input.and_then(|input| {
            Path::new(&self.sources.file(input.file).name)
                .parent()
                .map(Path::to_path_buf)
        });
        let own_folder = own_folder.filter(|_| spelling.starts_with('"') && skipped.is_none());
        let folders = &self.options.include_dirs;
        let first = skipped.unwrap_or(0).min(folders.len());
        let mut found = include::find(&path, own_folder.as_deref(), &folders[first..]);
        if let Ok(found) = &mut found {
            found.next_folder += first;
        }
        (path, found)
    }

    /// Begins to read a file.
    pub(super) fn include(&mut self, directive: &str, header: Token, span: Span) {
        if self.exhausted {
            return;
        }
        if self.inputs.len() > MAX_INCLUDE_DEPTH {
            self.exhausted = true;
            let message = format!("includes are nested more than {MAX_INCLUDE_DEPTH} deep");
            let help = "does a file include itself? guard it with #ifndef";
            let place = self.original(span);
            self.diagnostics
                .error_with_help("include-depth", place, message, help);
            return;
        }
        self.included += 1;
        if self.included > MAX_INCLUDES {
            self.exhausted = true;
            let message = format!("more than {MAX_INCLUDES} files are included");
            self.diagnostics
                .report(too_large(self.original(span), message));
            return;
        }
        let found = match self.find(header, directive == "include_next") {
            (_, Ok(found)) => found,
            (_, Err(missing)) => {
                let error = Diagnostic::error(missing.code, self.original(span), missing.problem);
                self.diagnostics.report(error.help(missing.help));
                return;
            }
        };
        let key = std::fs::canonicalize(&found.name).unwrap_or_else(|_| PathBuf::from(&found.name));
        let again = !self.seen.insert(key.clone());
        if self.once.contains(&key) || (again && directive == "import") {
            return;
        }
        // Text that is there once is as long as the files are; each repetition makes the program longer.
        if again && !self.pay(1 + found.text.len() / BYTES_OF_A_TOKEN, 0, span) {
            return;
        }
        if directive == "import" {
            self.once.insert(key.clone());
        }
        let next_folder = Some(found.next_folder);
        let file = self.add(found.name, found.text);
        self.inputs.push(Input {
            next_folder,
            ..Input::new(file, key)
        });
    }
}
