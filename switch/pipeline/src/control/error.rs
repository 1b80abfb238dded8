//! The reasons for which requests of the control plane are refused. Each corresponds to one
//! P4Runtime code.

/// The answer to a request of the control plane.
pub(crate) type Result<T> = std::result::Result<T, ControlError>;

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum ControlError {
    /// The object does not exist (P4Runtime code NOT_FOUND).
    #[error("{kind} `{name}` does not exist")]
    NotFound { kind: &'static str, name: String },
    /// The object exists already (ALREADY_EXISTS).
    #[error("{kind} `{name}` exists already; modify it or delete it first")]
    AlreadyExists { kind: &'static str, name: String },
    /// There is no room for the object (RESOURCE_EXHAUSTED).
    #[error("{kind} `{name}` is full: it holds {size} entries")]
    Full {
        kind: &'static str,
        name: String,
        size: u32,
    },
    /// The request makes no sense (INVALID_ARGUMENT).
    #[error("{name}: {problem}")]
    Invalid { name: String, problem: String },
    /// The array has no such cell (OUT_OF_RANGE).
    #[error("{kind} `{name}` has {size} cells, there is no index {index}")]
    OutOfRange {
        kind: &'static str,
        name: String,
        size: u64,
        index: u64,
    },
    /// The program does not allow a change (PERMISSION_DENIED).
    #[error("{name} is constant in the P4 program and cannot be changed")]
    Const { name: String },
    /// Something else refers to the object (FAILED_PRECONDITION).
    #[error("{kind} `{name}` is in use by {user}; delete that first")]
    InUse {
        kind: &'static str,
        name: String,
        user: String,
    },
}

impl ControlError {
    pub(crate) fn not_found(kind: &'static str, name: impl ToString) -> Self {
        ControlError::NotFound {
            kind,
            name: name.to_string(),
        }
    }

    pub(crate) fn exists(kind: &'static str, name: impl ToString) -> Self {
        ControlError::AlreadyExists {
            kind,
            name: name.to_string(),
        }
    }

    pub(crate) fn invalid(name: impl ToString, problem: impl Into<String>) -> Self {
        ControlError::Invalid {
            name: name.to_string(),
            problem: problem.into(),
        }
    }
}
