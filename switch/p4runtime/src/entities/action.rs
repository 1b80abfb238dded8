//! Actions: the arguments by parameter id, to arguments in order, and back (spec, "Action
//! Specification").

use std::collections::HashMap;

use ebb_pipeline::control::{ActionCall, ControlError};
use ebb_pipeline::{ActionId, Pipeline};

use crate::bytes::{canonical, strip};
use crate::error::{EntityError, Result};
use crate::p4info::{Index, Object, choices};
use crate::proto::config::action_ref::Scope;
use crate::proto::config::{self, ActionRef};
use crate::proto::p4;

/// Where an action is going to be used: it must be allowed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Entry,
    Default,
}

/// Checks an action against the ones a table has. Returns it for the pipeline, whose action `find`
/// knows by name, and in its canonical form.
pub fn decode_action(
    info: &Index,
    allowed: &[ActionRef],
    action: &p4::Action,
    for_use: Use,
    find: impl Fn(&str) -> Result<ActionId, ControlError>,
) -> Result<(ActionCall, p4::Action)> {
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
    let params = arguments(definition, &action.params)
        .map_err(|e| e.at(format!("action '{}'", definition.name())))?;
    let canonical = p4::Action {
        action_id: action.action_id,
        params: encode_params(&definition.params, &params),
    };
    let call = ActionCall {
        action: find(definition.name())?,
        params,
    };
    Ok((call, canonical))
}

/// An action of the program, as P4Runtime says it. `None` if the P4Info does not know it.
pub fn encode_action(
    info: &Index,
    allowed: &[ActionRef],
    pipeline: &Pipeline,
    call: &ActionCall,
) -> Option<p4::Action> {
    let name = pipeline.action_info(call.action).name;
    let mut known = allowed.iter().filter_map(|r| info.actions.get(&r.id));
    let action = known.find(|a| a.name() == name)?;
    let params: Vec<_> = call.params.iter().map(|p| strip(p).to_vec()).collect();
    Some(p4::Action {
        action_id: action.id(),
        params: encode_params(&action.params, &params),
    })
}

fn encode_params(
    params: &[config::action::Param],
    arguments: &[Vec<u8>],
) -> Vec<p4::action::Param> {
    let encode = |(param, value): (&config::action::Param, &Vec<u8>)| p4::action::Param {
        param_id: param.id,
        value: value.clone(),
    };
    params.iter().zip(arguments).map(encode).collect()
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

fn arguments(action: &config::Action, given: &[p4::action::Param]) -> Result<Vec<Vec<u8>>> {
    let known = || choices(action.params.iter().map(|p| (p.name.as_str(), p.id)));
    let mut by_id = HashMap::new();
    for param in given {
        if !action.params.iter().any(|p| p.id == param.param_id) {
            return Err(EntityError::invalid(format!(
                "no parameter has id {}; parameters: {}",
                param.param_id,
                known()
            )));
        }
        if by_id.insert(param.param_id, &param.value).is_some() {
            return Err(EntityError::invalid(format!(
                "parameter {} is given twice",
                param.param_id
            )));
        }
    }
    let argument = |param: &config::action::Param| {
        let width = param.bitwidth.max(0) as usize;
        let place = || format!("parameter '{}' ({width} bits)", param.name);
        match by_id.get(&param.id) {
            Some(value) => canonical(value, width).map_err(|e| e.at(place())),
            None => Err(EntityError::invalid("missing").at(place())),
        }
    };
    action.params.iter().map(argument).collect()
}
