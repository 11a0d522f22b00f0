//! One server of the manager.

use crate::server::ServerConfig;
use crate::status::{ServerStatus, State};
use parking_lot::Mutex;
use std::sync::Arc;

pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    pub(crate) state: Mutex<State>,
}

impl Entry {
    pub(crate) fn status(&self) -> ServerStatus {
        ServerStatus {
            name: self.name.clone(),
            transport: self.config.transport.kind(),
            state: self.state.lock().clone(),
            description: None,
            tools: Arc::default(),
            remarks: Vec::new(),
        }
    }
}
