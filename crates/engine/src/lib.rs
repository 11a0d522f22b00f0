//! The heart: turn loop, executor, context.
