//! Pictures that tools returned, and where they stand among the lines for the scrollback.

use crate::render::style::Line;
use crate::render::text::{clean, one_line};
use lathe_protocol::content::{Content, ContentBlock, Source, ToolResultBlock};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pictures whose data is kept, to be shown again after a resume or on another terminal.
pub(super) const KEPT: usize = 8;

/// A picture that a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    /// The subject of the call.
    pub(crate) name: String,
    /// For example `image/png`.
    media_type: String,
    /// Bytes of the picture.
    bytes: Option<usize>,
    /// In base64; `None` if it is no longer kept.
    pub(crate) data: Option<Arc<str>>,
    /// Whether the line of the call says that there is one.
    pub(crate) named_above: bool,
}

impl Picture {
    /// The pictures of a result.
    pub(crate) fn of_result(result: &ToolResultBlock, name: &str, named_above: bool) -> Vec<Self> {
        let Some(Content::Blocks(blocks)) = &result.content else {
            return Vec::new();
        };
        let sources = blocks.iter().filter_map(|block| match block {
            ContentBlock::Image(image) => Some(&image.source),
            _ => None,
        });
        sources
            .map(|source| {
                let (media_type, data) = match source {
                    Source::Base64 { media_type, data } => (media_type.as_str(), Some(data)),
                    Source::Other(place) => {
                        let kind = place.get("media_type").and_then(Value::as_str);
                        (kind.unwrap_or_default(), None)
                    }
                };
                Self {
                    name: name.to_owned(),
                    media_type: media_type.to_owned(),
                    bytes: data.map(|data| data.len() / 4 * 3),
                    data: data.map(|data| data.as_str().into()),
                    named_above,
                }
            })
            .collect()
    }

    /// The picture by its name alone.
    pub(super) fn without_data(&self) -> Self {
        Self {
            data: None,
            ..self.clone()
        }
    }

    /// The picture in words, with its size in pixels if that is known.
    pub(crate) fn caption(&self, pixels: Option<(u32, u32)>) -> String {
        let kind = self.media_type.strip_prefix("image/");
        let mut words = vec!["image".to_owned()];
        words.extend(kind.map(str::to_uppercase));
        words.extend(pixels.map(|(width, height)| format!("{width}×{height}")));
        words.extend(
            self.bytes
                .map(|bytes| format!("{} KB", bytes.div_ceil(1024))),
        );
        words.extend(Some(self.name.clone()).filter(|name| !name.is_empty()));
        one_line(&clean(&words.join(" · ")))
    }
}

/// Lines for the scrollback. What follows a picture waits until it is known how that is shown.
#[derive(Debug, Default)]
pub(super) struct Printed {
    lines: Vec<Line>,
    /// Before which line each picture stands.
    pictures: VecDeque<(usize, Arc<Picture>)>,
}

impl Printed {
    pub(super) fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn extend(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.pictures.clear();
    }

    pub(super) fn picture(&mut self, picture: Arc<Picture>) {
        self.pictures.push_back((self.lines.len(), picture));
    }

    /// The picture that is due.
    pub(super) fn first_picture(&self) -> Option<&Arc<Picture>> {
        self.pictures.front().map(|(_, picture)| picture)
    }

    /// Takes the lines up to the next picture.
    pub(super) fn take(&mut self) -> Vec<Line> {
        let count = self
            .pictures
            .front()
            .map_or(self.lines.len(), |(at, _)| *at);
        for (at, _) in &mut self.pictures {
            *at -= count;
        }
        let rest = self.lines.split_off(count);
        std::mem::replace(&mut self.lines, rest)
    }

    /// Puts lines in the place of a picture, if it is the one that is due.
    pub(super) fn place(&mut self, picture: &Arc<Picture>, lines: Vec<Line>) {
        let Some((at, _)) = self
            .pictures
            .front()
            .filter(|(_, due)| Arc::ptr_eq(due, picture))
        else {
            return;
        };
        let at = *at;
        self.pictures.pop_front();
        let count = lines.len();
        self.lines.splice(at..at, lines);
        for (later, _) in &mut self.pictures {
            *later += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(name: &str) -> Arc<Picture> {
        Arc::new(Picture {
            name: name.to_owned(),
            media_type: "image/png".to_owned(),
            bytes: Some(2_000),
            data: None,
            named_above: false,
        })
    }

    fn taken(printed: &mut Printed) -> String {
        printed.take().iter().map(Line::text).collect()
    }

    #[test]
    fn lines_wait_for_the_picture_above_them() {
        let mut printed = Printed::default();
        let (first, second) = (picture("1"), picture("2"));
        printed.push(Line::plain("a"));
        printed.picture(first.clone());
        printed.push(Line::plain("b"));
        printed.picture(second.clone());
        printed.push(Line::plain("c"));
        assert_eq!(taken(&mut printed), "a");
        assert_eq!(taken(&mut printed), "");
        // One that is not due changes nothing.
        printed.place(&second, vec![Line::plain("!")]);
        printed.place(&first, vec![Line::plain("x"), Line::plain("y")]);
        assert_eq!(taken(&mut printed), "xyb");
        printed.place(&second, Vec::new());
        assert_eq!(taken(&mut printed), "c");
        assert!(printed.first_picture().is_none());
    }

    #[test]
    fn a_picture_is_named_in_one_row_whatever_its_call_is_about() {
        assert_eq!(
            picture("").caption(Some((640, 480))),
            "image · PNG · 640×480 · 2 KB"
        );
        assert_eq!(
            picture("plot\u{7}.png").caption(None),
            "image · PNG · 2 KB · plot.png"
        );
    }
}
