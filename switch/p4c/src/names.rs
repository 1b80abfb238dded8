//! Names: where they are in a list, and unique ones for what the compiler makes.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Deref;

/// Where names are in a list that does not change; the index is made with the first question.
#[derive(Debug, Default)]
pub struct Places(OnceCell<HashMap<String, usize>>);

impl Places {
    /// The first place of a name among `names`, which are always the same.
    pub fn of<'a>(&self, name: &str, names: impl Iterator<Item = &'a str>) -> Option<usize> {
        let index = self.0.get_or_init(|| {
            let mut index = HashMap::new();
            for (place, name) in names.enumerate() {
                index.entry(name.to_owned()).or_insert(place);
            }
            index
        });
        index.get(name).copied()
    }
}

/// Names in the order in which they came, each once.
#[derive(Debug, Default)]
pub struct NameList {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl NameList {
    /// Adds a name; `false` if it is there already.
    pub fn add(&mut self, name: &str) -> bool {
        let is_new = !self.places.contains_key(name);
        if is_new {
            self.places.insert(name.to_owned(), self.list.len());
            self.list.push(name.to_owned());
        }
        is_new
    }

    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

impl Deref for NameList {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.list
    }
}

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
