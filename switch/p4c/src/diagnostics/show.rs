//! Messages as text for people, editors and programs.

use std::fmt;

use ebb_printable::printable_lines;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};

use super::{Diagnostic, Diagnostics, Severity, json};
use crate::printable;
use crate::source::{SourceFile, SourceMap, Span};

/// How messages are written (`--error-format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line that names place and cause, the lines of the program below it, and a count at the end.
    #[default]
    Long,
    /// `file:line:column: error: message [code]` and a line for each note and help, as gcc writes them.
    Short,
    /// A JSON object a line: [`json`].
    Json,
}

impl Format {
    /// All formats with their names on the command line.
    pub const ALL: [(&str, Format); 3] = [
        ("long", Format::Long),
        ("short", Format::Short),
        ("json", Format::Json),
    ];
}

impl Severity {
    /// The word that messages begin with.
    pub(super) fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }

    /// Bold, in the colour that compilers have for it (ECMA-48, SGR).
    fn colored(self, text: &str) -> String {
        let color = match self {
            Severity::Error => 31,
            Severity::Warning => 33,
            Severity::Info => 36,
        };
        format!("\u{1b}[1;{color}m{text}\u{1b}[0m")
    }
}

impl Diagnostics {
    /// All messages as text, in the order they were found.
    pub fn render(&self, sources: &SourceMap, color: bool) -> String {
        self.show(sources, Format::Long, color)
    }

    /// As [`Diagnostics::render`], in one of the formats. Only the long one has colours.
    pub fn show(&self, sources: &SourceMap, format: Format, color: bool) -> String {
        let mut out = String::new();
        for diagnostic in self.list.borrow().iter() {
            let diagnostic = &printable::diagnostic(diagnostic);
            match format {
                Format::Long => long(&mut out, diagnostic, sources, color),
                Format::Short => short(&mut out, diagnostic, sources),
                Format::Json => out.push_str(&json::line(diagnostic, sources)),
            }
        }
        if format == Format::Long {
            out.push_str(&self.summary());
        }
        out
    }

    /// The numbers of errors and warnings, as a line; nothing if both are 0.
    fn summary(&self) -> String {
        let counted = |severity: Severity| {
            let n = self.count(severity);
            let plural = if n == 1 { "" } else { "s" };
            let more = if self.is_full(severity) {
                " or more"
            } else {
                ""
            };
            (n > 0).then(|| format!("{n} {}{plural}{more}", severity.word()))
        };
        let counts = [Severity::Error, Severity::Warning].map(counted);
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        match counts.is_empty() {
            true => String::new(),
            false => counts.join(", ") + "\n",
        }
    }
}

/// `file:line:column: `, or nothing without a place.
fn position(span: Option<Span>, sources: &SourceMap) -> String {
    match span {
        Some(span) => {
            let (file, line, column) = sources.position(span);
            format!("{}:{line}:{column}: ", printable_lines(file))
        }
        None => String::new(),
    }
}

/// The first line of a message, without its end. Editors look for lines like it, those of gcc.
fn head(diagnostic: &Diagnostic, sources: &SourceMap, color: bool) -> String {
    let place = position(diagnostic.span, sources);
    let word = format!("{}:", diagnostic.severity.word());
    let word = match color {
        true => diagnostic.severity.colored(&word),
        false => word,
    };
    format!("{place}{word} {} [{}]", diagnostic.message, diagnostic.code)
}

fn short(out: &mut String, diagnostic: &Diagnostic, sources: &SourceMap) {
    out.push_str(&head(diagnostic, sources, false));
    out.push('\n');
    for (span, text) in &diagnostic.notes {
        let place = position(Some(*span), sources);
        out.push_str(&format!("{place}note: {text}\n"));
    }
    if let Some(help) = &diagnostic.help {
        let place = position(diagnostic.span, sources);
        out.push_str(&format!("{place}note: {help}\n"));
    }
}

fn long(out: &mut String, diagnostic: &Diagnostic, sources: &SourceMap, color: bool) {
    out.push_str(&head(diagnostic, sources, color));
    out.push('\n');
    if let Some(span) = diagnostic.span {
        out.push_str(&snippet(diagnostic, sources.file(span.file), color));
    }
    if let Some(help) = &diagnostic.help {
        out.push_str(&format!("  help: {help}\n"));
    }
    for (span, text) in &diagnostic.notes {
        if diagnostic.span.is_some_and(|main| main.file != span.file) {
            let place = position(Some(*span), sources);
            out.push_str(&format!("  {place}{text}\n"));
        }
    }
}

/// The lines of the program that a message is about, with its labels; nothing if one of them is too long.
fn snippet(diagnostic: &Diagnostic, file: &SourceFile, color: bool) -> String {
    if has_long_line(file, diagnostic) {
        return String::new();
    }
    let theme = match color {
        true => GraphicalTheme::unicode(),
        false => GraphicalTheme::unicode_nocolor(),
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(120)
        .with_context_lines(1)
        .with_links(false);
    let name = printable_lines(&file.name);
    let shown = Shown {
        diagnostic,
        source: NamedSource::new(name, printable::source(&file.text)),
    };
    let mut text = String::new();
    if handler.render_report(&mut text, &shown).is_err() {
        return String::new();
    }
    // The report begins with its message, which is empty here, after a sign of the severity. That line is cut off.
    let message = text.find(['×', '⚠', '☞']).unwrap_or_default();
    match text[message..].find('\n') {
        Some(end) => text.split_off(message + end + 1),
        None => String::new(),
    }
}

/// The longest line in bytes that is shown; no line that a person wrote is longer. miette panics where a label begins
/// behind column 65535.
const MAX_LINE_BYTES: usize = 2000;

/// Whether a line that would be shown, or one beside it, is too long to be.
fn has_long_line(file: &SourceFile, diagnostic: &Diagnostic) -> bool {
    let notes = diagnostic.notes.iter().map(|(span, _)| *span);
    let mut spans = diagnostic.span.into_iter().chain(notes);
    spans.any(|span| file.longest_line_around(span) > MAX_LINE_BYTES)
}

/// Adapter that shows a [`Diagnostic`] through miette's source snippets.
#[derive(Debug)]
struct Shown<'a> {
    diagnostic: &'a Diagnostic,
    source: NamedSource<String>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diagnostic.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Info => miette::Severity::Advice,
        })
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let main = self.diagnostic.span?;
        let label = |span: Span, text: &str| {
            LabeledSpan::new(
                Some(text.to_owned()),
                span.start as usize,
                (span.end - span.start) as usize,
            )
        };
        let others = self
            .diagnostic
            .notes
            .iter()
            .filter(move |(span, _)| span.file == main.file)
            .map(move |(span, text)| label(*span, text));
        Some(Box::new(
            std::iter::once(label(main, &self.diagnostic.label)).chain(others),
        ))
    }
}
