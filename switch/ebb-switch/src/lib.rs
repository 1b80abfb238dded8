//! The parts of the switch binary that the simulator has too: settings, programs, and switches as
//! the P4Runtime server sees them.

pub mod announce;
pub mod bmv2_options;
pub mod build;
pub mod fabric;
pub mod options;
pub mod run;
pub mod service;
pub mod settings;
pub mod trace;
