//! Where tables lead, by the place at which they are applied.

use indexmap::IndexMap;

use crate::ir::Expr;

/// Where a table leads; none: to the end of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Successors {
    /// If the table is empty (`base_default_next` of the JSON).
    pub base_default: Option<String>,
    /// By name of the action, or `__HIT__` and `__MISS__`.
    pub by_action: IndexMap<String, Option<String>>,
}

/// The places at which a table is applied, from the last of the program to the first.
pub(super) struct Applied {
    pub places: Vec<Place>,
    /// The variable with the number of the place, 0 for the first; none as long as there is one.
    pub number: Option<Expr>,
}

/// A place at which a table is applied.
pub(super) struct Place {
    /// The node to enter.
    pub entry: String,
    pub successors: Successors,
}

impl Applied {
    /// A table that is applied at one place.
    pub(super) fn new(entry: String, successors: Successors) -> Applied {
        Applied {
            places: vec![Place { entry, successors }],
            number: None,
        }
    }
}
