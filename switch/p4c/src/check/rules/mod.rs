//! Rules of the language that neither its grammar nor its types express, one in each file.
//!
//! A rule reads what the checker has made and reports what breaks it; it changes nothing. What depends on where the
//! code stands is in [`super::places`].

pub mod action_parameters;
pub mod action_scopes;
pub mod bound_arguments;
pub mod distinct_names;
pub mod field_types;
pub mod function_overloads;
pub mod function_returns;
pub mod lvalues;
pub mod new_types;
pub mod packet_types;
pub mod parameters;
pub mod parser_states;
pub mod switch_labels;
pub mod table_entries;
