//! Numbers of declarations, through the whole program.

/// Index in [`Program::vars`](super::Program::vars).
pub type VarId = usize;
/// Index in [`Program::actions`](super::Program::actions).
pub type ActionId = usize;
/// Index in [`Program::tables`](super::Program::tables).
pub type TableId = usize;
/// Index in [`Program::functions`](super::Program::functions).
pub type FunctionId = usize;
/// Index in [`Program::controls`](super::Program::controls).
pub type ControlId = usize;
/// Index in [`Program::parsers`](super::Program::parsers).
pub type ParserId = usize;
/// Index in [`Program::instances`](super::Program::instances).
pub type InstanceId = usize;
/// Index in [`Program::extern_functions`](super::Program::extern_functions).
pub type ExternFunctionId = usize;
/// Index in [`Program::value_sets`](super::Program::value_sets).
pub type ValueSetId = usize;
