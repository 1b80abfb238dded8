//! Members and groups of action profiles, with `simple_switch_CLI`'s commands: both are numbered from 0, in the order
//! of their creation in the profile.

use ebb_bmv2_json::Program;
use ebb_pipeline::control::{Group, GroupMember};
use ebb_pipeline::{Pipeline, ProfileId};

use crate::bench::in_words;
use crate::entry;
use crate::names::resolve;
use crate::script::{Action, Command};

pub fn run(program: &Program, pipeline: &mut Pipeline, command: &Command) -> Result<(), String> {
    match command {
        Command::MemberCreate { profile, action } => {
            let id = find(program, pipeline, profile)?;
            create_member(program, pipeline, id, action)
        }
        Command::ProfileGroupCreate { profile } => {
            let id = find(program, pipeline, profile)?;
            let number = pipeline.groups(id).count() as u32;
            in_words(pipeline.insert_group(id, number, Group::default()))
        }
        Command::MemberAddToGroup {
            profile,
            member,
            group,
        } => {
            let id = find(program, pipeline, profile)?;
            add_to_group(pipeline, id, *member, *group)
        }
        other => Err(format!("{other:?} is not about action profiles")),
    }
}

fn create_member(
    program: &Program,
    pipeline: &mut Pipeline,
    profile: ProfileId,
    action: &Action,
) -> Result<(), String> {
    let number = pipeline.members(profile).count() as u32;
    let names = program.actions.iter().map(|action| action.name.as_str());
    let name = resolve("action", &action.name, names)?;
    let id = in_words(pipeline.profile_action(profile, name))?;
    let call = entry::call(pipeline, id, action)?;
    in_words(pipeline.insert_member(profile, number, call))
}

fn add_to_group(
    pipeline: &mut Pipeline,
    profile: ProfileId,
    member: u32,
    group: u32,
) -> Result<(), String> {
    let found = pipeline.groups(profile).find(|(id, _)| *id == group);
    let Some((_, known)) = found else {
        return Err(format!("there is no group {group}: act_prof_create_group"));
    };
    let mut changed = known.clone();
    changed.members.push(GroupMember {
        member,
        weight: 1,
        watch_port: None,
    });
    in_words(pipeline.modify_group(profile, group, changed))
}

fn find(program: &Program, pipeline: &Pipeline, name: &str) -> Result<ProfileId, String> {
    let profiles = program.pipelines.iter().flat_map(|p| &p.action_profiles);
    let name = resolve("action profile", name, profiles.map(|p| p.name.as_str()))?;
    in_words(pipeline.profile(name))
}
