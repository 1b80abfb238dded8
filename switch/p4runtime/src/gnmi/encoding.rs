//! Values as messages: a field of `TypedValue` for each type, or JSON.

use serde_json::{Map, Value as Json};
use tonic::Status;

use super::model::{INTERFACES, Interfaces, Leaf, Place, Sample, Value};
use super::path::{Found, Origin};
use crate::proto::gnmi as proto;
use proto::typed_value::Value as Typed;

/// How a client wants values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A field of `TypedValue` for each type.
    Typed,
    /// JSON, in which a node that is no leaf is an object.
    Json,
    /// The same as RFC 7951 has it: numbers of 64 bits are strings, and the names of an object's members have their
    /// module where it is not that of the object.
    JsonIetf,
}

pub const ENCODINGS: [proto::Encoding; 3] = [
    proto::Encoding::Json,
    proto::Encoding::Proto,
    proto::Encoding::JsonIetf,
];

impl Form {
    /// That of a `Get`, which has JSON unless it says otherwise.
    pub fn of_get(encoding: i32) -> Result<Form, Status> {
        match proto::Encoding::try_from(encoding) {
            Ok(proto::Encoding::Proto) => Ok(Form::Typed),
            Ok(proto::Encoding::Json) => Ok(Form::Json),
            Ok(proto::Encoding::JsonIetf) => Ok(Form::JsonIetf),
            other => {
                let name = other.map_or_else(
                    |_| encoding.to_string(),
                    |encoding| encoding.as_str_name().to_owned(),
                );
                Err(Status::unimplemented(format!(
                    "encoding {name} is not supported; supported are JSON, PROTO and JSON_IETF"
                )))
            }
        }
    }

    /// That of a subscription. Who says nothing, or JSON, which is the same in a message, gets typed values: so does
    /// Stratum, and clients such as finsy rely on it.
    pub fn of_subscription(encoding: i32) -> Result<Form, Status> {
        Ok(match Self::of_get(encoding)? {
            Form::Json => Form::Typed,
            form => form,
        })
    }

    fn leaf(self, value: &Value) -> Typed {
        match (self, value) {
            (Form::Typed, Value::Name(name)) => Typed::StringVal(name.to_string()),
            (Form::Typed, Value::Word(word)) => Typed::StringVal((*word).to_owned()),
            (Form::Typed, Value::Flag(flag)) => Typed::BoolVal(*flag),
            (Form::Typed, Value::Number(number)) => Typed::UintVal((*number).into()),
            (Form::Typed, Value::Counter(number)) => Typed::UintVal(*number),
            (Form::Json | Form::JsonIetf, _) => self.text(&self.json(value)),
        }
    }

    fn json(self, value: &Value) -> Json {
        match value {
            Value::Name(name) => (**name).into(),
            Value::Word(word) => (*word).into(),
            Value::Flag(flag) => (*flag).into(),
            Value::Number(number) => (*number).into(),
            Value::Counter(number) if self == Form::JsonIetf => number.to_string().into(),
            Value::Counter(number) => (*number).into(),
        }
    }

    fn text(self, json: &Json) -> Typed {
        let text = json.to_string().into_bytes();
        match self {
            Form::JsonIetf => Typed::JsonIetfVal(text),
            _ => Typed::JsonVal(text),
        }
    }

    /// The name of a member of an object.
    fn member(self, name: &str, module: &str, of: Option<&str>) -> String {
        match self == Form::JsonIetf && of != Some(module) {
            true => format!("{module}:{name}"),
            false => name.to_owned(),
        }
    }
}

/// Makes updates of the interfaces: their encoding, names and values.
pub struct UpdateEncoder<'a> {
    pub form: Form,
    pub interfaces: &'a Interfaces,
    pub sample: &'a Sample,
}

impl UpdateEncoder<'_> {
    /// An update for each leaf. A leaf that the switch does not have is left out.
    pub fn leaves(&self, places: &[Place], origin: Origin) -> Vec<proto::Update> {
        let update = |place: &Place| {
            let value = self.sample.value(*place)?;
            let path = self.path(*place, usize::MAX, origin);
            Some(update(path, self.form.leaf(&value)))
        };
        places.iter().filter_map(update).collect()
    }

    /// An update for each node for which a pattern stood; leaf by leaf unless the form has objects.
    pub fn nodes(&self, found: &[Found], origin: Origin) -> Vec<proto::Update> {
        if self.form == Form::Typed {
            let places: Vec<Place> = found.iter().map(|found| found.place).collect();
            return self.leaves(&places, origin);
        }
        let groups = found.chunk_by(|a, b| node(a) == node(b));
        groups
            .filter_map(|group| self.node(group, origin))
            .collect()
    }

    fn node(&self, group: &[Found], origin: Origin) -> Option<proto::Update> {
        let Found { place, depth } = *group.first()?;
        let value = match depth.checked_sub(2) {
            Some(below) if below == place.leaf().path.len() => {
                self.form.leaf(&self.sample.value(place)?)
            }
            Some(below) => self
                .form
                .text(&Json::Object(self.object(group, below, None))),
            None => {
                let interfaces = group.chunk_by(|a, b| a.place.interface == b.place.interface);
                let entries = interfaces.filter_map(|one| self.entry(one));
                let list = Json::Array(entries.collect());
                self.form.text(&self.list(list, depth))
            }
        };
        Some(update(self.path(place, depth, origin), value))
    }

    /// The list of interfaces as a member of the node above it, or of the root.
    fn list(&self, list: Json, depth: usize) -> Json {
        let member = |name, of| self.form.member(name, INTERFACES, of);
        match depth {
            0 => {
                let inner = [(member("interface", Some(INTERFACES)), list)];
                let inner = Json::Object(inner.into_iter().collect());
                Json::Object([(member("interfaces", None), inner)].into_iter().collect())
            }
            _ => Json::Object([(member("interface", None), list)].into_iter().collect()),
        }
    }

    /// An entry of the list, which has its key whatever else is asked for.
    fn entry(&self, of_one: &[Found]) -> Option<Json> {
        let name = self.interfaces.name(of_one.first()?.place);
        let mut entry = Map::from_iter([("name".to_owned(), name.into())]);
        entry.extend(self.object(of_one, 0, Some(INTERFACES)));
        Some(Json::Object(entry))
    }

    /// Leaves as an object that is this many elements below their interface. `of`: the module of what is around it;
    /// none: it is a value of its own.
    fn object(&self, leaves: &[Found], below: usize, of: Option<&str>) -> Map<String, Json> {
        let name = |found: &Found| found.place.leaf().path[below];
        let member = |group: &[Found]| {
            let place = group.first()?.place;
            let Leaf { path, module, .. } = place.leaf();
            let (value, module) = match path.len() == below + 1 {
                true => (self.form.json(&self.sample.value(place)?), *module),
                false => {
                    let inner = self.object(group, below + 1, Some(INTERFACES));
                    (Json::Object(inner), INTERFACES)
                }
            };
            Some((self.form.member(path[below], module, of), value))
        };
        let groups = leaves.chunk_by(|a, b| name(a) == name(b));
        groups.filter_map(member).collect()
    }

    /// The first elements of the path of a leaf, counted from the root.
    fn path(&self, place: Place, depth: usize, origin: Origin) -> proto::Path {
        let named = |name: &&str| proto::PathElem {
            name: (*name).to_owned(),
            ..proto::PathElem::default()
        };
        let key = self.interfaces.name(place).to_owned();
        let interface = proto::PathElem {
            name: "interface".into(),
            key: [("name".to_owned(), key)].into(),
        };
        let below = place.leaf().path.iter().map(named);
        let all = [named(&"interfaces"), interface].into_iter().chain(below);
        proto::Path {
            origin: origin.text(),
            elem: all.take(depth).collect(),
            ..proto::Path::default()
        }
    }
}

/// Common prefix of leaves that are below one node: the depth of the node, its interface if it is not above all, and
/// its names below that.
fn node(found: &Found) -> (usize, Option<u16>, &'static [&'static str]) {
    let Found { place, depth } = *found;
    match depth.checked_sub(2) {
        Some(below) => (depth, Some(place.interface), &place.leaf().path[..below]),
        None => (depth, None, &[]),
    }
}

fn update(path: proto::Path, value: Typed) -> proto::Update {
    proto::Update {
        path: Some(path),
        val: Some(proto::TypedValue { value: Some(value) }),
        ..proto::Update::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PortState;
    use crate::gnmi::path::{Prefix, Steps};

    /// The values of all nodes that a pattern stands for, with their paths as people write them.
    fn updates(form: Form, elems: &[&str]) -> Vec<(String, Typed)> {
        let names = [(1, "a"), (2, "b")].map(|(port, name)| (port, name.to_owned()));
        let interfaces = Interfaces::new(names.into());
        let states = [1, 2].map(|port| PortState {
            port,
            is_up: port == 1,
            ..PortState::default()
        });
        let sample = interfaces.sample(0, &states);
        let elem = |name: &&str| proto::PathElem {
            name: (*name).into(),
            ..proto::PathElem::default()
        };
        let path = proto::Path {
            elem: elems.iter().map(elem).collect(),
            ..proto::Path::default()
        };
        let (pattern, origin) = Prefix::default().pattern(&path).unwrap();
        let found = pattern.find(&interfaces, &mut Steps::default()).unwrap();
        let encoder = UpdateEncoder {
            form,
            interfaces: &interfaces,
            sample: &sample,
        };
        let text = |path: proto::Path| {
            let part = |e: &proto::PathElem| e.key.get("name").unwrap_or(&e.name).clone();
            path.elem.iter().map(part).collect::<Vec<_>>().join("/")
        };
        let updates = encoder.nodes(&found, origin).into_iter();
        let both = |u: proto::Update| (text(u.path.unwrap()), u.val.unwrap().value.unwrap());
        updates.map(both).collect()
    }

    fn json(value: &Typed) -> Json {
        match value {
            Typed::JsonVal(text) | Typed::JsonIetfVal(text) => {
                serde_json::from_slice(text).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn leaves_are_bare_values_and_only_rfc_7951_has_64_bits_as_strings() {
        let leaf = |form, name: &str| {
            let values = updates(form, &["interfaces", "interface", "state", "...", name]);
            let (path, value) = values[0].clone();
            assert!(path.starts_with("interfaces/a/state/"), "{path}");
            value
        };
        for (name, typed, json, ietf) in [
            ("id", Typed::UintVal(1), "1", "1"),
            ("in-pkts", Typed::UintVal(0), "0", "\"0\""),
            ("enabled", Typed::BoolVal(true), "true", "true"),
            (
                "oper-status",
                Typed::StringVal("UP".into()),
                "\"UP\"",
                "\"UP\"",
            ),
            ("name", Typed::StringVal("a".into()), "\"a\"", "\"a\""),
        ] {
            assert_eq!(leaf(Form::Typed, name), typed);
            assert_eq!(leaf(Form::Json, name), Typed::JsonVal(json.into()));
            assert_eq!(leaf(Form::JsonIetf, name), Typed::JsonIetfVal(ietf.into()));
        }
    }

    #[test]
    fn nodes_are_objects_whose_members_have_their_module_where_it_changes() {
        let config = |form| updates(form, &["interfaces", "interface", "config"]);
        let values = config(Form::JsonIetf);
        assert_eq!(values.len(), 2);
        assert_eq!(values[1].0, "interfaces/b/config");
        let expected = serde_json::json!({
            "openconfig-interfaces:name": "b",
            "openconfig-interfaces:enabled": true,
            "openconfig-p4rt:id": 2,
        });
        assert_eq!(json(&values[1].1), expected);
        let expected = serde_json::json!({"name": "b", "enabled": true, "id": 2});
        assert_eq!(json(&config(Form::Json)[1].1), expected);
        // Each leaf of types without objects is sent.
        assert_eq!(config(Form::Typed).len(), 6);
    }

    #[test]
    fn the_list_of_interfaces_is_one_value() {
        for (path, of) in [(&["interfaces"][..], "interfaces"), (&[], "")] {
            let values = updates(Form::JsonIetf, path);
            assert_eq!(values.len(), 1, "{path:?}");
            assert_eq!(values[0].0, of);
            let whole = json(&values[0].1);
            let list = match of {
                "" => &whole["openconfig-interfaces:interfaces"]["interface"],
                _ => &whole["openconfig-interfaces:interface"],
            };
            assert_eq!(list[1]["name"], "b");
            assert_eq!(list[1]["config"]["openconfig-p4rt:id"], 2);
            assert_eq!(list[1]["state"]["oper-status"], "DOWN");
            assert_eq!(list[1]["state"]["counters"]["out-discards"], "0");
        }
        let one = updates(Form::Json, &["interfaces", "interface"]);
        assert_eq!(one.len(), 2);
        assert_eq!(json(&one[0].1)["state"]["counters"]["in-pkts"], 0);
    }

    #[test]
    fn what_is_not_supported_is_said() {
        for encoding in [proto::Encoding::Ascii, proto::Encoding::Bytes] {
            let refused = Form::of_get(encoding.into()).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Unimplemented);
            let name = encoding.as_str_name();
            assert!(
                refused
                    .message()
                    .starts_with(&format!("encoding {name} is not supported")),
                "{refused}"
            );
        }
        assert!(Form::of_get(9).is_err());
        assert_eq!(Form::of_subscription(0).unwrap(), Form::Typed);
    }
}
