//! Why a field of a form can't be sent as it is.

/// A problem with the value of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("this is required")]
    Required,
    #[error("'{0}' is not a number")]
    NotANumber(String),
    #[error("'{0}' is not offered")]
    NotOffered(String),
    #[error("answer y or n")]
    YesOrNo,
    /// A violation of the field's schema.
    #[error("{0}")]
    Schema(String),
}

impl FieldError {
    /// A problem that the schema checker found. It begins with the place, which is the field itself.
    pub(crate) fn schema(problem: &str) -> Self {
        Self::Schema(problem.trim_start_matches("/: ").to_owned())
    }
}
