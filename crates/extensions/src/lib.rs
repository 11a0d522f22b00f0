//! What users add as files: agents, skills, commands, output styles, plugins.
#![forbid(unsafe_code)]
