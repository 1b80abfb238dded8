//! The objects of a program by the names that its file has for them.

use std::collections::HashMap;

use crate::stateful::RegisterRef;

/// The arrays and calculations that actions refer to, by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub registers: HashMap<String, RegisterRef>,
    pub counters: HashMap<String, u32>,
    pub meters: HashMap<String, u32>,
    pub filters: HashMap<String, u32>,
    pub calculations: HashMap<String, u32>,
}
