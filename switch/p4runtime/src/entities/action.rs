//! Actions: clients give arguments by parameter id, the pipeline takes them in order (spec, "Action
//! Specification").

use ebb_pipeline::control::{ActionCall, ControlError};
use ebb_pipeline::{ActionId, Pipeline};

use crate::bytes::strip;
use crate::error::{EntityError, Result};
use crate::p4info::{Index, Object, choices};
use crate::proto::config::action_ref::Scope;
use crate::proto::config::{self, ActionRef};
use crate::proto::p4;
use crate::translation::Names;

/// Use of an action, which its scope in the table has to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Entry,
    Default,
}

/// Checks an action against those of a table, and returns it for the pipeline; `find` returns the
/// pipeline's id of an action.
pub fn decode_action(
    info: &Index,
    names: &mut Names,
    allowed: &[ActionRef],
    action: &p4::Action,
    for_use: Use,
    find: impl Fn(&config::Action) -> Result<ActionId, ControlError>,
) -> Result<ActionCall> {
    let Some(reference) = allowed.iter().find(|r| r.id == action.action_id) else {
        let id = action.action_id;
        let what = match info.actions.get(&id) {
            Some(other) => format!("action '{}' is not one of this table", other.name()),
            None => format!("no action has id {id} ({id:#010x})"),
        };
        let known = allowed.iter().filter_map(|r| info.actions.get(&r.id));
        let known = choices(known.map(|a| (a.name(), a.id())));
        return Err(EntityError::invalid(format!(
            "{what}; its actions: {known}"
        )));
    };
    let definition = info.action(action.action_id)?;
    check_scope(definition, reference, for_use)?;
    let params = arguments(definition, &action.params, names)
        .map_err(|e| e.at(format!("action '{}'", definition.name())))?;
    Ok(ActionCall {
        action: find(definition)?,
        params,
    })
}

/// A call of an action as a message of P4Runtime. `None`: the P4Info does not have the action.
pub fn encode_action(
    info: &Index,
    names: &Names,
    allowed: &[ActionRef],
    pipeline: &Pipeline,
    call: &ActionCall,
) -> Option<p4::Action> {
    let name = pipeline.action_info(call.action).name;
    let mut known = allowed.iter().filter_map(|r| info.actions.get(&r.id));
    let action = known.find(|a| a.name() == name)?;
    let encode = |(param, value): (&config::action::Param, &Vec<u8>)| p4::action::Param {
        param_id: param.id,
        value: names.encode(param.type_name.as_ref(), strip(value)),
    };
    Some(p4::Action {
        action_id: action.id(),
        params: action.params.iter().zip(&call.params).map(encode).collect(),
    })
}

fn check_scope(action: &config::Action, reference: &ActionRef, for_use: Use) -> Result<()> {
    let denied = |only: &str| {
        Err(EntityError::permission_denied(format!(
            "action '{}' is only for {only} of this table",
            action.name()
        )))
    };
    match (reference.scope(), for_use) {
        (Scope::TableOnly, Use::Default) => denied("entries, not for the default entry,"),
        (Scope::DefaultOnly, Use::Entry) => denied("the default entry"),
        _ => Ok(()),
    }
}

fn arguments(
    action: &config::Action,
    given: &[p4::action::Param],
    names: &mut Names,
) -> Result<Vec<Vec<u8>>> {
    let known = || choices(action.params.iter().map(|p| (p.name.as_str(), p.id)));
    for (i, param) in given.iter().enumerate() {
        if !action.params.iter().any(|p| p.id == param.param_id) {
            return Err(EntityError::invalid(format!(
                "no parameter has id {}; parameters: {}",
                param.param_id,
                known()
            )));
        }
        if given[..i].iter().any(|p| p.param_id == param.param_id) {
            return Err(EntityError::invalid(format!(
                "parameter {} is given twice",
                param.param_id
            )));
        }
    }
    let argument = |param: &config::action::Param| {
        let width = param.bitwidth.max(0) as usize;
        let place = || format!("parameter '{}' ({width} bits)", param.name);
        match given.iter().find(|p| p.param_id == param.id) {
            Some(p) => names
                .decode(param.type_name.as_ref(), width, &p.value)
                .map_err(|e| e.at(place())),
            None => Err(EntityError::invalid("missing").at(place())),
        }
    };
    action.params.iter().map(argument).collect()
}
