//! The C-like preprocessor of P4_16 (specification, section 6.2), on tokens.
//!
//! Working on tokens instead of text keeps every token's place in its original file. Tokens that come
//! out of a macro carry the place where the macro was used, since that is the line the user wrote.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::annotations;
use crate::budget::too_large;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::lex::{Tok, Token, lex};
use crate::source::{FileId, SourceMap, Span};

mod condition;
mod include;

pub use include::{library_with, text};

/// The most levels of files that include files: enough for any real program, and few enough for the stack.
const MAX_INCLUDE_DEPTH: usize = 64;
/// The most files that are included, since files that include others twice double them at every level.
const MAX_INCLUDES: usize = 4_000;
const MAX_EXPANSION_DEPTH: usize = 200;
/// The most tokens of a program; bounds the output of macros that double themselves.
const MAX_TOKENS: usize = if cfg!(test) { 10_000 } else { 4_000_000 };
/// The most tokens that macros are replaced by; bounds the work of macros that double themselves and stand for nothing.
const MAX_REPLACED: usize = if cfg!(test) { 10_000 } else { 1_000_000 };

#[derive(Clone, Debug, Default)]
pub struct Options {
    pub include_dirs: Vec<PathBuf>,
    /// `-D NAME[=VALUE]`
    pub defines: Vec<(String, String)>,
    /// `-U NAME`: macros of the compiler that are not defined.
    pub undefines: Vec<String>,
    /// `--disable-annotations`: names of annotations that are left out.
    pub disabled_annotations: Vec<String>,
}

#[derive(Clone, Debug)]
struct Macro {
    /// None for a macro without a list of parameters, which is replaced wherever its name stands.
    params: Option<Vec<String>>,
    /// The last parameter stands for any number of arguments.
    variadic: bool,
    body: Vec<Token>,
}

/// State of one `#if` group.
struct Conditional {
    /// Whether this branch is being read.
    active: bool,
    /// Whether a branch of the group was read already.
    taken: bool,
    seen_else: bool,
    span: Span,
}

pub struct Preprocessor<'a> {
    sources: &'a mut SourceMap,
    diagnostics: &'a Diagnostics,
    options: &'a Options,
    macros: HashMap<String, Macro>,
    output: Vec<Token>,
    /// Tokens that macros were replaced by, each time that they were, and one for each replacement.
    replaced: Cell<usize>,
    /// Files that were included, each time that they were.
    included: usize,
    /// Whether a limit was exceeded: then what is left is neither expanded nor included, since it may double at every
    /// level.
    exhausted: Cell<bool>,
}

/// Reads `file` (already in `sources`) and everything it includes. The result ends with `Eof`.
pub fn preprocess(
    file: FileId,
    sources: &mut SourceMap,
    options: &Options,
    diagnostics: &Diagnostics,
) -> Vec<Token> {
    let mut preprocessor = Preprocessor {
        sources,
        diagnostics,
        options,
        macros: HashMap::new(),
        output: Vec::new(),
        replaced: Cell::new(0),
        included: 0,
        exhausted: Cell::new(false),
    };
    preprocessor.predefine();
    preprocessor.run_file(file, 0);
    let text_len = preprocessor.sources.file(file).text.len() as u32;
    let end = Span {
        file,
        start: text_len,
        end: text_len,
    };
    let disabled = &options.disabled_annotations;
    let mut output = annotations::without(preprocessor.output, disabled, diagnostics);
    output.push(Token {
        tok: Tok::Eof,
        span: end,
        starts_line: true,
        joint: false,
    });
    output
}

impl Preprocessor<'_> {
    fn predefine(&mut self) {
        let builtin = ("__TARGET_BMV2__".to_owned(), "1".to_owned());
        let undefined = self.options.undefines.contains(&builtin.0);
        let builtin = (!undefined).then_some(&builtin);
        for (name, value) in builtin.into_iter().chain(&self.options.defines) {
            let file = self
                .sources
                .add(format!("<command line: {name}>"), value.clone());
            let mut body = lex(file, value);
            body.pop();
            self.macros.insert(
                name.clone(),
                Macro {
                    params: None,
                    variadic: false,
                    body,
                },
            );
        }
    }

    fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.diagnostics.error(code, span, message);
    }

    fn run_file(&mut self, file: FileId, depth: usize) {
        let text = self.sources.file(file).text.clone();
        let mut tokens = lex(file, &text);
        tokens.pop();
        let mut conditionals: Vec<Conditional> = Vec::new();
        let mut i = 0;
        while i < tokens.len() {
            let line_end = (i + 1..tokens.len())
                .find(|&j| tokens[j].starts_line)
                .unwrap_or(tokens.len());
            if tokens[i].is("#") && tokens[i].starts_line {
                self.directive(&tokens[i..line_end], &mut conditionals, depth);
                i = line_end;
                continue;
            }
            if conditionals.iter().all(|c| c.active) {
                // Macro arguments may go on over the following lines, up to the next directive.
                let block_end = (i..tokens.len())
                    .find(|&j| tokens[j].is("#") && tokens[j].starts_line)
                    .unwrap_or(tokens.len());
                let block = tokens[i..block_end].to_vec();
                let expanded = self.expand(&block, &mut Vec::new());
                self.output.extend(expanded);
                i = block_end;
            } else {
                i = line_end;
            }
        }
        if let Some(open) = conditionals.last() {
            let message = "`#if` without `#endif`";
            self.error("unterminated-conditional", open.span, message);
        }
    }

    /// `line` is one directive from `#` to the end of its line.
    fn directive(&mut self, line: &[Token], conditionals: &mut Vec<Conditional>, depth: usize) {
        let active = conditionals.iter().all(|c| c.active);
        let Some(keyword) = line.get(1) else { return };
        let name = match &keyword.tok {
            Tok::Ident(name) => name.as_str(),
            _ => "",
        };
        let args = &line[2.min(line.len())..];
        let span = line[0].span.to(keyword.span);
        match name {
            "if" | "ifdef" | "ifndef" => {
                let holds = active
                    && match name {
                        "if" => self.condition(args, span),
                        _ => self.is_defined(args, span) == (name == "ifdef"),
                    };
                conditionals.push(Conditional {
                    active: holds,
                    // A group inside a skipped one is skipped as a whole.
                    taken: holds || !active,
                    seen_else: false,
                    span,
                });
            }
            "elif" | "else" | "endif" => self.branch(name, args, span, conditionals),
            _ if !active => {}
            "define" => self.define(args, span),
            "undef" => {
                if let Some(Tok::Ident(name)) = args.first().map(|t| &t.tok) {
                    self.macros.remove(name);
                } else {
                    self.error("bad-directive", span, "`#undef` needs a name");
                }
            }
            "include" => self.include(args, span, depth),
            "error" => {
                let text = self.rest_of_line(args);
                self.error("error-directive", span, format!("#error {text}"));
            }
            "warning" => {
                let text = self.rest_of_line(args);
                self.diagnostics.report(Diagnostic::warning(
                    "warning-directive",
                    span,
                    format!("#warning {text}"),
                ));
            }
            // Line markers of an earlier preprocessor, and pragmas, have nothing to say to us.
            "line" | "pragma" => {}
            "" if matches!(keyword.tok, Tok::Number { .. }) => {}
            _ => {
                let known = [
                    "if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include",
                    "error",
                ];
                let message = format!("unknown directive {}", keyword.describe());
                let error = Diagnostic::error("bad-directive", span, message);
                self.diagnostics.report(error.suggest(name, known));
            }
        }
    }

    fn branch(&self, name: &str, args: &[Token], span: Span, conditionals: &mut Vec<Conditional>) {
        if name == "endif" {
            if conditionals.pop().is_none() {
                self.error("unmatched-conditional", span, "`#endif` without `#if`");
            }
            return;
        }
        let misplaced = conditionals.last().is_none_or(|c| c.seen_else);
        let Some(current) = conditionals.last_mut().filter(|_| !misplaced) else {
            let message = format!("`#{name}` without `#if`");
            self.error("unmatched-conditional", span, message);
            return;
        };
        let holds = !current.taken && (name == "else" || self.condition(args, span));
        current.active = holds;
        current.taken |= holds;
        current.seen_else = name == "else";
    }

    fn is_defined(&self, args: &[Token], span: Span) -> bool {
        match args.first().map(|t| &t.tok) {
            Some(Tok::Ident(name)) => self.macros.contains_key(name),
            _ => {
                self.error("bad-directive", span, "a macro name is expected here");
                false
            }
        }
    }

    /// The value of an `#if` expression.
    fn condition(&self, args: &[Token], span: Span) -> bool {
        let mut tokens = Vec::new();
        let mut i = 0;
        while i < args.len() {
            if !args[i].is_word("defined") {
                tokens.push(args[i].clone());
                i += 1;
                continue;
            }
            let parenthesised = args.get(i + 1).is_some_and(|t| t.is("("));
            let name_at = i + 1 + usize::from(parenthesised);
            let known = matches!(args.get(name_at).map(|t| &t.tok),
                Some(Tok::Ident(name)) if self.macros.contains_key(name));
            tokens.push(Token {
                tok: Tok::Number {
                    value: u8::from(known).into(),
                    width: None,
                    radix: 10,
                },
                ..args[i].clone()
            });
            i = name_at + 1 + usize::from(parenthesised);
        }
        let expanded = self.expand(&tokens, &mut Vec::new());
        condition::evaluate(&expanded).unwrap_or_else(|problem| {
            let place = problem.span.unwrap_or(span);
            self.error("bad-condition", place, problem.message);
            false
        })
    }

    fn define(&mut self, args: &[Token], span: Span) {
        let Some((
            Token {
                tok: Tok::Ident(name),
                joint,
                ..
            },
            mut rest,
        )) = args.split_first()
        else {
            self.error("bad-directive", span, "`#define` needs a name");
            return;
        };
        let (mut params, mut variadic) = (None, false);
        // Only a parenthesis that touches the name starts a parameter list.
        if *joint && rest.first().is_some_and(|t| t.is("(")) {
            let Some(close) = rest.iter().position(|t| t.is(")")) else {
                self.error("bad-directive", span, "macro parameters without `)`");
                return;
            };
            let names = rest[1..close].iter().filter_map(|t| match &t.tok {
                Tok::Ident(name) => Some(name.clone()),
                _ => None,
            });
            let mut names: Vec<String> = names.collect();
            // `...` after a comma has the name that C gives it, after a name that one, as gcc has it.
            if let [.., before, dots] = &rest[..close]
                && dots.is("...")
            {
                variadic = true;
                if !matches!(before.tok, Tok::Ident(_)) {
                    names.push("__VA_ARGS__".to_owned());
                }
            }
            params = Some(names);
            rest = &rest[close + 1..];
        }
        self.macros.insert(
            name.clone(),
            Macro {
                params,
                variadic,
                body: rest.to_vec(),
            },
        );
    }

    fn rest_of_line(&self, args: &[Token]) -> String {
        match (args.first(), args.last()) {
            (Some(first), Some(last)) => self.sources.text(first.span.to(last.span)).to_owned(),
            _ => String::new(),
        }
    }

    fn include(&mut self, args: &[Token], span: Span, depth: usize) {
        let (path, system) = match args.first().map(|t| &t.tok) {
            Some(Tok::Str(path)) => (path.clone(), false),
            Some(Tok::Punct("<")) => {
                let text = self.rest_of_line(args);
                match text.strip_prefix('<').and_then(|t| t.split_once('>')) {
                    Some((path, _)) => (path.to_owned(), true),
                    None => {
                        self.error("bad-directive", span, "`#include <` without `>`");
                        return;
                    }
                }
            }
            _ => {
                let message = "`#include` needs \"file\" or <file>";
                self.error("bad-directive", span, message);
                return;
            }
        };
        if self.exhausted.get() {
            return;
        }
        if depth >= MAX_INCLUDE_DEPTH {
            self.exhausted.set(true);
            let message = format!("includes are nested more than {MAX_INCLUDE_DEPTH} deep");
            let help = "does a file include itself? guard it with #ifndef";
            self.diagnostics
                .error_with_help("include-depth", span, message, help);
            return;
        }
        self.included += 1;
        if self.included > MAX_INCLUDES {
            self.exhausted.set(true);
            let message = format!("more than {MAX_INCLUDES} files are included");
            self.diagnostics.report(too_large(span, message));
            return;
        }
        let own_folder = Path::new(&self.sources.file(span.file).name).parent();
        let own_folder = own_folder.filter(|_| !system);
        match include::find(&path, own_folder, &self.options.include_dirs) {
            Ok(found) => {
                let file = self.sources.add(found.name, found.text);
                self.run_file(file, depth + 1);
            }
            Err(missing) => self
                .diagnostics
                .report(Diagnostic::error(missing.code, span, missing.problem).help(missing.help)),
        }
    }

    /// What `__LINE__` and `__FILE__` stand for at a place.
    fn place(&self, name: &str, span: Span) -> Option<Tok> {
        let position = || self.sources.position(span);
        match name {
            "__LINE__" => Some(Tok::Number {
                value: position().1.into(),
                width: None,
                radix: 10,
            }),
            "__FILE__" => Some(Tok::Str(position().0.to_owned())),
            _ => None,
        }
    }

    /// Replaces macros. `hidden` are the macros being expanded, which do not expand again (C, 6.10.3.4).
    fn expand(&self, tokens: &[Token], hidden: &mut Vec<String>) -> Vec<Token> {
        let mut out = Vec::new();
        let mut i = 0;
        while i < tokens.len() {
            let token = &tokens[i];
            i += 1;
            let Tok::Ident(name) = &token.tok else {
                out.push(token.clone());
                continue;
            };
            if let Some(tok) = self.place(name, token.span) {
                out.push(Token {
                    tok,
                    ..token.clone()
                });
                continue;
            }
            let usable = !hidden.contains(name)
                && hidden.len() < MAX_EXPANSION_DEPTH
                && !self.exhausted.get();
            let Some(definition) = self.macros.get(name).filter(|_| usable) else {
                out.push(token.clone());
                continue;
            };
            let mut replaced = match &definition.params {
                None => definition.body.clone(),
                Some(params) => {
                    if !tokens.get(i).is_some_and(|t| t.is("(")) {
                        out.push(token.clone());
                        continue;
                    }
                    let most = match definition.variadic {
                        true => params.len(),
                        false => usize::MAX,
                    };
                    let Some((mut args, after)) = macro_arguments(tokens, i, most) else {
                        let message =
                            format!("the arguments of macro `{name}` have no closing `)`");
                        self.error("macro-arguments", token.span, message);
                        return out;
                    };
                    i = after;
                    if definition.variadic && args.len() + 1 == params.len() {
                        args.push(Vec::new());
                    }
                    let given = match params.is_empty() && args.iter().all(Vec::is_empty) {
                        true => 0,
                        false => args.len(),
                    };
                    if given != params.len() {
                        let message = format!(
                            "macro `{name}` takes {} arguments, {given} given",
                            params.len()
                        );
                        self.error("macro-arguments", token.span, message);
                        continue;
                    }
                    let expanded: Vec<_> = args.iter().map(|a| self.expand(a, hidden)).collect();
                    substitute(&definition.body, params, &args, &expanded)
                }
            };
            paste(&mut replaced);
            for t in &mut replaced {
                t.span = token.span;
                t.starts_line = false;
            }
            let work = self.replaced.get() + replaced.len() + 1;
            self.replaced.set(work);
            hidden.push(name.clone());
            let expanded = self.expand(&replaced, hidden);
            hidden.pop();
            // Macros that stand for nothing may double as well.
            let tokens = out.len() + expanded.len() + self.output.len();
            if tokens > MAX_TOKENS || work > MAX_REPLACED {
                self.exhausted.set(true);
                let message = format!("the expansion of macro `{name}` is too large");
                self.error("macro-too-large", token.span, message);
                return out;
            }
            out.extend(expanded);
        }
        out
    }
}

/// `tokens[open]` is `(`. Returns the arguments, of which the last one of `most` has all the commas
/// that are left, and the index after `)`.
fn macro_arguments(tokens: &[Token], open: usize, most: usize) -> Option<(Vec<Vec<Token>>, usize)> {
    let mut args = vec![Vec::new()];
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        let is_open = token.is("(");
        if is_open {
            depth += 1;
            if depth == 1 {
                continue;
            }
        } else if token.is(")") {
            depth -= 1;
            if depth == 0 {
                return Some((args, i + 1));
            }
        } else if token.is(",") && depth == 1 && args.len() < most {
            args.push(Vec::new());
            continue;
        }
        if let Some(last) = args.last_mut() {
            last.push(token.clone());
        }
    }
    None
}

/// Puts the arguments in place of the parameters; next to `##` they go in unexpanded.
fn substitute(
    body: &[Token],
    params: &[String],
    raw: &[Vec<Token>],
    expanded: &[Vec<Token>],
) -> Vec<Token> {
    let mut out = Vec::new();
    for (i, token) in body.iter().enumerate() {
        let param = params.iter().position(|p| token.is_word(p));
        let pasted = (i > 0 && body[i - 1].is("##")) || body.get(i + 1).is_some_and(|t| t.is("##"));
        match param {
            Some(p) if pasted => out.extend(raw[p].iter().cloned()),
            Some(p) => out.extend(expanded[p].iter().cloned()),
            None => out.push(token.clone()),
        }
    }
    out
}

/// Joins the two neighbours of each `##`.
fn paste(tokens: &mut Vec<Token>) {
    while let Some(at) = tokens.iter().position(|t| t.is("##")) {
        if at == 0 || at + 1 >= tokens.len() {
            tokens.remove(at);
            continue;
        }
        let spelling = |t: &Token| match &t.tok {
            Tok::Ident(name) => name.clone(),
            Tok::Number { value, .. } => value.to_string(),
            Tok::Punct(p) => (*p).to_owned(),
            _ => String::new(),
        };
        let text = spelling(&tokens[at - 1]) + &spelling(&tokens[at + 1]);
        let mut joined = lex(tokens[at].span.file, &text);
        joined.pop();
        tokens.splice(at - 1..=at + 1, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> (Vec<String>, Vec<&'static str>) {
        let mut sources = SourceMap::default();
        let file = sources.add("t.p4", text);
        let diagnostics = Diagnostics::default();
        let tokens = preprocess(file, &mut sources, &Options::default(), &diagnostics);
        let words = tokens[..tokens.len() - 1]
            .iter()
            .map(|t| t.describe().trim_matches('`').replace("number ", ""))
            .collect();
        (words, diagnostics.list().iter().map(|d| d.code).collect())
    }

    #[test]
    fn what_doubles_at_every_level_ends_with_one_error() {
        let doubling = |n: u32| format!("#define M{} M{n} M{n} M{n} M{n}\n", n + 1);
        let macros: String = (0..30).map(doubling).collect();
        let (_, errors) = run(&format!("{macros}M30"));
        assert_eq!(errors, ["macro-too-large"]);
    }

    #[test]
    fn what_doubles_and_stands_for_nothing_ends_too() {
        let doubling = |n: u32| format!("#define M{} M{n} M{n}\n", n + 1);
        let macros: String = (0..40).map(doubling).collect();
        let (_, errors) = run(&format!("#define M0\n{macros}M40"));
        assert_eq!(errors, ["macro-too-large"]);
    }

    #[test]
    fn function_macros_nest_and_do_not_recurse() {
        let (words, errors) =
            run("#define ADD(a, b) a + b\n#define X ADD(1, X)\nX ADD(ADD(2,3),\n4)");
        assert_eq!(words.join(" "), "1 + X 2 + 3 + 4");
        assert!(errors.is_empty());
    }

    #[test]
    fn conditionals_choose_one_branch() {
        let text = "#define V 3\n#if V < 3 || !defined(V)\na\n#elif (V & 2) == 2 && defined V\nb\n\
                    #else\nc\n#endif\n#ifdef W\nd\n#endif";
        assert_eq!(run(text).0, ["b"]);
    }

    #[test]
    fn skipped_text_may_be_anything() {
        let (words, errors) = run("#if 0\n#error don't\n' \"\n#endif\nx");
        assert_eq!(words, ["x"]);
        assert!(errors.is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(run("#if 1\nx").1, ["unterminated-conditional"]);
        assert_eq!(run("#endif").1, ["unmatched-conditional"]);
        assert_eq!(run("#include <nope.p4>").1, ["include-not-found"]);
        assert_eq!(run("#define F(a) a\nF(1,2)").1, ["macro-arguments"]);
        assert_eq!(run("#if 1 +\n#endif").1, ["bad-condition"]);
        assert_eq!(run("#error stop here").1, ["error-directive"]);
    }

    #[test]
    fn tokens_of_a_macro_point_to_its_use() {
        let mut sources = SourceMap::default();
        let file = sources.add("t.p4", "#define N 1 + 2\n\n  N");
        let tokens = preprocess(
            file,
            &mut sources,
            &Options::default(),
            &Diagnostics::default(),
        );
        assert_eq!(sources.position(tokens[2].span), ("t.p4", 3, 3));
    }

    #[test]
    fn the_last_parameter_may_take_all_the_rest() {
        let text = "#define F(a, ...) a: __VA_ARGS__\n#define G(b...) [b]\nF(1, 2, (3, 4)) F(5) G() G(6, 7)";
        let (words, errors) = run(text);
        assert_eq!(words.join(" "), "1 : 2 , ( 3 , 4 ) 5 : [ ] [ 6 , 7 ]");
        assert!(errors.is_empty());
    }

    #[test]
    fn places_have_names() {
        let (words, _) = run("#define HERE __FILE__ __LINE__\n\nHERE");
        assert_eq!(words.join(" "), "a string 3");
    }

    #[test]
    fn pasting_makes_one_name() {
        assert_eq!(run("#define J(a,b) a##b\nJ(x, y)").0, ["xy"]);
    }
}
