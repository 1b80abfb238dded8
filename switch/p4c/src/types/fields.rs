//! The fields of a struct, header or union.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;

use super::FieldType;
use crate::annotations::own_name;
use crate::names::Places;

/// Fields in their order. However many they are, one is found by its name in one step.
#[derive(Default)]
pub struct Fields {
    list: Vec<FieldType>,
    places: Places,
    own_names: OnceCell<Vec<String>>,
}

impl Fields {
    /// The index of the field of this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.of(name, self.list.iter().map(|f| &f.name[..]))
    }

    /// How the control plane and the JSON call each field: its `@name`, or its name if it has no `@name` or another
    /// field is called so.
    pub fn own_names(&self) -> &[String] {
        self.own_names.get_or_init(|| {
            let own = |f: &FieldType| own_name(&f.name, &f.annotations);
            let own: Vec<String> = self.list.iter().map(own).collect();
            // How many fields are called so, in one way or the other.
            let mut called: HashMap<&str, usize> = HashMap::new();
            for (field, own) in self.list.iter().zip(&own) {
                *called.entry(&field.name).or_default() += 1;
                if *own != field.name {
                    *called.entry(own).or_default() += 1;
                }
            }
            let chosen = |(field, own): (&FieldType, &String)| match called[&own[..]] {
                1 => own.clone(),
                _ => field.name.clone(),
            };
            self.list.iter().zip(&own).map(chosen).collect()
        })
    }
}

impl From<Vec<FieldType>> for Fields {
    fn from(list: Vec<FieldType>) -> Fields {
        Fields {
            list,
            ..Fields::default()
        }
    }
}

impl FromIterator<FieldType> for Fields {
    fn from_iter<I: IntoIterator<Item = FieldType>>(fields: I) -> Fields {
        Fields::from(fields.into_iter().collect::<Vec<_>>())
    }
}

impl Deref for Fields {
    type Target = [FieldType];

    fn deref(&self) -> &[FieldType] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a FieldType;
    type IntoIter = std::slice::Iter<'a, FieldType>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}
