//! Forms of older files, brought into those of new ones.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::{
    ActionProfile, Calculation, ChecksumKind, FieldRef, Pipeline, Program, TableKind, Value,
};

/// Reads a program as if members that are null were absent, which to BMv2 is the same. `None` if it is still none.
pub fn without_nulls(text: &[u8]) -> Option<Program> {
    let mut json = serde_json::from_slice(text).ok()?;
    drop_nulls(&mut json);
    // As text again: a program is read from texts alone, since each source of one is compiled for all of its types.
    serde_json::from_slice(&serde_json::to_vec(&json).ok()?).ok()
}

fn drop_nulls(json: &mut Json) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(drop_nulls),
        Json::Object(members) => {
            members.retain(|_, value| !value.is_null());
            for (key, value) in members {
                // There a null says that nothing follows an action.
                if key != "next_tables" {
                    drop_nulls(value);
                }
            }
        }
        _ => {}
    }
}

/// Lists action profiles that only their tables name, and gives checksums of IPv4 headers their calculation.
pub fn renew(program: &mut Program) {
    program.pipelines.iter_mut().for_each(list_profiles);
    for number in 0..program.checksums.len() {
        if program.checksums[number].kind == ChecksumKind::Ipv4 {
            let calculation = of_ipv4_header(program, number);
            let checksum = &mut program.checksums[number];
            checksum.kind = ChecksumKind::Generic;
            checksum.calculation.clone_from(&calculation.name);
            program.calculations.push(calculation);
        }
    }
}

fn list_profiles(pipeline: &mut Pipeline) {
    let profiles = &mut pipeline.action_profiles;
    let mut ids: HashSet<u32> = profiles.iter().map(|p| p.id).collect();
    for table in &mut pipeline.tables {
        let Some(name) = table.act_prof_name.take() else {
            continue;
        };
        let selector = table.selector.take();
        if table.kind == TableKind::Simple || table.action_profile.is_some() {
            continue;
        }
        table.action_profile = Some(name.clone());
        let free = (0..).find(|id| ids.insert(*id));
        profiles.push(ActionProfile {
            name,
            id: free.unwrap_or_default(),
            source_info: None,
            max_size: ActionProfile::unlimited(),
            selector,
        });
    }
}

/// The sum over the header that the target of a checksum is in, without the target.
fn of_ipv4_header(program: &Program, checksum: usize) -> Calculation {
    let checksum = &program.checksums[checksum];
    let target = &checksum.target;
    let header = program.headers.iter().find(|h| h.name == target.header());
    let ty = header.and_then(|h| {
        program
            .header_types
            .iter()
            .find(|t| t.name == h.header_type)
    });
    let fields = ty.map_or(&[][..], |ty| &ty.fields);
    let others = fields.iter().filter(|f| f.name != target.field());
    Calculation {
        name: format!("{} of IPv4", checksum.name),
        id: program.calculations.len() as u32,
        source_info: None,
        algo: "csum16".to_owned(),
        input: others
            .map(|f| Value::Field(FieldRef::new(target.header(), &f.name)).into())
            .collect(),
        configurable: None,
    }
}
