//! Unique names for what the compiler makes.

use std::collections::HashMap;

/// Names that are taken, and the number that the next one of that name gets.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, usize>);

impl Names {
    pub fn with(name: &str) -> Names {
        let mut names = Names::default();
        names.take(name);
        names
    }

    /// `name` is taken, whether it was or not.
    pub fn take(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default();
    }

    /// `name`, or the first of `name_0`, `name_1`, .. that is free.
    pub fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        while self.0.contains_key(&unique) {
            let next = self.0.entry(name.to_owned()).or_default();
            unique = format!("{name}_{next}");
            *next += 1;
        }
        self.0.insert(unique.clone(), 0);
        unique
    }
}
