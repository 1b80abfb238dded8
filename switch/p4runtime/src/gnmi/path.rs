//! Paths of gNMI (gNMI Path Conventions): elements with keys, and patterns of them.

use std::collections::BTreeMap;

use crate::proto::gnmi as proto;
use crate::quote::short;

/// One element, such as `interface[name=eth1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Elem {
    pub name: String,
    pub keys: BTreeMap<String, String>,
}

/// A path from the root; as a pattern it stands for everything below it, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Elem>);

/// Any name, or any value of a key.
const ANY: &str = "*";
/// Any number of elements.
const ANY_ELEMS: &str = "...";
/// The most elements of a pattern: `...` is tried at every place.
const MOST_ELEMS: usize = 32;

impl Elem {
    pub fn named(name: &str) -> Elem {
        Elem {
            name: name.to_owned(),
            keys: BTreeMap::new(),
        }
    }

    /// With the key `name`.
    pub fn keyed(name: &str, value: &str) -> Elem {
        Elem {
            keys: BTreeMap::from([("name".to_owned(), value.to_owned())]),
            ..Elem::named(name)
        }
    }

    /// Whether the pattern `self` stands for the element. Keys that it does not name may have any value.
    fn matches(&self, elem: &Elem) -> bool {
        let is_key = |(key, value): (&String, &String)| {
            let found = elem.keys.get(key);
            found.is_some_and(|found| value == ANY || value == found)
        };
        (self.name == ANY || self.name == elem.name) && self.keys.iter().all(is_key)
    }
}

impl Path {
    /// The path of a message, behind the prefix of its request. The error says what is wrong with it.
    pub fn read(prefix: Option<&proto::Path>, path: &proto::Path) -> Result<Path, String> {
        let of = |path: &proto::Path| {
            path.elem
                .iter()
                .map(|elem| Elem {
                    name: elem.name.clone(),
                    keys: elem.key.clone(),
                })
                .collect::<Vec<_>>()
        };
        for given in prefix.into_iter().chain([path]) {
            if !matches!(given.origin.as_str(), "" | "openconfig") {
                return Err(format!(
                    "origin {:?}; there is openconfig only",
                    short(&given.origin)
                ));
            }
        }
        let mut elems = prefix.map(of).unwrap_or_default();
        elems.extend(of(path));
        match elems.len() > MOST_ELEMS {
            true => Err(format!("a path of more than {MOST_ELEMS} elements")),
            false => Ok(Path(elems)),
        }
    }

    pub fn message(&self) -> proto::Path {
        let elem = |elem: &Elem| proto::PathElem {
            name: elem.name.clone(),
            key: elem.keys.clone(),
        };
        proto::Path {
            elem: self.0.iter().map(elem).collect(),
            ..proto::Path::default()
        }
    }

    /// Whether the pattern `self` stands for the path, or for one above it.
    pub fn matches(&self, path: &Path) -> bool {
        stands_for(&self.0, &path.0)
    }
}

fn stands_for(pattern: &[Elem], path: &[Elem]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return true;
    };
    if first.name == ANY_ELEMS {
        return (0..=path.len()).any(|skipped| stands_for(rest, &path[skipped..]));
    }
    match path.split_first() {
        Some((elem, below)) => first.matches(elem) && stands_for(rest, below),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        let elem = |part: &str| match part.split_once("[name=") {
            Some((name, value)) => Elem::keyed(name, value.trim_end_matches(']')),
            None => Elem::named(part),
        };
        Path(
            text.split('/')
                .filter(|p| !p.is_empty())
                .map(elem)
                .collect(),
        )
    }

    #[test]
    fn a_pattern_stands_for_all_below_it() {
        let leaf = path("interfaces/interface[name=eth1]/state/counters/in-pkts");
        for (pattern, matches) in [
            ("", true),
            ("interfaces", true),
            ("interfaces/interface", true),
            ("interfaces/interface[name=*]/state", true),
            (
                "interfaces/interface[name=eth1]/state/counters/in-pkts",
                true,
            ),
            ("interfaces/*/state/*/in-pkts", true),
            (".../counters", true),
            (".../in-pkts", true),
            ("interfaces/.../in-pkts", true),
            ("interfaces/interface[name=eth2]", false),
            ("interfaces/interface/config", false),
            (".../out-pkts", false),
            ("interfaces/interface/state/counters/in-pkts/more", false),
        ] {
            assert_eq!(path(pattern).matches(&leaf), matches, "{pattern}");
        }
    }

    #[test]
    fn a_prefix_comes_before_the_path_and_other_origins_are_refused() {
        let prefix = path("interfaces").message();
        let rest = path("interface[name=a]").message();
        let read = Path::read(Some(&prefix), &rest);
        assert_eq!(read, Ok(path("interfaces/interface[name=a]")));
        let other = proto::Path {
            origin: "cli".into(),
            ..rest.clone()
        };
        assert!(Path::read(None, &other).is_err());
        let long = Path(vec![Elem::named("..."); MOST_ELEMS + 1]).message();
        assert!(Path::read(None, &long).is_err());
    }
}
