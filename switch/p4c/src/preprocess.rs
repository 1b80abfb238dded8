//! The preprocessor of P4_16 (specification, section 6.2), which is that of C11 (section 6.10).
//!
//! p4c runs `cpp -C -undef -nostdinc -x assembler-with-cpp`, whose text it then reads. Here too macros work on
//! spellings ([`token`]), not on tokens of P4: `0x##10` is `0x10`, and `0..N` is one number of C. The text that comes
//! out ([`output`]) is read by the lexer of P4, and every token then gets the place that its text has in the user's
//! file; what comes out of a macro has the place where the macro was used, since that is what the user wrote.
//!
//! ```text
//! file -> lexer -> directives -> expand -> output -> lex of P4
//!         tokens of C               text    tokens with places
//! ```

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::annotations;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::lex;
use crate::source::{FileId, SourceMap, Span};

mod builtins;
mod condition;
mod directives;
mod expand;
mod files;
mod include;
mod lexer;
mod macros;
mod output;
mod token;

pub use include::{library_with, read_to_end, text};

use directives::Conditional;
use expand::Context;
use lexer::Lexer;
use macros::{BUILTINS, Macro};
use output::Output;
use token::{Kind, Spellings, Token};

/// Macros of the compiler: what p4c defines, and cpp in this mode.
const PREDEFINED: &[&str] = &[
    "__TARGET_BMV2__",
    "__STDC__",
    "__STDC_HOSTED__",
    "__ASSEMBLER__",
];

/// Options of the preprocessor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-I`: folders of included files, in the order of the search.
    pub include_dirs: Vec<PathBuf>,
    /// `-D NAME[=VALUE]`; a name may have parameters behind it.
    pub defines: Vec<(String, String)>,
    /// `-U NAME`: macros of the compiler that are not defined.
    pub undefines: Vec<String>,
    /// `--disable-annotations`: names of annotations that are left out.
    pub disabled_annotations: Vec<String>,
}

/// A program after the preprocessor.
#[derive(Debug)]
pub struct Preprocessed {
    /// The output of `-E`.
    pub text: String,
    /// Its tokens, with `Eof` as the last one.
    pub tokens: Vec<lex::Token>,
}

/// A file that is being read.
#[derive(Debug)]
struct Input {
    file: FileId,
    lexer: Lexer,
    conditionals: Vec<Conditional>,
    /// The file for `#pragma once`, whichever way leads to it.
    key: PathBuf,
    /// Where `#include_next` goes on in the list of folders; none for the program.
    next_folder: Option<usize>,
    /// Effect of `#line`: a name, and a number that is added to those of lines.
    presumed_name: Option<String>,
    lines_ahead: i64,
}

impl Input {
    fn new(file: FileId, key: PathBuf) -> Input {
        Input {
            file,
            lexer: Lexer::new(file, 0),
            conditionals: Vec::new(),
            key,
            next_folder: None,
            presumed_name: None,
            lines_ahead: 0,
        }
    }
}

/// State of reading a use of a macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collecting {
    Nothing,
    /// Whether `(` follows: no directive is obeyed before that is known.
    Parenthesis,
    /// The arguments, which end with their file.
    Arguments,
}

struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    diagnostics: &'a Diagnostics,
    options: &'a Options,
    program: FileId,
    spellings: Spellings,
    macros: HashMap<Box<str>, Rc<Macro>>,
    /// Definitions saved by `#pragma push_macro`.
    saved: HashMap<Box<str>, Vec<Option<Rc<Macro>>>>,
    /// The files that are open, each included by the one before it.
    inputs: Vec<Input>,
    /// A token that was read and is to be read again, before what is left of the file.
    ahead: Option<Token>,
    /// Tokens of macros, which come before the rest of the file.
    contexts: Vec<Context>,
    /// Whether macros stand for themselves, as while arguments are collected.
    holds: bool,
    collecting: Collecting,
    in_condition: bool,
    /// Levels of arguments within arguments.
    nesting: usize,
    /// Whether a new line has begun since the last token of the output.
    new_line: bool,
    /// The next number of `__COUNTER__`.
    counter: u32,
    /// Files that were included, each time that they were.
    included: usize,
    seen: HashSet<PathBuf>,
    once: HashSet<PathBuf>,
    /// Whether a limit was exceeded: then what is left is neither replaced nor included, since it may double at every
    /// level.
    exhausted: bool,
}

/// Reads `file` (already in `sources`) and everything it includes.
pub fn preprocess(
    file: FileId,
    sources: &mut SourceMap,
    options: &Options,
    diagnostics: &Diagnostics,
) -> Preprocessed {
    let mut spellings = Spellings::default();
    for known in 0..sources.len() {
        spellings.add(&sources.file(known as FileId).text);
    }
    let mut preprocessor = Preprocessor {
        sources,
        diagnostics,
        options,
        program: file,
        spellings,
        macros: HashMap::new(),
        saved: HashMap::new(),
        inputs: Vec::new(),
        ahead: None,
        contexts: Vec::new(),
        holds: false,
        collecting: Collecting::Nothing,
        in_condition: false,
        nesting: 0,
        new_line: false,
        counter: 0,
        included: 0,
        seen: HashSet::new(),
        once: HashSet::new(),
        exhausted: false,
    };
    preprocessor.predefine();
    let output = preprocessor.run(file);
    let mut tokens = output.tokens(&preprocessor.spellings);
    let length = preprocessor.sources.file(file).text.len() as u32;
    if let Some(end) = tokens.last_mut() {
        end.span = Span {
            file,
            start: length,
            end: length,
        };
        end.starts_line = true;
    }
    let mut text = output.text;
    text.push('\n');
    Preprocessed {
        text,
        tokens: annotations::without(tokens, &options.disabled_annotations, diagnostics),
    }
}

impl Preprocessor<'_> {
    /// Defines the macros of the compiler and of the command line, as a file with directives would.
    fn predefine(&mut self) {
        for (name, builtin) in BUILTINS {
            let builtin = Rc::new(Macro::builtin(*builtin));
            self.macros.insert((*name).into(), builtin);
        }
        let own = PREDEFINED.iter().map(|name| format!("#define {name} 1\n"));
        let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
        let undefines = &self.options.undefines;
        let undefined = undefines
            .iter()
            .map(|name| format!("#undef {}\n", first_line(name)));
        let defines = &self.options.defines;
        let defined = defines
            .iter()
            .map(|(name, value)| format!("#define {} {}\n", first_line(name), first_line(value)));
        let text: String = own.chain(undefined).chain(defined).collect();
        let file = self.add("<command line>".to_owned(), text);
        self.run(file);
    }

    /// Reads a file and all that it includes.
    fn run(&mut self, file: FileId) -> Output {
        let name = &self.sources.file(file).name;
        let key = std::fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name));
        self.seen.insert(key.clone());
        self.inputs.push(Input::new(file, key));
        let mut output = Output::default();
        loop {
            let (token, place) = self.next();
            match token.kind {
                Kind::End => return output,
                Kind::Pad | Kind::PadOf => output.pad(token),
                _ => {
                    let new_line = std::mem::take(&mut self.new_line);
                    output.token(token, place, new_line, &self.spellings, self.sources);
                }
            }
        }
    }

    /// The next token of the files. Directives are obeyed on the way, where they may be.
    fn next_of_file(&mut self) -> Token {
        while !self.inputs.is_empty() {
            let token = match self.ahead.take() {
                Some(token) => token,
                None => {
                    if !self.is_active() {
                        self.skip_group();
                    }
                    self.lex()
                }
            };
            if token.kind == Kind::End {
                if self.collecting != Collecting::Nothing {
                    return token;
                }
                self.close();
                continue;
            }
            if token.starts_line {
                let is_directive = token.kind == Kind::Punct && self.spelling(token) == "#";
                if is_directive && self.collecting != Collecting::Parenthesis {
                    self.directive(token);
                    continue;
                }
                self.new_line |= self.collecting == Collecting::Nothing;
            }
            return token;
        }
        Token::end()
    }

    /// Ends a file.
    fn close(&mut self) {
        let open = self
            .inputs
            .pop()
            .and_then(|mut input| input.conditionals.pop());
        if let Some(open) = open {
            let message = "`#if` without `#endif`";
            self.error("unterminated-conditional", open.span, message);
        }
    }

    fn add(&mut self, name: String, text: String) -> FileId {
        let file = self.sources.add(name, text);
        self.spellings.add(&self.sources.file(file).text);
        file
    }

    fn is_active(&self) -> bool {
        let last = self
            .inputs
            .last()
            .and_then(|input| input.conditionals.last());
        last.is_none_or(|conditional| conditional.active)
    }

    /// The text and the place of the file that is being read. There is one.
    fn text_and_lexer(&mut self) -> (&str, &mut Lexer) {
        let last = self.inputs.len() - 1;
        let input = &mut self.inputs[last];
        (
            self.spellings.file(self.sources, input.file),
            &mut input.lexer,
        )
    }

    fn lexer(&mut self) -> &mut Lexer {
        self.text_and_lexer().1
    }

    fn conditionals(&mut self) -> &mut Vec<Conditional> {
        let last = self.inputs.len() - 1;
        &mut self.inputs[last].conditionals
    }

    /// The next token of the file that is being read, whatever it means.
    fn lex(&mut self) -> Token {
        let (text, lexer) = self.text_and_lexer();
        let token = lexer.token(text);
        // Outside of directives the parser reports it, with what it expected.
        if token.kind == Kind::OpenComment && self.lexer().one_line {
            self.error(
                "unterminated-comment",
                token.text,
                "a comment without closing `*/`",
            );
            return Token::end();
        }
        token
    }

    fn header(&mut self) -> Option<Token> {
        let (text, lexer) = self.text_and_lexer();
        lexer.header(text)
    }

    fn text(&self, span: Span) -> &str {
        self.spellings.text(self.sources, span)
    }

    fn spelling(&self, token: Token) -> &str {
        self.text(token.text)
    }

    fn original(&self, span: Span) -> Span {
        self.spellings.original(span)
    }

    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, self.original(span), message);
    }

    fn warn(&self, code: &'static str, span: Span, message: impl Into<String>) {
        let warning = Diagnostic::warning(code, self.original(span), message);
        self.diagnostics.report(warning);
    }
}

#[cfg(test)]
mod tests;
