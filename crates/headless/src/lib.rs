//! Print mode and the NDJSON protocol.
