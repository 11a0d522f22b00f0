//! Identifiers, one type each so that they can't be mixed up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// How many identifiers are made of the randomness that is asked for at a time.
const POOL: usize = 64;

thread_local! {
    /// Randomness of the system that is not used yet: a frame has an identifier, a second may have a
    /// thousand frames, and asking the system for each takes longer than the rest of the frame.
    static RANDOMNESS: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// A random identifier, as [`Uuid::new_v4`].
fn random_uuid() -> Uuid {
    let pooled = RANDOMNESS.with_borrow_mut(|pool| {
        if pool.is_empty() {
            let mut bytes = [0; POOL * 16];
            getrandom::fill(&mut bytes).ok()?;
            pool.extend_from_slice(bytes.as_chunks().0);
        }
        pool.pop()
    });
    pooled.map_or_else(Uuid::new_v4, |bytes| {
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    })
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A fresh random identifier.
            #[must_use]
            pub fn random() -> Self {
                Self(random_uuid())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    };
}

uuid_id!(
    /// Names a session; its transcript's file is named after it.
    SessionId
);
uuid_id!(
    /// Names one transcript record. The frames that show it carry the same id.
    RecordId
);
text_id!(
    /// Names one call of a tool, as the model named it.
    ToolUseId
);
text_id!(
    /// Names a background task: a shell command or an agent.
    TaskId
);
text_id!(
    /// Names a sub-agent of this session.
    AgentId
);
text_id!(
    /// Names an open question (a permission request, a control request).
    RequestId
);

impl RequestId {
    /// A fresh random identifier.
    #[must_use]
    pub fn random() -> Self {
        Self(random_uuid().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn random_identifiers_are_valid_and_never_the_same() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..1_000).map(|_| random_uuid()).collect::<Vec<_>>()))
            .collect();
        let ids: Vec<Uuid> = threads
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect();
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
        assert!(
            ids.iter()
                .all(|id| id.get_variant() == uuid::Variant::RFC4122)
        );
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4_000);
    }
}
