//! The Model Context Protocol: connections to servers, authorisation, and the protocol side of being
//! a server.
#![forbid(unsafe_code)]
