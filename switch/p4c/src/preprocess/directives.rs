//! Preprocessing directives (C11, 6.10).

use std::rc::Rc;

use super::macros::{Body, Macro};
use super::token::{Kind, Token};
use super::{Collecting, Preprocessor, condition};
use crate::diagnostics::Diagnostic;
use crate::source::Span;

/// Names of all directives, for hints on misspelt ones.
const DIRECTIVES: &[&str] = &[
    "if",
    "ifdef",
    "ifndef",
    "elif",
    "elifdef",
    "elifndef",
    "else",
    "endif",
    "define",
    "undef",
    "include",
    "include_next",
    "import",
    "line",
    "error",
    "warning",
    "pragma",
];

/// State of one `#if` group.
#[derive(Debug)]
pub(super) struct Conditional {
    /// Whether this branch is being read.
    pub active: bool,
    /// Whether a branch of the group has been read.
    taken: bool,
    seen_else: bool,
    pub span: Span,
}

impl Preprocessor<'_> {
    /// Executes directives. A macro whose arguments are being read does not extend into them.
    fn aside(&mut self, obey: impl FnOnce(&mut Self)) {
        let holds = std::mem::replace(&mut self.holds, false);
        let collecting = std::mem::replace(&mut self.collecting, Collecting::Nothing);
        obey(self);
        self.holds = holds;
        self.collecting = collecting;
    }

    /// Reads the rest of a line that begins with `#`, and executes it.
    pub(super) fn directive(&mut self, hash: Token) {
        self.aside(|this| this.read_directive(hash));
    }

    fn read_directive(&mut self, hash: Token) {
        let input = self.inputs.len() - 1;
        self.lexer().one_line = true;
        let keyword = self.lex();
        let name = match keyword.kind {
            Kind::Name => self.spelling(keyword).to_owned(),
            _ => String::new(),
        };
        let header = match name.as_str() {
            "include" | "include_next" | "import" => self.header(),
            _ => None,
        };
        let line = self.line();
        self.inputs[input].lexer.one_line = false;
        let span = hash.text.to(keyword.text);
        match header {
            Some(header) => self.include(&name, header, span),
            None => self.directive_of(&name, keyword, &line, span),
        }
    }

    /// The tokens of a directive that are left on its line.
    fn line(&mut self) -> Vec<Token> {
        let mut tokens: Vec<Token> = Vec::new();
        loop {
            let asks = matches!(&tokens[..], [.., has, open]
                if self.spelling(*open) == "(" && self.spelling(*has).starts_with("__has_include"));
            let header = if asks { self.header() } else { None };
            let token = header.unwrap_or_else(|| self.lex());
            if token.kind == Kind::End {
                return tokens;
            }
            tokens.push(token);
        }
    }

    fn directive_of(&mut self, name: &str, keyword: Token, line: &[Token], span: Span) {
        let active = self.is_active();
        match name {
            "if" | "ifdef" | "ifndef" => {
                let holds = active && self.holds_if(name, line, span);
                self.conditionals().push(Conditional {
                    active: holds,
                    // A group inside a skipped one is skipped as a whole.
                    taken: holds || !active,
                    seen_else: false,
                    span,
                });
            }
            "elif" | "elifdef" | "elifndef" | "else" | "endif" => self.branch(name, line, span),
            _ if !active => {}
            "define" => self.define(line, span),
            "undef" => {
                if let Some(name) = self.macro_name(line, span) {
                    self.macros.remove(name.as_str());
                }
            }
            "include" | "include_next" | "import" => self.include_computed(name, line, span),
            "error" => {
                let message = format!("#error {}", self.written(line));
                self.error("error-directive", span, message);
            }
            "warning" => {
                let message = format!("#warning {}", self.written(line));
                self.warn("warning-directive", span, message);
            }
            "line" => self.set_line(line, span),
            "pragma" => self.pragma(line),
            // Directives of C without a meaning in P4.
            "ident" | "sccs" | "assert" | "unassert" => {}
            // Line markers of an earlier preprocessor, and `#` alone.
            "" if matches!(keyword.kind, Kind::Number | Kind::End) => {}
            _ => {
                let text = self.spelling(keyword).to_owned();
                let message = format!("this line is passed over: `{text}` is no directive");
                let warning =
                    Diagnostic::warning("unknown-directive", self.original(span), message);
                // Short words of a comment resemble one by accident.
                let candidates = DIRECTIVES.iter().filter(|_| text.len() > 3);
                let warning = warning.suggest(&text, candidates.copied());
                self.diagnostics.report(warning);
            }
        }
    }

    /// Skips lines until one is to be read, or the file ends.
    pub(super) fn skip_group(&mut self) {
        self.aside(Self::pass_group);
    }

    fn pass_group(&mut self) {
        self.lexer().one_line = true;
        while !self.is_active() {
            let token = self.lex();
            if token.kind == Kind::End {
                let (text, lexer) = self.text_and_lexer();
                if lexer.next_line(text) {
                    continue;
                }
                break;
            }
            if token.starts_line && self.spelling(token) == "#" {
                let keyword = self.lex();
                let name = self.spelling(keyword).to_owned();
                let span = token.text.to(keyword.text);
                let is_branch = name.starts_with("el") || name == "endif";
                if keyword.kind == Kind::Name && (is_branch || name.starts_with("if")) {
                    let line = self.line();
                    self.directive_of(&name, keyword, &line, span);
                }
            }
            while self.lex().kind != Kind::End {}
        }
        self.lexer().one_line = false;
    }

    fn holds_if(&mut self, name: &str, line: &[Token], span: Span) -> bool {
        match name {
            "if" | "elif" => self.condition(line, span),
            _ => {
                let wanted = !name.ends_with("ndef");
                let about = self.macro_name(line, span);
                about.is_some_and(|about| self.macros.contains_key(about.as_str()) == wanted)
            }
        }
    }

    fn branch(&mut self, name: &str, line: &[Token], span: Span) {
        if name == "endif" {
            if self.conditionals().pop().is_none() {
                self.error("unmatched-conditional", span, "`#endif` without `#if`");
            }
            return;
        }
        let Some((taken, false)) = self.conditionals().last().map(|c| (c.taken, c.seen_else))
        else {
            let message = format!("`#{name}` without `#if`");
            self.error("unmatched-conditional", span, message);
            return;
        };
        let holds = !taken && (name == "else" || self.holds_if(name, line, span));
        if let Some(current) = self.conditionals().last_mut() {
            current.active = holds;
            current.taken |= holds;
            current.seen_else = name == "else";
        }
    }

    /// The macro's name in a directive.
    fn macro_name(&self, line: &[Token], span: Span) -> Option<String> {
        match line.first() {
            Some(name) if name.kind == Kind::Name => Some(self.spelling(*name).to_owned()),
            Some(other) => {
                self.error("bad-directive", other.text, "a macro name is expected here");
                None
            }
            None => {
                self.error(
                    "bad-directive",
                    span,
                    "a macro name is expected behind this",
                );
                None
            }
        }
    }

    /// The value of an `#if` expression.
    fn condition(&mut self, line: &[Token], span: Span) -> bool {
        self.in_condition = true;
        let tokens = self.within(
            Rc::new(line.to_vec()),
            0..line.len(),
            None,
            Self::condition_tokens,
        );
        self.in_condition = false;
        let evaluated = match tokens {
            Ok(tokens) => condition::evaluate(&tokens, &|token| self.spelling(token)),
            Err(problem) => Err(problem),
        };
        evaluated.unwrap_or_else(|problem| {
            let place = problem.span.unwrap_or(span);
            self.error("bad-condition", place, problem.message);
            false
        })
    }

    /// The tokens of a condition after macro replacement, with 1 or 0 for `defined`.
    fn condition_tokens(&mut self) -> Result<Vec<(Token, Span)>, condition::Problem> {
        let mut tokens = Vec::new();
        loop {
            let (mut token, place) = self.next();
            match token.kind {
                Kind::End => return Ok(tokens),
                Kind::Pad | Kind::PadOf => continue,
                Kind::Name if self.spelling(token) == "defined" => {
                    let is_defined = self.defined(place)?;
                    token = self.truth(is_defined);
                }
                _ => {}
            }
            tokens.push((token, place));
        }
    }

    /// Reads the operand of `defined`, whose place is given.
    fn defined(&mut self, place: Span) -> Result<bool, condition::Problem> {
        let problem = |message: &str| condition::Problem {
            span: Some(place),
            message: message.to_owned(),
        };
        let mut name = self.next_unexpanded();
        let open = name.kind == Kind::Punct && self.spelling(name) == "(";
        if open {
            name = self.next_unexpanded();
        }
        if name.kind != Kind::Name {
            return Err(problem("`defined` needs a name"));
        }
        if open {
            let close = self.next_unexpanded();
            if self.spelling(close) != ")" {
                return Err(problem("`defined(` needs a `)` behind the name"));
            }
        }
        Ok(self.macros.contains_key(self.spelling(name)))
    }

    fn define(&mut self, line: &[Token], span: Span) {
        let Some(text) = self.macro_name(line, span) else {
            return;
        };
        let name = line[0];
        if text == "defined" {
            self.error("bad-directive", name.text, "`defined` cannot be a macro");
            return;
        }
        let spelling = |token| self.spelling(token);
        let last = line[line.len() - 1].text;
        let defined = match Macro::define(name, &line[1..], last, &spelling) {
            Ok(defined) => defined,
            Err((place, message)) => {
                self.error("bad-directive", place, message);
                return;
            }
        };
        if let Some(before) = self.macros.get(text.as_str())
            && !before.is_same(&defined, &spelling)
        {
            let message = format!("macro `{text}` is defined again, otherwise than before");
            let mut warning =
                Diagnostic::warning("macro-redefined", self.original(name.text), message);
            if !matches!(before.body, Body::Builtin(_)) {
                warning = warning.note(self.original(before.place), "defined here before");
            }
            self.diagnostics.report(warning);
        }
        self.macros.insert(text.into(), Rc::new(defined));
    }

    /// Tokens of a line as they are written.
    fn written(&self, line: &[Token]) -> String {
        match (line.first(), line.last()) {
            (Some(first), Some(last)) => self.text(first.text.to(last.text)).to_owned(),
            _ => String::new(),
        }
    }

    /// A directive's tokens after macro replacement.
    pub(super) fn replaced_line(&mut self, line: &[Token]) -> Vec<Token> {
        self.within(Rc::new(line.to_vec()), 0..line.len(), None, |all| {
            let mut tokens = Vec::new();
            loop {
                match all.next() {
                    (token, _) if token.kind == Kind::End => return tokens,
                    (token, _) if token.is_pad() => {}
                    (token, _) => tokens.push(token),
                }
            }
        })
    }

    /// `#line`, which sets `__LINE__` and `__FILE__`; messages name the real file and line.
    fn set_line(&mut self, line: &[Token], span: Span) {
        let tokens = self.replaced_line(line);
        let number = tokens
            .first()
            .and_then(|t| self.spelling(*t).parse::<u32>().ok());
        let name = tokens
            .get(1)
            .map(|t| (t.kind, self.spelling(*t).trim_matches('"').to_owned()));
        let (Some(number), None | Some((Kind::Str, _))) = (number, &name) else {
            let message = "`#line` needs a number, and may have a file name in quotes behind it";
            self.error("bad-directive", span, message);
            return;
        };
        let last = line.last().map_or(span, |last| last.text);
        let (_, own) = self.sources.line(self.original(Span {
            start: last.end - 1,
            ..last
        }));
        if let Some(input) = self.inputs.last_mut() {
            input.lines_ahead = i64::from(number) - own as i64 - 1;
            if let Some((_, name)) = name {
                input.presumed_name = Some(name);
            }
        }
    }

    fn pragma(&mut self, line: &[Token]) {
        let words: Vec<&str> = line.iter().map(|token| self.spelling(*token)).collect();
        match words[..] {
            ["once"] => {
                let key = self.inputs.last().map(|input| input.key.clone());
                self.once.extend(key);
            }
            [what @ ("push_macro" | "pop_macro"), "(", name, ")"] if name.starts_with('"') => {
                let name: Box<str> = name.trim_matches('"').into();
                let what = what.to_owned();
                let saved = self.saved.entry(name.clone()).or_default();
                match (what.as_str(), saved.pop()) {
                    ("push_macro", last) => {
                        saved.extend(last);
                        saved.push(self.macros.get(&name).cloned());
                    }
                    (_, Some(Some(before))) => {
                        self.macros.insert(name, before);
                    }
                    (_, Some(None)) => {
                        self.macros.remove(&name);
                    }
                    (_, None) => {}
                }
            }
            _ => {}
        }
    }
}
