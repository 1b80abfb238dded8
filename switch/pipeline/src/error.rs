//! Why a program cannot be loaded.

/// Names the object of the BMv2 JSON and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot load the BMv2 program: {object}: {problem}")]
pub struct LoadError {
    pub object: String,
    pub problem: String,
}

impl LoadError {
    pub(crate) fn new(object: impl Into<String>, problem: impl Into<String>) -> Self {
        LoadError {
            object: object.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn missing(kind: &str, name: &str) -> Self {
        LoadError::new(
            format!("{kind} {name}"),
            "it is used but not declared in the file",
        )
    }

    /// Says in which object the problem was met, if it is not said already.
    pub(crate) fn within(self, owner: impl std::fmt::Display) -> Self {
        LoadError {
            object: format!("{owner}: {}", self.object),
            problem: self.problem,
        }
    }
}
