//! Errors of single updates, and how a batch reports them (P4Runtime spec, "Error Reporting").

use ebb_pipeline::control::ControlError;
use ebb_printable::printable;
use prost::Message;
use prost_types::Any;
use thiserror::Error;
use tonic::{Code, Status};

use crate::proto::{bf_runtime, p4, rpc};

/// The error space of our own details; the canonical code and the message say all there is.
const SPACE: &str = "ebb-v1model";
const P4_ERROR_TYPE_URL: &str = "type.googleapis.com/p4.v1.Error";
/// BF Runtime's error has the same fields by the same numbers, but for the last two, which are left out.
const BF_RUNTIME_ERROR_TYPE_URL: &str = "type.googleapis.com/bfrt_proto.Error";
/// The details travel in a trailer, and clients limit the size of trailers (grpcio: 8 KiB soft).
/// Beyond this the codes stay and the messages are dropped (spec, "gRPC Metadata Maximum Size").
const DETAILS_LIMIT_BYTES: usize = 5 * 1024;

/// Why one entity was refused. The message quotes names of a program and words of a client, of which a terminal obeys
/// nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct EntityError {
    /// Code of gRPC.
    pub code: Code,
    /// Cause and place, without control characters.
    pub message: String,
}

pub type Result<T, E = EntityError> = std::result::Result<T, E>;

macro_rules! constructors {
    ($($name:ident => $code:ident),* $(,)?) => {
        impl EntityError {
            /// An error with the code of this name.
            $(
                #[doc = concat!("An error with the code `", stringify!($code), "`.")]
                pub fn $name(message: impl Into<String>) -> Self {
                Self::new(Code::$code, &message.into())
            })*
        }
    };
}

constructors! {
    invalid => InvalidArgument,
    not_found => NotFound,
    already_exists => AlreadyExists,
    permission_denied => PermissionDenied,
    out_of_range => OutOfRange,
    exhausted => ResourceExhausted,
    unimplemented => Unimplemented,
    failed_precondition => FailedPrecondition,
    internal => Internal,
}

impl EntityError {
    /// An error with a message that is made printable.
    pub fn new(code: Code, message: &str) -> Self {
        let message = printable(message).into_owned();
        Self { code, message }
    }

    /// Says where the error is; places nest from the outside in.
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self::new(self.code, &format!("{place}: {}", self.message))
    }

    /// The error as result of a whole call.
    pub fn into_status(self) -> Status {
        Status::new(self.code, self.message)
    }
}

/// The status of a Write or Read: OK if every element succeeded, else UNKNOWN with one detail for each.
/// `left_alone` is how many more elements there were, which were not tried.
pub fn batch_status(
    results: &[Result<()>],
    elements: &str,
    left_alone: usize,
) -> Result<(), Status> {
    status_of(results, elements, left_alone, P4_ERROR_TYPE_URL)
}

/// Likewise, with the details of BF Runtime.
pub fn bf_runtime_status(
    results: &[Result<()>],
    elements: &str,
    left_alone: usize,
) -> Result<(), Status> {
    status_of(results, elements, left_alone, BF_RUNTIME_ERROR_TYPE_URL)
}

/// One error of BF Runtime for each element, without a code where it succeeded.
pub fn bf_runtime_errors(results: &[Result<()>]) -> Vec<bf_runtime::Error> {
    let error = |result: &Result<()>| match result {
        Ok(()) => bf_runtime::Error::default(),
        Err(error) => bf_runtime::Error {
            canonical_code: error.code as i32,
            message: error.message.clone(),
            space: SPACE.into(),
            code: error.code as i32,
        },
    };
    results.iter().map(error).collect()
}

fn status_of(
    results: &[Result<()>],
    elements: &str,
    left_alone: usize,
    type_url: &str,
) -> Result<(), Status> {
    let Some(first) = results.iter().find_map(|r| r.as_ref().err()) else {
        return Ok(());
    };
    let failed = results.iter().filter(|r| r.is_err()).count();
    let message = match (results.len(), left_alone) {
        (1, 0) => first.message.clone(),
        (all, 0) => format!("{failed} of {all} {elements} failed; the first: {first}"),
        (all, more) => format!(
            "{failed} of {all} {elements} failed, so the other {more} were left alone; the first: {first}"
        ),
    };
    let encode = |with_messages| {
        let status = rpc::Status {
            code: Code::Unknown as i32,
            message: message.clone(),
            details: results
                .iter()
                .map(|r| detail(r, with_messages, type_url))
                .collect(),
        };
        status.encode_to_vec()
    };
    let mut details = encode(true);
    if details.len() > DETAILS_LIMIT_BYTES {
        details = encode(false);
    }
    Err(Status::with_details(Code::Unknown, message, details.into()))
}

fn detail(result: &Result<()>, with_message: bool, type_url: &str) -> Any {
    let error = match result {
        Ok(()) => p4::Error::default(),
        Err(error) if with_message => p4::Error {
            canonical_code: error.code as i32,
            message: error.message.clone(),
            space: SPACE.into(),
            ..p4::Error::default()
        },
        // 100 bytes of metadata per update is what the spec has clients allow; this is 60.
        Err(error) => p4::Error {
            canonical_code: error.code as i32,
            ..p4::Error::default()
        },
    };
    Any {
        type_url: type_url.into(),
        value: error.encode_to_vec(),
    }
}

impl From<ControlError> for EntityError {
    fn from(error: ControlError) -> Self {
        let code = match error {
            ControlError::NotFound { .. } => Code::NotFound,
            ControlError::AlreadyExists { .. } => Code::AlreadyExists,
            ControlError::Full { .. } => Code::ResourceExhausted,
            ControlError::Invalid { .. } => Code::InvalidArgument,
            ControlError::OutOfRange { .. } => Code::OutOfRange,
            ControlError::Const { .. } => Code::PermissionDenied,
            ControlError::InUse { .. } => Code::FailedPrecondition,
        };
        Self::new(code, &error.to_string())
    }
}
