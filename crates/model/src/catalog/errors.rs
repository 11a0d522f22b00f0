//! Mistakes in the settings of models.

/// Something in the settings of models that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The settings are no object.
    #[error("models: must be an object with `models` and `aliases`")]
    NoObject,
    /// One of the two sections is no object.
    #[error("{0}: must be an object")]
    SectionNoObject(String),
    /// A section that doesn't exist.
    #[error("{0}: unknown; expected `models` or `aliases`")]
    UnknownSection(String),
    /// The target of a short name is no name.
    #[error("aliases.{0}: must be a model's name")]
    Alias(String),
    /// The entry of a model.
    #[error("models.{id}: {reason}")]
    Model {
        /// The model.
        id: String,
        /// The mistake.
        reason: EntryError,
    },
}

/// A mistake in the entry of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// A field is missing or has the wrong type.
    #[error("{0}")]
    Unreadable(String),
    /// A price is below zero.
    #[error("prices must not be negative")]
    NegativePrice,
    /// A limit is zero.
    #[error("context_window and max_output must be more than 0")]
    NoRoom,
}
