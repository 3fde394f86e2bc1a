//! Why a command has failed, and with which exit code.

use std::io;

use thiserror::Error;

use crate::exit::{BAD_OPTION, FAILED, NOT_FOUND, REFUSED, UNAVAILABLE};

/// The reason why a command has failed, as text for the person who ran it.
#[derive(Debug, Error)]
pub(super) enum Error {
    /// An option, an argument, a variable or a line of the input is wrong. No request was sent for
    /// it.
    #[error("{0}")]
    Usage(String),
    /// A queue, message, claim or task does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The service has refused a request.
    #[error("{text}")]
    Refused { status: u16, text: String },
    /// The service cannot be reached or has answered that it is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The error for standard input that cannot be read.
    #[expect(clippy::needless_pass_by_value, reason = "it is the argument of map_err")]
    pub(super) fn input(error: io::Error) -> Self {
        Self::Usage(format!("cannot read stdin: {error}"))
    }

    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => BAD_OPTION,
            Self::NotFound(_) => NOT_FOUND,
            Self::Refused { .. } => REFUSED,
            Self::Unavailable(_) => UNAVAILABLE,
            Self::Failed(_) | Self::Output(_) => FAILED,
        }
    }

    /// Whether the reader of the output has closed it, such as `head`.
    pub(super) fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The same error with another text.
    pub(super) fn with_text(self, text: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Usage(old) => Self::Usage(text(&old)),
            Self::NotFound(old) => Self::NotFound(text(&old)),
            Self::Refused { status, text: old } => Self::Refused { status, text: text(&old) },
            Self::Unavailable(old) => Self::Unavailable(text(&old)),
            Self::Failed(old) => Self::Failed(text(&old)),
            Self::Output(error) => Self::Output(error),
        }
    }
}
