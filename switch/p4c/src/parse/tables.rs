//! Tables.

use super::{Parsed, Parser};
use crate::ast::{ActionReference, Entry, KeyElement, TableProperty, TablePropertyValue};
use crate::limits::MAX_ENTRIES;

impl Parser<'_> {
    /// `{ key = ...; actions = ...; ... }`
    pub(super) fn table_properties(&mut self) -> Parsed<Vec<TableProperty>> {
        self.expect("{")?;
        self.until_brace(Self::table_property)
    }

    fn table_property(&mut self) -> Parsed<TableProperty> {
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.ident("a table property")?;
        self.expect("=")?;
        let value = match name.text.as_str() {
            "key" => {
                self.expect("{")?;
                TablePropertyValue::Key(self.until_brace(Self::key_element)?)
            }
            "actions" => {
                self.expect("{")?;
                TablePropertyValue::Actions(self.until_brace(Self::action_reference)?)
            }
            "entries" => {
                self.expect("{")?;
                TablePropertyValue::Entries(self.entries()?)
            }
            _ => {
                let value = self.expr()?;
                self.expect(";")?;
                TablePropertyValue::Expression(value)
            }
        };
        if !matches!(value, TablePropertyValue::Expression(_)) {
            self.eat(";");
        }
        Ok(TableProperty {
            annotations,
            is_const,
            name,
            value,
        })
    }

    fn key_element(&mut self) -> Parsed<KeyElement> {
        let before = self.annotations()?;
        let expr = self.expr()?;
        self.expect(":")?;
        let match_kind = self.ident("a match kind")?;
        let mut annotations = self.annotations()?;
        annotations.extend(before);
        self.expect(";")?;
        Ok(KeyElement {
            annotations,
            expr,
            match_kind,
        })
    }

    fn action_reference(&mut self) -> Parsed<ActionReference> {
        let annotations = self.annotations()?;
        let expr = self.operand()?;
        self.expect(";")?;
        Ok(ActionReference { annotations, expr })
    }

    /// Entries up to `}`. Of more than a program may have, as many as show that.
    fn entries(&mut self) -> Parsed<Vec<Entry>> {
        let mut entries = Vec::new();
        self.until_brace(|parser| {
            let entry = parser.entry()?;
            if entries.len() <= MAX_ENTRIES {
                entries.push(entry);
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let start = self.peek().span;
        let is_const = self.eat_word("const");
        let priority = if self.at_word("priority") && self.peek_at(1).is("=") {
            self.next();
            self.next();
            // Either `priority = 10: key : action` or `priority = (expr): ...`
            let value = self.expr()?;
            self.expect(":")?;
            Some(value)
        } else {
            None
        };
        let keyset = self.key_sets()?;
        self.expect(":")?;
        let action = self.operand()?;
        let annotations = self.annotations()?;
        let span = start.to(self.last_span());
        self.expect(";")?;
        Ok(Entry {
            annotations,
            is_const,
            priority,
            keyset,
            action,
            span,
        })
    }
}
