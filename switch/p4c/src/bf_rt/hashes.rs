//! Tables of hashes that are set at run time: the algorithm, which bits of the inputs take part in which order, and the
//! hash of given values.

use serde_json::{Value, json};

use super::field::{self, data, defaulted, mandatory, ty};
use super::table::{Prefix, Source, Table, annotations};
use crate::hashes::{self, HashCall};

/// Names of the algorithms that need no parameters.
#[rustfmt::skip]
const ALGORITHMS: &[&str] = &[
    "IDENTITY", "RANDOM", "XOR", "CRC_8", "CRC_8_DARC", "CRC_8_I_CODE", "CRC_8_ITU", "CRC_8_MAXIM", "CRC_8_ROHC",
    "CRC_8_WCDMA", "CRC_16", "CRC_16_BYPASS", "CRC_16_DDS_110", "CRC_16_DECT", "CRC_16_DECT_R", "CRC_16_DECT_X",
    "CRC_16_DNP", "CRC_16_EN_13757", "CRC_16_GENIBUS", "CRC_16_MAXIM", "CRC_16_MCRF4XX", "CRC_16_RIELLO",
    "CRC_16_T10_DIF", "CRC_16_TELEDISK", "CRC_16_USB", "X_25", "XMODEM", "MODBUS", "KERMIT", "CRC_CCITT_FALSE",
    "CRC_AUG_CCITT", "CRC_32", "CRC_32_BZIP2", "CRC_32C", "CRC_32D", "CRC_32_MPEG", "POSIX", "CRC_32Q", "JAMCRC",
    "XFER", "CRC_64", "CRC_64_GO_ISO", "CRC_64_WE", "CRC_64_JONES",
];

impl Source<'_> {
    /// The three tables of each hash that can be set.
    pub(super) fn hashes(&self) -> Vec<Value> {
        let hashes = hashes::of(self.flat);
        let of_one = |(object, call): (&usize, &HashCall)| {
            let object = &self.flat.objects[*object];
            let name = self.name(&object.name);
            let notes = annotations(&crate::p4info::plain_annotations(&object.annotations));
            let table = |end: &str, prefix: Prefix, kind| {
                let mut made = Table::new(format!("{name}.{end}"), prefix.hash(&name), kind, 1);
                made.annotations.clone_from(&notes);
                made
            };
            let mut configure = table("configure", Prefix::HashConfigure, "DynHashConfigure");
            configure.data = slices(call);
            let mut algorithm = table("algorithm", Prefix::HashAlgorithm, "DynHashAlgorithm");
            algorithm.depends_on = vec![configure.id];
            algorithm.data = vec![
                data(field::HASH_ROTATE, defaulted("uint32", 0)),
                data(field::HASH_SEED, defaulted("uint32", 0)),
                data(field::HASH_MSB, defaulted("bool", false)),
                data(field::HASH_EXTEND, defaulted("bool", false)),
            ];
            let mut algorithm = algorithm.into_json();
            algorithm["action_specs"] = algorithms();
            let mut compute = table("compute", Prefix::HashCompute, "DynHashCompute");
            compute.depends_on = vec![configure.id];
            compute.key = values(call);
            compute.data = vec![field::read_only(field::HASH_VALUE, width(call.bits))];
            let mut compute = compute.into_json();
            compute["read_only"] = true.into();
            [algorithm, configure.into_json(), compute]
        };
        hashes.iter().flat_map(of_one).collect()
    }
}

fn width(bits: u32) -> Value {
    field::bytes(i32::try_from(bits).unwrap_or(i32::MAX))
}

/// A field for each input: the slices of it.
fn slices(call: &HashCall) -> Vec<Value> {
    let made = (1..).zip(&call.fields).map(|(id, input)| {
        let notes = match input.is_constant {
            true => vec![json!({ "name": "bfrt_p4_constant" })],
            false => Vec::new(),
        };
        let fields = vec![
            data(field::HASH_START_BIT, defaulted("uint64", 0)),
            data(field::HASH_LENGTH, defaulted("uint64", input.bits)),
            mandatory(field::HASH_ORDER, ty("uint64")),
        ];
        field::containers(id, &input.name, notes, fields)
    });
    made.collect()
}

/// A field for each input that is no constant.
fn values(call: &HashCall) -> Vec<Value> {
    let inputs = call.fields.iter().filter(|input| !input.is_constant);
    let made = (1..).zip(inputs).map(|(id, input)| {
        let bits = width(input.bits);
        field::named_key(id, &input.name, Vec::new(), false, "Exact", bits)
    });
    made.collect()
}

/// The two ways to name an algorithm.
fn algorithms() -> Value {
    let parameter = |id: u32, name: &str, mandatory: bool, ty: Value| {
        json!({
            "id": id, "name": name, "repeated": false, "mandatory": mandatory, "read_only": false, "annotations": [],
            "type": ty,
        })
    };
    let action = |id: u32, name: &str, data: Vec<Value>| {
        json!({
            "id": id, "name": name, "action_scope": "TableAndDefault", "annotations": [], "data": data,
        })
    };
    let choices = json!({ "type": "string", "choices": ALGORITHMS, "default_value": "RANDOM" });
    json!([
        action(
            field::HASH_PRE_DEFINED,
            "pre_defined",
            vec![parameter(1, "algorithm_name", false, choices)],
        ),
        action(
            field::HASH_USER_DEFINED,
            "user_defined",
            vec![
                parameter(1, "reverse", false, defaulted("bool", false)),
                parameter(2, "polynomial", true, ty("uint64")),
                parameter(3, "init", false, defaulted("uint64", 0)),
                parameter(4, "final_xor", false, defaulted("uint64", 0)),
                parameter(5, "hash_bit_width", false, ty("uint64")),
            ],
        ),
    ])
}
