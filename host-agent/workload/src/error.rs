/// Why a workload cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum Error {
    /// The text is not what a specification looks like.
    #[error("{0}")]
    Syntax(String),
    /// It is, but asks for something that does not exist.
    #[error("{place}: {problem}")]
    Invalid { place: String, problem: String },
}

impl Error {
    pub(crate) fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            place: place.into(),
            problem: problem.into(),
        }
    }
}
