//! Images and documents that the API refused. They are known by their content: the same picture is
//! refused wherever it stands, in a fork and after a resume too.

use lathe_protocol::content::{Content, ContentBlock, Source, SourceBlock};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use std::fmt::Write as _;

/// The digests of the images and documents in a block.
#[must_use]
pub fn media_keys(block: &ContentBlock) -> Vec<String> {
    match block {
        ContentBlock::Image(source) | ContentBlock::Document(source) => vec![key(source)],
        ContentBlock::ToolResult(result) => match &result.content {
            Some(Content::Blocks(inner)) => inner.iter().flat_map(media_keys).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Puts a word in the place of those that were refused. Gives whether there were any.
pub(super) fn leave_out(block: &mut ContentBlock, refused: &HashSet<String>) -> bool {
    let word = match block {
        ContentBlock::Image(source) if refused.contains(&key(source)) => "An image",
        ContentBlock::Document(source) if refused.contains(&key(source)) => "A document",
        ContentBlock::ToolResult(result) => {
            let Some(Content::Blocks(inner)) = &mut result.content else {
                return false;
            };
            let mut any = false;
            for block in inner {
                any |= leave_out(block, refused);
            }
            return any;
        }
        _ => return false,
    };
    *block = ContentBlock::text(format!(
        "[{word} removed: the model API refused it, most likely because it is too large.]"
    ));
    true
}

fn key(block: &SourceBlock) -> String {
    let digest = match &block.source {
        Source::Base64 { data, .. } => Sha256::digest(data.as_bytes()),
        Source::Other(value) => Sha256::digest(value.to_string().as_bytes()),
    };
    let mut text = String::new();
    // Sixteen bytes are enough to tell contents apart.
    for byte in digest.iter().take(16) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
