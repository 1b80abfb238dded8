//! Errors and warnings for people: what, where, what was expected, what to do.

mod json;
mod show;

use std::cell::RefCell;

use crate::limits::Budget;
use crate::source::Span;

pub use show::Format;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// There is no output.
    Error,
    /// The program compiles, and probably does not do what was meant.
    Warning,
    /// A warning that the user wants as a remark, or a remark of the compiler.
    Info,
}

/// Treatment of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is not printed.
    Ignore,
    /// It is printed as a remark.
    Info,
    /// It is printed as a warning.
    Warn,
    /// It is an error.
    Error,
}

/// The user's settings of warnings (`--Wdisable`, `--Werror`, ..) and the number of errors.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Treatment of warnings that are not in `named`; none: warn.
    pub all: Option<Action>,
    /// Treatment of single warnings, by our code or p4c's name; the last one counts.
    pub named: Vec<(String, Action)>,
    /// How many errors are shown before the compiler gives up; none: [`MAX_ERRORS`].
    pub max_errors: Option<usize>,
}

/// Other names for what our warnings are about: those of p4c, and earlier ones of ours.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("unused", "unused-object"),
    ("value-truncated", "overflow"),
    ("value-truncated", "mismatch"),
    ("unknown-property", "ignore-prop"),
    ("constant-key", "ignore-prop"),
    ("constant-key", "mismatch"),
    ("annotation-disabled", "ignore"),
    ("ignored-annotation", "ignore"),
    ("empty-field-list", "invalid"),
];

/// Whether `name`, which a user wrote, is a name of the warning.
fn is_called(code: &str, name: &str) -> bool {
    // Older releases of p4c write names with underscores.
    let name = name.replace('_', "-");
    name == code || OTHER_NAMES.contains(&(code, &name))
}

/// The last setting of a warning.
fn setting(settings: &[(String, Action)], code: &str) -> Option<Action> {
    let setting = settings
        .iter()
        .rev()
        .find(|(name, _)| is_called(code, name));
    setting.map(|(_, action)| *action)
}

impl Policy {
    fn action(&self, code: &str) -> Action {
        let named = setting(&self.named, code);
        named.or(self.all).unwrap_or(Action::Warn)
    }
}

/// One message. `code` names the cause and is stable: tests and users may rely on it.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How severe it is.
    pub severity: Severity,
    /// Stable name of the cause, in kebab case.
    pub code: &'static str,
    /// Cause in one phrase, at most 1,000 characters.
    pub message: String,
    /// Place of the cause. None: it is in no file.
    pub span: Option<Span>,
    /// Text under the caret.
    pub label: String,
    /// Other places that matter ("declared here").
    pub notes: Vec<(Span, String)>,
    /// Advice for the user. None: there is none.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            span: Some(span),
            label: "here".into(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, span, message)
        }
    }

    /// An error that belongs to no place in a file, such as an unreadable input.
    pub fn global(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic {
            span: None,
            ..Diagnostic::error(code, Span::default(), message)
        }
    }

    /// A remark, which needs no action.
    pub fn remark(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Info,
            ..Diagnostic::global(code, message)
        }
    }

    /// Whether it prevents output.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Replaces the text under the caret, which is "here".
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds another place that matters.
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Self {
        self.notes.push((span, text.into()));
        self
    }

    /// Replaces the advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// "did you mean ..." when one of `candidates` is close to `name`.
    pub fn suggest<'a>(
        self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        match nearest(name, candidates) {
            Some(found) => self.help(format!("did you mean `{found}`?")),
            None => self,
        }
    }

    /// As [`Self::suggest`]; if none is close, the candidates themselves, with `lead` in front of them.
    pub fn suggest_among(self, name: &str, candidates: &[&str], lead: &str) -> Diagnostic {
        if candidates.is_empty() || nearest(name, candidates.iter().copied()).is_some() {
            return self.suggest(name, candidates.iter().copied());
        }
        let shown = &candidates[..candidates.len().min(MAX_CANDIDATES)];
        let rest = if shown.len() < candidates.len() {
            ", ..."
        } else {
            ""
        };
        self.help(format!("{lead} {}{rest}", shown.join(", ")))
    }
}

/// How many names are listed where none is close to the one that is unknown.
const MAX_CANDIDATES: usize = 16;

/// How many errors are shown before the compiler gives up, if the user does not say.
pub const MAX_ERRORS: usize = 50;

/// How many warnings are shown, and how many remarks: each takes time as the file is long, and nobody reads more.
const MAX_WARNINGS: usize = 200;

/// Collects the messages of one run. Shared by all passes, hence the interior mutability.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: RefCell<Vec<Diagnostic>>,
    policy: Policy,
    /// The settings that the program has for all of itself (`@diagnostic`); they come before those of the command line.
    pragmas: RefCell<Vec<(String, Action)>>,
    /// Where the program wants to hear nothing of a warning of this name (`@noWarn`).
    quiet: RefCell<Vec<(Span, String)>>,
    budget: Budget,
}

impl Diagnostics {
    /// No messages yet, with the user's settings of warnings.
    pub fn with_policy(policy: Policy) -> Diagnostics {
        Diagnostics {
            policy,
            ..Diagnostics::default()
        }
    }

    /// Growth that the program has left.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Adds a message, unless it is an unwanted warning, the second with its code at its place, or one of too many.
    /// Long messages are cut.
    pub fn report(&self, mut diagnostic: Diagnostic) {
        if let Some((end, _)) = diagnostic.message.char_indices().nth(MAX_MESSAGE_CHARS) {
            diagnostic.message.truncate(end);
            diagnostic.message.push_str(" ..");
        }
        if diagnostic.severity == Severity::Warning {
            if self.is_unwanted(&diagnostic) {
                return;
            }
            let pragma = setting(&self.pragmas.borrow(), diagnostic.code);
            let action = pragma.unwrap_or_else(|| self.policy.action(diagnostic.code));
            diagnostic.severity = match action {
                Action::Ignore => return,
                Action::Info => Severity::Info,
                Action::Warn => Severity::Warning,
                Action::Error => Severity::Error,
            };
        }
        if self.is_full(diagnostic.severity) {
            return;
        }
        let mut list = self.list.borrow_mut();
        // One cause is reported once per place, however many passes or instances meet it.
        let repeated = list
            .iter()
            .any(|d| d.code == diagnostic.code && d.span == diagnostic.span);
        if !repeated {
            list.push(diagnostic);
        }
    }

    /// Reports what makes all that was said before pointless.
    pub(crate) fn report_only(&self, diagnostic: Diagnostic) {
        self.list.borrow_mut().clear();
        self.report(diagnostic);
    }

    /// Leaves warnings of a name out that belong to a place in the span.
    pub(crate) fn no_warnings_in(&self, span: Span, name: String) {
        self.quiet.borrow_mut().push((span, name));
    }

    /// Sets the program's treatment of a warning, wherever it is.
    pub(crate) fn set_action(&self, name: String, action: Action) {
        self.pragmas.borrow_mut().push((name, action));
    }

    fn is_unwanted(&self, diagnostic: &Diagnostic) -> bool {
        let quiet = self.quiet.borrow();
        let place = diagnostic.span.unwrap_or_default();
        quiet
            .iter()
            .any(|(span, name)| span.contains(place) && is_called(diagnostic.code, name))
    }

    /// Adds an error.
    pub fn error(&self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Adds an error with advice.
    pub fn error_with_help(
        &self,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.report(Diagnostic::error(code, span, message).help(help));
    }

    /// Whether there is an error.
    pub fn has_errors(&self) -> bool {
        self.error_count() > 0
    }

    /// Number of errors so far.
    pub fn error_count(&self) -> usize {
        self.count(Severity::Error)
    }

    fn count(&self, severity: Severity) -> usize {
        let list = self.list.borrow();
        list.iter().filter(|d| d.severity == severity).count()
    }

    /// Whether there are this many errors that the compiler gives up.
    pub fn too_many(&self) -> bool {
        self.is_full(Severity::Error)
    }

    /// Whether there are as many of them as are shown.
    fn is_full(&self, severity: Severity) -> bool {
        let most = match severity {
            Severity::Error => self.policy.max_errors.unwrap_or(MAX_ERRORS),
            Severity::Warning | Severity::Info => MAX_WARNINGS,
        };
        self.count(severity) >= most
    }

    /// All messages, in the order of their reports.
    pub fn list(&self) -> Vec<Diagnostic> {
        self.list.borrow().clone()
    }
}

/// The most characters of a message: types and numbers of a program can be longer than anybody reads.
const MAX_MESSAGE_CHARS: usize = 1000;

/// The candidate with the smallest edit distance, if it is close enough to be a typing error.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let length = name.chars().count();
    // Another name of one letter is no likelier than any other.
    let limit = if length < 2 { 0 } else { 1 + length / 4 };
    candidates
        .into_iter()
        .filter(|c| *c != name)
        .map(|c| (edit_distance(name, c), c))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, c)| c)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    fn rendered(text: &str, starts: impl Iterator<Item = u32>) -> String {
        let mut sources = SourceMap::default();
        let file = sources.add("a.p4", text);
        let diagnostics = Diagnostics::default();
        for start in starts {
            let end = start + 1;
            let error = Diagnostic::error("code", Span { file, start, end }, "wrong");
            diagnostics.report(error.help("do this"));
        }
        diagnostics.render(&sources, false)
    }

    #[test]
    fn lines_that_no_person_wrote_are_not_shown() {
        let text = format!("first\n{}x\nlast", " ".repeat(70_000));
        let shown = "a.p4:2:70001: error: wrong [code]\n  help: do this\n1 error\n";
        assert_eq!(rendered(&text, [70_006].into_iter()), shown);
        assert!(rendered("first\nx", [6].into_iter()).contains("2 │ x"));
    }

    #[test]
    fn there_is_an_end_to_errors() {
        let text = rendered(&"x".repeat(80), 0..80);
        assert_eq!(text.matches("wrong").count(), MAX_ERRORS);
        assert!(text.ends_with("\n50 errors or more\n"));
    }

    #[test]
    fn there_is_an_end_to_warnings() {
        let diagnostics = Diagnostics::default();
        for start in 0..MAX_WARNINGS as u32 + 5 {
            let place = Span {
                start,
                end: start,
                file: 0,
            };
            diagnostics.report(Diagnostic::warning("code", place, "odd"));
        }
        assert_eq!(diagnostics.list().len(), MAX_WARNINGS);
        diagnostics.report(Diagnostic::global("other", "wrong"));
        let mut sources = SourceMap::default();
        sources.add("a.p4", " ".repeat(300));
        let text = diagnostics.render(&sources, false);
        assert!(text.ends_with("\n1 error, 200 warnings or more\n"));
    }

    #[test]
    fn a_terminal_obeys_nothing_of_a_program() {
        let (mut sources, diagnostics) = (SourceMap::default(), Diagnostics::default());
        let file = sources.add("a\u{1b}.p4", "\u{e9}\u{1b}[2J\u{9b}1m\u{202e} here\r\nnext");
        let (start, end) = (14, 18);
        let wrong = Diagnostic::error("code", Span { file, start, end }, "no \u{1b}[1m")
            .label("a\u{7}label")
            .help("a\rhelp");
        diagnostics.report(wrong);
        let expected = "a\\u{1b}.p4:1:11: error: no \\u{1b}[1m [code]
   ╭─[a\\u{1b}.p4:1:15]
 1 │ é?[2J??1m??? here
   ·              ──┬─
   ·                ╰── a\\u{7}label
 2 │ next
   ╰────
  help: a\\u{d}help
1 error
";
        assert_eq!(diagnostics.render(&sources, false), expected);
    }

    #[test]
    fn warnings_are_what_the_user_wants() {
        let named = |name: &str, action| (name.to_owned(), action);
        let policy = Policy {
            all: Some(Action::Ignore),
            named: vec![
                named("unused_object", Action::Error),
                named("other", Action::Info),
            ],
            max_errors: Some(1),
        };
        let diagnostics = Diagnostics::with_policy(policy);
        let at = |start| Span {
            file: 0,
            start,
            end: start + 1,
        };
        for (place, code) in ["unused", "other", "third"].into_iter().enumerate() {
            diagnostics.report(Diagnostic::warning(code, at(place as u32), "x"));
        }
        diagnostics.report(Diagnostic::error("second-error", at(9), "x"));
        let list = diagnostics.list();
        let found: Vec<_> = list.iter().map(|d| (d.code, d.severity)).collect();
        let expected = [("unused", Severity::Error), ("other", Severity::Info)];
        assert_eq!(found, expected);
    }

    #[test]
    fn suggests_close_names_only() {
        assert_eq!(
            nearest("ipv4_dst", ["ipv4_src", "ipv4_dts"]),
            Some("ipv4_dts")
        );
        assert_eq!(nearest("x", ["ethernet"]), None);
    }
}
