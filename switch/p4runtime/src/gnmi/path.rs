//! Paths of gNMI (gNMI Path Conventions): patterns of elements with keys, and the leaves for which they stand.

use tonic::Status;

use super::model::{INTERFACES, Interfaces, LEAVES, P4RT, Place};
use crate::proto::gnmi as proto;
use crate::quote::short;

/// Any name, or any value of a key.
const ANY: &str = "*";
/// Any number of elements.
const ANY_ELEMS: &str = "...";
/// The most elements of a pattern.
const MOST_ELEMS: usize = 32;
/// The longest name of a target, which every notification repeats.
const MOST_TARGET_BYTES: usize = 256;
/// The names of the only schema: the one that is registered for OpenConfig, and its modules, which some clients say
/// (`openconfig-interfaces:interfaces` of pygnmi).
const ORIGINS: [&str; 3] = ["openconfig", INTERFACES, P4RT];

/// How many comparisons of an element of a pattern with one of a path a request may still cost: 10 ms of a processor or
/// so in all. 1024 paths to single interfaces of 512 take half of it.
pub struct Steps(usize);

impl Default for Steps {
    fn default() -> Self {
        Self(1 << 20)
    }
}

impl Steps {
    fn take(&mut self, steps: u32) -> Result<(), Status> {
        self.0 = self.0.checked_sub(steps as usize).ok_or_else(|| {
            Status::resource_exhausted(
                "the paths have too many wildcards for so many interfaces; ask for less at once",
            )
        })?;
        Ok(())
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        Self::default().0 - self.0
    }
}

/// One element of a pattern, such as `interface[name=*]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Elem {
    name: String,
    key: Key,
}

/// Pattern of the keys of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Nothing, so that they may have any value.
    Free,
    /// There is one, `name`, with any value.
    Any,
    /// With this value.
    Name(String),
    /// Others, which nothing has.
    Others,
}

impl Elem {
    fn is_any_elems(&self) -> bool {
        self.name == ANY_ELEMS
    }

    /// Whether it stands for an element that has the key `name`, if that is given.
    fn stands_for(&self, name: &str, key: Option<&str>) -> bool {
        let is_key = match &self.key {
            Key::Free => true,
            Key::Any => key.is_some(),
            Key::Name(value) => key == Some(value),
            Key::Others => false,
        };
        (self.name == ANY || self.name == name) && is_key
    }
}

/// Pattern of a request: everything at and below the paths that match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(Vec<Elem>);

/// Fields of a request that its answer repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin(Option<&'static str>);

impl Origin {
    fn read(path: &proto::Path) -> Result<Self, Status> {
        if path.origin.is_empty() {
            return Ok(Self(None));
        }
        let known = ORIGINS.into_iter().find(|origin| *origin == path.origin);
        let unknown = || {
            let origin = short(&path.origin);
            Status::unimplemented(format!("origin \"{origin}\"; there is openconfig only"))
        };
        known.map(|origin| Self(Some(origin))).ok_or_else(unknown)
    }

    pub fn text(self) -> String {
        self.0.unwrap_or_default().to_owned()
    }
}

/// The prefix of a request.
#[derive(Default)]
pub struct Prefix {
    target: String,
    origin: Origin,
    elems: Vec<Elem>,
}

impl Prefix {
    pub fn read(prefix: Option<&proto::Path>) -> Result<Self, Status> {
        let Some(prefix) = prefix else {
            return Ok(Self::default());
        };
        if prefix.target.len() > MOST_TARGET_BYTES {
            return Err(Status::invalid_argument(format!(
                "a target of {} bytes; allowed: {MOST_TARGET_BYTES}",
                prefix.target.len()
            )));
        }
        Ok(Self {
            target: prefix.target.clone(),
            origin: Origin::read(prefix)?,
            elems: elems(prefix)?,
        })
    }

    /// The prefix of answers, whose paths are whole; none if the request has nothing that it must repeat (gNMI
    /// Specification 2.2.2.1).
    pub fn answer(&self) -> Option<proto::Path> {
        let path = proto::Path {
            target: self.target.clone(),
            origin: self.origin.text(),
            ..proto::Path::default()
        };
        (path != proto::Path::default()).then_some(path)
    }

    /// A path behind this prefix, and the origin that it names itself.
    pub fn pattern(&self, path: &proto::Path) -> Result<(Pattern, Origin), Status> {
        let origin = Origin::read(path)?;
        if self.origin.0.is_some() && origin.0.is_some() {
            return Err(Status::invalid_argument(
                "prefix and path both have an origin; leave out that of the path",
            ));
        }
        let mut all = self.elems.clone();
        all.extend(elems(path)?);
        if all.len() > MOST_ELEMS {
            return Err(Status::invalid_argument(format!(
                "a path of more than {MOST_ELEMS} elements"
            )));
        }
        all.dedup_by(|next, last| next.is_any_elems() && last.is_any_elems());
        Ok((Pattern(all), origin))
    }
}

fn elems(path: &proto::Path) -> Result<Vec<Elem>, Status> {
    #[expect(deprecated, reason = "or an old client would get all that there is")]
    if let Some(name) = path.element.first() {
        return Err(Status::invalid_argument(format!(
            "a path has `element` (\"{}\"), which gNMI 0.4.0 has replaced by `elem`; give it as `elem`",
            short(name)
        )));
    }
    let elem = |elem: &proto::PathElem| {
        if elem.name.is_empty() || elem.key.keys().any(String::is_empty) {
            return Err(Status::invalid_argument(
                "an element of a path, or a key of it, has no name",
            ));
        }
        // As RFC 7951 has names.
        let name = match elem.name.split_once(':') {
            Some((INTERFACES | P4RT, name)) => name,
            _ => &elem.name,
        };
        let mut keys = elem.key.iter();
        let key = match (keys.next(), keys.next()) {
            (None, _) => Key::Free,
            (Some((of, value)), None) if of == "name" => match &**value {
                ANY => Key::Any,
                value => Key::Name(value.to_owned()),
            },
            _ => Key::Others,
        };
        Ok(Elem {
            name: name.to_owned(),
            key,
        })
    };
    path.elem.iter().take(MOST_ELEMS + 1).map(elem).collect()
}

/// A leaf for which a pattern stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// How many elements of its path, counted from the root, the pattern stands for; the others are below.
    pub depth: usize,
}

/// Where one is in a pattern when the beginning of a path has been walked: every place that its beginning may stand
/// for, so that walking on costs as many steps as there are places, whatever the wildcards.
#[derive(Clone, Copy)]
struct Walk {
    /// Bit i: the first i elements of the pattern stand for all that has been walked.
    places: u64,
    /// How many elements had been walked when the whole pattern stood for them; all that is below belongs to it.
    whole_at: Option<usize>,
}

impl Walk {
    fn is_over(self) -> bool {
        self.places == 0 && self.whole_at.is_none()
    }
}

impl Pattern {
    /// All leaves for which it stands, in their order.
    pub fn find(&self, interfaces: &Interfaces, steps: &mut Steps) -> Result<Vec<Found>, Status> {
        let mut found = Vec::new();
        let all = self.walk(self.start(), (1, "interfaces", None), steps)?;
        for (interface, name) in interfaces.names().enumerate() {
            let mut walks = vec![self.walk(all, (2, "interface", Some(name)), steps)?];
            let mut walked: &[&str] = &[];
            for (number, leaf) in LEAVES.iter().enumerate() {
                if walks[0].is_over() {
                    break;
                }
                // Elements in common with the last one have been walked.
                let same = walked.iter().zip(leaf.path).take_while(|(a, b)| a == b);
                let same = same.count();
                walks.truncate(same + 1);
                for (depth, name) in leaf.path.iter().enumerate().skip(same) {
                    walks.push(self.walk(walks[depth], (depth + 3, name, None), steps)?);
                }
                walked = leaf.path;
                if let Some(depth) = walks[leaf.path.len()].whole_at {
                    let place = Place {
                        interface: interface as u16,
                        leaf: number as u8,
                    };
                    found.push(Found { place, depth });
                }
            }
        }
        Ok(found)
    }

    /// Whether there would be something, were there the interfaces that it names.
    pub fn is_implemented(&self) -> bool {
        let mut any = self.clone();
        for elem in &mut any.0 {
            if let Key::Name(_) = elem.key {
                elem.key = Key::Any;
            }
        }
        let one = Interfaces::new(vec![(0, String::new())]);
        let found = any.find(&one, &mut Steps::default());
        found.is_ok_and(|found| !found.is_empty())
    }

    /// Whether it is, or may be, of the module of the interfaces.
    pub fn is_of_model(&self) -> bool {
        let first = self.0.first();
        first.is_none_or(|e| e.is_any_elems() || e.stands_for("interfaces", None))
    }

    fn start(&self) -> Walk {
        self.at(1, 0)
    }

    /// One element on: how many have then been walked, its name, and its key `name` if it has one.
    fn walk(
        &self,
        from: Walk,
        (depth, name, key): (usize, &str, Option<&str>),
        steps: &mut Steps,
    ) -> Result<Walk, Status> {
        if from.whole_at.is_some() || from.is_over() {
            return Ok(from);
        }
        steps.take(from.places.count_ones())?;
        let mut places = 0;
        for (place, elem) in self.0.iter().enumerate() {
            if from.places & 1 << place == 0 {
                continue;
            }
            if elem.is_any_elems() {
                places |= 1 << place;
            } else if elem.stands_for(name, key) {
                places |= 1 << (place + 1);
            }
        }
        Ok(self.at(places, depth))
    }

    /// At these places, and at those behind a `...`, which may also stand for nothing.
    fn at(&self, mut places: u64, depth: usize) -> Walk {
        for (place, elem) in self.0.iter().enumerate() {
            if elem.is_any_elems() && places & 1 << place != 0 {
                places |= 1 << (place + 1);
            }
        }
        Walk {
            places,
            whole_at: (places & 1 << self.0.len() != 0).then_some(depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn message(text: &str) -> proto::Path {
        let elem = |part: &str| {
            let (name, key) = part.split_once('[').unwrap_or((part, ""));
            let key = key.trim_end_matches(']').split_once('=');
            proto::PathElem {
                name: name.into(),
                key: key.map(|(k, v)| (k.into(), v.into())).into_iter().collect(),
            }
        };
        let parts = text.split('/').filter(|part| !part.is_empty());
        proto::Path {
            elem: parts.map(elem).collect(),
            ..proto::Path::default()
        }
    }

    fn pattern(text: &str) -> Pattern {
        let read = Prefix::default().pattern(&message(text));
        read.expect("readable").0
    }

    fn interfaces(count: u16) -> Interfaces {
        let names = (1..=count).map(|n| (n, format!("eth{n}")));
        Interfaces::new(names.collect())
    }

    fn paths(found: &[Found], of: &Interfaces) -> Vec<String> {
        let path = |found: &Found| {
            let name = of.name(found.place);
            format!("{name}/{}", found.place.leaf().path.join("/"))
        };
        found.iter().map(path).collect()
    }

    #[test]
    fn elements_of_old_clients_are_refused_with_what_has_replaced_them() {
        #[expect(deprecated)]
        let old = proto::Path {
            element: vec!["interfaces".into()],
            ..proto::Path::default()
        };
        let refused = [
            Prefix::read(Some(&old)).err().unwrap(),
            Prefix::default().pattern(&old).err().unwrap(),
        ];
        for error in refused {
            assert_eq!(error.code(), Code::InvalidArgument);
            assert!(error.message().contains("replaced by `elem`"), "{error}");
        }
    }

    #[test]
    fn a_pattern_stands_for_all_below_it() {
        let two = interfaces(2);
        let all = 2 * LEAVES.len();
        for (text, count, depth) in [
            ("", all, 0),
            ("...", all, 0),
            ("interfaces", all, 1),
            ("openconfig-interfaces:interfaces", all, 1),
            ("*", all, 1),
            ("interfaces/interface", all, 2),
            ("interfaces/interface[name=*]/state", 22, 3),
            ("interfaces/interface[name=eth2]/state", 11, 3),
            ("interfaces/interface/state/openconfig-p4rt:id", 2, 4),
            ("interfaces/*/state/*/in-pkts", 2, 5),
            (".../counters", 10, 4),
            (".../in-pkts", 2, 5),
            ("interfaces/.../in-pkts", 2, 5),
            (".../state/.../in-pkts/...", 2, 5),
            ("interfaces/.../.../interface/.../name", 6, 3),
            ("interfaces/interface[name=eth3]", 0, 0),
            ("interfaces/interface[id=1]", 0, 0),
            ("interfaces[name=eth1]", 0, 0),
            ("interface/state", 0, 0),
            (".../in-errors", 0, 0),
            ("interfaces/interface/state/counters/in-pkts/more", 0, 0),
        ] {
            let found = pattern(text).find(&two, &mut Steps::default());
            let found = found.expect("within the steps");
            assert_eq!(found.len(), count, "{text}");
            assert!(count == 0 || found[0].depth == depth, "{text}: {found:?}");
        }
        let found = pattern(".../oper-status").find(&two, &mut Steps::default());
        assert_eq!(
            paths(&found.expect("within the steps"), &two),
            ["eth1/state/oper-status", "eth2/state/oper-status"]
        );
    }

    #[test]
    fn steps_grow_with_the_pattern_and_the_interfaces_only() {
        let steps = |text: &str, ports| {
            let mut steps = Steps::default();
            let found = pattern(text).find(&interfaces(ports), &mut steps);
            found.map(|found| (found.len(), steps.taken()))
        };
        let nodes = 1 + 6 * 19;
        let many = ".../".repeat(31) + "out-discards";
        let (found, taken) = steps(&many, 6).expect("within the steps");
        assert_eq!(found, 6);
        assert!(taken <= 2 * nodes, "{taken}");
        // Nothing of it can be left out.
        let mixed = ".../*/".repeat(15) + ".../out-discards";
        let (found, taken) = steps(&mixed, 6).expect("within the steps");
        assert_eq!(found, 0);
        assert!(taken <= 32 * nodes, "{taken}");
        // Who names an interface does not pay for what the others have.
        let (_, taken) = steps("interfaces/interface[name=eth7]/state", 512).expect("enough");
        assert!(taken < 550, "{taken}");
    }

    #[test]
    fn a_request_has_a_bounded_number_of_steps() {
        let many = interfaces(512);
        let costly = pattern(&(".../*/".repeat(15) + ".../x"));
        let mut steps = Steps::default();
        let refused = (0..1024).find_map(|_| costly.find(&many, &mut steps).err());
        assert_eq!(refused.expect("refused").code(), Code::ResourceExhausted);
        // As finsy asks: a path for each port.
        let mut steps = Steps::default();
        for port in (1..=512).chain(1..=512) {
            let one = format!("interfaces/interface[name=eth{port}]/state/oper-status");
            let found = pattern(&one).find(&many, &mut steps);
            assert_eq!(found.expect("within the steps").len(), 1);
        }
    }

    #[test]
    fn a_prefix_comes_before_the_path_and_its_target_and_origin_come_back() {
        let mut prefix = message("interfaces");
        let read = |prefix: &proto::Path, path: &proto::Path| {
            Prefix::read(Some(prefix)).and_then(|prefix| prefix.pattern(path))
        };
        let rest = message("interface[name=a]");
        let (whole, origin) = read(&prefix, &rest).expect("readable");
        assert_eq!(whole, pattern("interfaces/interface[name=a]"));
        assert_eq!(origin.text(), "");
        let answer = |prefix: &proto::Path| Prefix::read(Some(prefix)).expect("readable").answer();
        assert_eq!(answer(&prefix), None);
        prefix.target = "leaf1".into();
        prefix.origin = "openconfig".into();
        let expected = proto::Path {
            elem: Vec::new(),
            ..prefix.clone()
        };
        assert_eq!(answer(&prefix), Some(expected));
        // Origins, of the path or of the prefix.
        for (origin, code) in [
            ("openconfig", None),
            ("openconfig-interfaces", None),
            ("openconfig-p4rt", None),
            ("cli", Some(Code::Unimplemented)),
            ("\u{1b}]0;x", Some(Code::Unimplemented)),
        ] {
            let path = proto::Path {
                origin: origin.into(),
                ..rest.clone()
            };
            let read = read(&message("interfaces"), &path);
            assert_eq!(read.as_ref().err().map(Status::code), code, "{origin}");
            match read {
                Ok((_, told)) => assert_eq!(told.text(), origin),
                Err(status) => assert!(!status.message().contains('\u{1b}'), "{status}"),
            }
        }
        let both = proto::Path {
            origin: "openconfig".into(),
            ..rest
        };
        let refused = read(&prefix, &both).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let code = |path: &proto::Path| {
            let read = Prefix::default().pattern(path);
            read.err().map(|status| status.code())
        };
        assert_eq!(code(&message(&".../".repeat(32))), None);
        let invalid = Some(Code::InvalidArgument);
        assert_eq!(code(&message(&".../".repeat(33))), invalid);
        assert_eq!(code(&message("interfaces/interface[=x]")), invalid);
        let mut nameless = message("interfaces");
        nameless.elem[0].name.clear();
        assert_eq!(code(&nameless), invalid);
        let prefix = proto::Path {
            target: "x".repeat(257),
            ..proto::Path::default()
        };
        assert!(Prefix::read(Some(&prefix)).is_err());
    }

    #[test]
    fn what_a_switch_never_has_is_told_from_what_it_has_not_yet() {
        for (text, implemented, of_model) in [
            ("", true, true),
            ("interfaces/interface[name=x]", true, true),
            (".../in-pkts", true, true),
            ("interfaces/interface/state/mtu", false, true),
            ("interfaces/interface[id=1]", false, true),
            ("system", false, false),
            ("ietf-interfaces:interfaces", false, false),
        ] {
            let pattern = pattern(text);
            assert_eq!(pattern.is_implemented(), implemented, "{text}");
            assert_eq!(pattern.is_of_model(), of_model, "{text}");
        }
    }
}
