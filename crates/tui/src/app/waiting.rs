//! Prompts that wait for a turn are kept with the session, so that it has them when it is resumed after a kill.

use crate::app::App;
use crate::prompt::editor::{Attached, Attachment};
use lathe_protocol::content::{Content, ContentBlock, Source};
use lathe_protocol::op::Prompt;
use lathe_protocol::record::{MessageRecord, WaitingPrompt};
use lathe_session::SessionError;

/// Keeps the prompts that wait, if they are others than those that are kept. They are on disk when the future ends.
pub(crate) fn keep(
    app: &mut App,
) -> Option<impl Future<Output = Result<(), SessionError>> + Send + 'static> {
    let session = app.engine.handle.as_ref()?;
    let prompts = app.queue.take_unkept()?;
    Some(session.history().keep_waiting(prompts))
}

/// As [`keep`], without waiting for it. Called before drawing.
pub(crate) fn follow(app: &mut App) {
    if let Some(keeping) = keep(app) {
        app.jobs.task(async move {
            // The writer reports what it can't write.
            let _ = keeping.await;
            None
        });
    }
}

/// The session is left on purpose: nothing waits in it any more. To be done before it is closed.
pub(crate) fn leave(app: &mut App) -> Option<impl Future<Output = ()> + Send + 'static> {
    if std::mem::take(&mut app.queue.kept).is_empty() {
        return None;
    }
    let session = app.engine.handle.as_ref()?;
    let leaving = session.history().keep_waiting(Vec::new());
    Some(async move {
        let _ = leaving.await;
    })
}

/// Takes up the prompts that waited when the session ended: a session in the background runs them; at a terminal they
/// come back into the editor, for the user to send.
pub(crate) fn restore(app: &mut App, mut waiting: Vec<WaitingPrompt>, records: &[MessageRecord]) {
    waiting.retain(|prompt| !records.iter().any(|record| record.uuid == prompt.uuid));
    app.queue.kept = waiting.iter().map(|prompt| prompt.uuid).collect();
    if waiting.is_empty() {
        return;
    }
    if app.engine.starts_in_background() {
        for WaitingPrompt { uuid, content } in waiting {
            let mut prompt = Prompt::new(content);
            prompt.uuid = uuid;
            prompt.origin = Some(serde_json::json!({"kind": "human"}));
            let shown = prompt.content.text();
            app.queue.add(&shown, prompt, true);
        }
        return;
    }
    let count = crate::render::text::counted(waiting.len(), "prompt");
    for prompt in waiting.iter().rev() {
        let text = prompt.content.text();
        let attachments = attachments(&prompt.content, &text);
        app.prompt.editor.put_before(&text, attachments);
    }
    app.prompt.text_changed();
    app.remark(format!(
        "{count} waited when the session ended. Enter sends what is in the prompt now."
    ));
}

/// The images of a prompt, under the placeholders that stand for them in its text.
fn attachments(content: &Content, text: &str) -> Vec<Attachment> {
    let Content::Blocks(blocks) = content else {
        return Vec::new();
    };
    let labels = text.match_indices("[Image #").filter_map(|(at, _)| {
        let rest = text.get(at..)?;
        rest.get(..=rest.find(']')?).map(str::to_owned)
    });
    let images = blocks.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => match &image.source {
            Source::Base64 { media_type, data } => Some(Attached::Image {
                media_type: media_type.clone(),
                data: data.clone(),
            }),
            _ => None,
        },
        _ => None,
    });
    labels
        .zip(images)
        .map(|(label, what)| Attachment { label, what })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_back_under_their_placeholders() {
        let text = "see [Image #1] and [Image #3]";
        let content = Content::Blocks(vec![
            ContentBlock::text(text),
            ContentBlock::image("image/png", "AAAA"),
            ContentBlock::image("image/gif", "BBBB"),
        ]);
        let found = attachments(&content, &content.text());
        let labels: Vec<&str> = found.iter().map(|it| it.label.as_str()).collect();
        assert_eq!(labels, ["[Image #1]", "[Image #3]"]);
        assert!(matches!(&found[1].what, Attached::Image { data, .. } if data == "BBBB"));
        assert!(attachments(&Content::from("[Image #1]"), "[Image #1]").is_empty());
    }
}
