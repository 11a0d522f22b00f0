//! The search of the model's own provider, for the tool WebSearch.

use crate::conversation::ConversationShared;
use crate::session::background::note_side_usage;
use crate::session::ledger::Part;
use lathe_model::search::{WebPart, WebQuestion, search};
use lathe_tools::ToolError;
use lathe_tools::web_search::{SearchAnswer, SearchPart};
use lathe_web::search::{Hit, Query, fits};
use tokio_util::sync::CancellationToken;

/// Asks the conversation's model to search, in a request of its own.
pub(super) async fn by_model(
    shared: &ConversationShared,
    query: &Query,
    cancel: &CancellationToken,
) -> Result<SearchAnswer, ToolError> {
    let model = shared.choices.read().model.clone();
    let question = WebQuestion {
        max_tokens: shared.session.catalog.resolve(&model).info.small_output(),
        model,
        system: include_str!("../../prompts/web_search.md").to_owned(),
        words: query.words.clone(),
        allowed: query.allowed.clone(),
        blocked: query.blocked.clone(),
    };
    let answer = search(shared.session.provider.clone(), &question, cancel)
        .await
        .map_err(|error| {
            ToolError::failed(format!("The model's provider could not search: {error}"))
        })?;
    note_side_usage(shared, Part::Inner, &answer.header);
    let counted = answer.header.usage.server_tool_use.web_search_requests;
    let mut parts = Vec::new();
    let mut failure = None;
    for part in answer.parts {
        match part {
            WebPart::Text(words) => parts.push(SearchPart::Text(words)),
            WebPart::Failed(code) => failure = Some(code),
            WebPart::Results { id, pages } => {
                let hits = pages.into_iter().filter_map(|(title, url)| {
                    let address = url.parse().ok()?;
                    fits(&address, query).then_some(Hit {
                        title,
                        url,
                        snippet: String::new(),
                    })
                });
                parts.push(SearchPart::Hits {
                    id,
                    hits: hits.collect(),
                });
            }
        }
    }
    let found = parts
        .iter()
        .filter(|part| matches!(part, SearchPart::Hits { .. }));
    let found = found.count();
    match failure {
        Some(code) if found == 0 => Err(ToolError::failed(format!(
            "The model's provider could not search: {code}."
        ))),
        _ => Ok(SearchAnswer {
            parts,
            searches: usize::try_from(counted).unwrap_or(found).max(found),
        }),
    }
}
