//! The reasons for which a program cannot be loaded.

/// An object of the BMv2 JSON and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot load the BMv2 program: {object}: {problem}")]
pub struct LoadError {
    /// The object.
    pub object: String,
    /// The mistake in it.
    pub problem: String,
}

impl LoadError {
    pub(crate) fn new(object: impl Into<String>, problem: impl Into<String>) -> Self {
        LoadError {
            object: object.into(),
            problem: problem.into(),
        }
    }

    /// Something is used that the file does not declare.
    pub(crate) fn missing(kind: &str, name: &str) -> Self {
        LoadError::new(
            format!("{kind} {name}"),
            "it is used but not declared in the file",
        )
    }

    /// Adds in which object the problem was met.
    pub(crate) fn within(self, owner: impl std::fmt::Display) -> Self {
        LoadError {
            object: format!("{owner}: {}", self.object),
            problem: self.problem,
        }
    }
}
