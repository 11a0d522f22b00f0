//! Coloured text as data: spans, lines, and how they become escape sequences.
//!
//! Views build [`Line`]s; only [`Encoder`] knows bytes. Text that comes from outside is cleaned on
//! the way into a [`Span`] (`text::clean`), so that no output of a model or a command can move the
//! cursor or change a mode of the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Color {
    /// One of the terminal's sixteen.
    Ansi(u8),
    /// An exact one; brought down to what the terminal can show.
    Rgb(u8, u8, u8),
}

/// How many colours a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ColorDepth {
    /// No colours (`NO_COLOR`); bold and the like stay.
    None,
    /// Sixteen.
    Sixteen,
    /// 256.
    Indexed,
    /// All.
    True,
}

impl ColorDepth {
    /// The depth that the environment names.
    pub(crate) fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if set("NO_COLOR").is_some() {
            return Self::None;
        }
        if let Some(forced) = set("FORCE_COLOR") {
            return match forced.as_str() {
                "0" => Self::None,
                "1" => Self::Sixteen,
                "2" => Self::Indexed,
                _ => Self::True,
            };
        }
        let term = set("TERM").unwrap_or_default();
        let color_term = set("COLORTERM").unwrap_or_default();
        if color_term == "truecolor" || color_term == "24bit" || term.contains("direct") {
            return Self::True;
        }
        if set("WT_SESSION").is_some() || term == "xterm-kitty" || term == "xterm-ghostty" {
            return Self::True;
        }
        if term.contains("256") {
            return Self::Indexed;
        }
        Self::Sixteen
    }

    /// For people.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::None => "no colours",
            Self::Sixteen => "16 colours",
            Self::Indexed => "256 colours",
            Self::True => "all colours",
        }
    }
}

/// How text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Style {
    pub(crate) foreground: Option<Color>,
    pub(crate) background: Option<Color>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) strike: bool,
    pub(crate) reverse: bool,
}

impl Style {
    pub(crate) const PLAIN: Self = Self {
        foreground: None,
        background: None,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
        reverse: false,
    };

    pub(crate) const fn fg(color: Color) -> Self {
        Self {
            foreground: Some(color),
            ..Self::PLAIN
        }
    }

    pub(crate) const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub(crate) const fn dim(mut self) -> Self {
        self.dim = true;
        self
    }

    pub(crate) const fn italic(mut self) -> Self {
        self.italic = true;
        self
    }

    pub(crate) const fn underline(mut self) -> Self {
        self.underline = true;
        self
    }

    pub(crate) const fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    pub(crate) const fn strike(mut self) -> Self {
        self.strike = true;
        self
    }

    pub(crate) const fn on(mut self, color: Color) -> Self {
        self.background = Some(color);
        self
    }

    /// This style on top of another one.
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            foreground: self.foreground.or(below.foreground),
            background: self.background.or(below.background),
            bold: self.bold || below.bold,
            dim: self.dim || below.dim,
            italic: self.italic || below.italic,
            underline: self.underline || below.underline,
            strike: self.strike || below.strike,
            reverse: self.reverse || below.reverse,
        }
    }
}

/// Text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
    pub(crate) link: Option<String>,
}

impl Span {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self {
            text: text.into(),
            style,
            link: None,
        }
    }
}

/// A line of text.
///
/// A text with line ends in it can be put into a line: `text::wrap` makes rows of it and
/// `text::truncate_line` shows them as marks. What is written is one row in any case ([`Encoder::line`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line {
    pub(crate) spans: Vec<Span>,
    /// The background from the end of the text to the edge of the screen.
    pub(crate) fill: Option<Color>,
    /// An image above the line, as the terminal takes it: written first, with the cursor back where it was.
    pub(crate) graphic: Option<Arc<str>>,
}

impl Line {
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::styled(text, Style::PLAIN)
    }

    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self {
            spans: vec![Span::new(text, style)],
            fill: None,
            graphic: None,
        }
    }

    /// The line with its background up to the edge of the screen.
    pub(crate) fn filled(mut self, below: Style) -> Self {
        self.fill = below.background;
        self
    }

    /// The line behind other text.
    pub(crate) fn behind(self, text: impl Into<String>, style: Style) -> Self {
        let mut out = Self::styled(text, style);
        out.fill = self.fill;
        out.graphic = self.graphic;
        for span in self.spans {
            out.push_span(span);
        }
        out
    }

    /// Adds text.
    pub(crate) fn push(&mut self, text: impl Into<String>, style: Style) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        if let Some(last) = self.spans.last_mut()
            && last.style == style
            && last.link.is_none()
        {
            last.text.push_str(&text);
            return;
        }
        self.spans.push(Span::new(text, style));
    }

    /// Adds a span.
    pub(crate) fn push_span(&mut self, span: Span) {
        if span.link.is_none() {
            self.push(span.text, span.style);
        } else {
            self.spans.push(span);
        }
    }

    /// The line with more text.
    pub(crate) fn with(mut self, text: impl Into<String>, style: Style) -> Self {
        self.push(text, style);
        self
    }

    /// The words without their looks.
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Columns.
    pub(crate) fn width(&self) -> usize {
        self.spans
            .iter()
            .map(|span| crate::render::text::width(&span.text))
            .sum()
    }

    /// Puts a style below every span.
    pub(crate) fn over(mut self, below: Style) -> Self {
        for span in &mut self.spans {
            span.style = span.style.over(below);
        }
        self
    }
}

/// Writes lines as escape sequences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoder {
    pub(crate) depth: ColorDepth,
    /// Whether links are written (OSC 8).
    pub(crate) links: bool,
}

impl Encoder {
    /// Writes a line. The style is plain at its end.
    pub(crate) fn line(self, line: &Line, out: &mut String) {
        if let Some(graphic) = &line.graphic {
            out.push_str(graphic);
        }
        for span in &line.spans {
            let codes = self.codes(span.style);
            if !codes.is_empty() {
                let _ = write!(out, "\x1b[{codes}m");
            }
            match &span.link {
                Some(link) if self.links => {
                    let text = one_row(&span.text);
                    let _ = write!(out, "\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\");
                }
                _ => out.push_str(&one_row(&span.text)),
            }
            if !codes.is_empty() {
                out.push_str("\x1b[m");
            }
        }
        if let Some(code) = line.fill.and_then(|color| self.color(color, true)) {
            let _ = write!(out, "\x1b[{code}m\x1b[K\x1b[m");
        }
    }

    /// Clears from the end of a line to the edge, unless the line fills that itself.
    pub(crate) fn clear_rest(self, line: &Line, out: &mut String) {
        if line
            .fill
            .and_then(|color| self.color(color, true))
            .is_none()
        {
            out.push_str("\x1b[K");
        }
    }

    fn codes(self, style: Style) -> String {
        let mut codes = String::new();
        let mut add = |code: &str| {
            if !codes.is_empty() {
                codes.push(';');
            }
            codes.push_str(code);
        };
        for (on, code) in [
            (style.bold, "1"),
            (style.dim, "2"),
            (style.italic, "3"),
            (style.underline, "4"),
            (style.reverse, "7"),
            (style.strike, "9"),
        ] {
            if on {
                add(code);
            }
        }
        if let Some(color) = style.foreground
            && let Some(code) = self.color(color, false)
        {
            add(&code);
        }
        if let Some(color) = style.background
            && let Some(code) = self.color(color, true)
        {
            add(&code);
        }
        codes
    }

    fn color(self, color: Color, background: bool) -> Option<String> {
        let base = if background { 40 } else { 30 };
        let ansi = |index: u8| {
            let index = u32::from(index);
            if index < 8 {
                (base + index).to_string()
            } else {
                (base + 60 + index - 8).to_string()
            }
        };
        match (self.depth, color) {
            (ColorDepth::None, _) => None,
            (_, Color::Ansi(index)) => Some(ansi(index)),
            (ColorDepth::True, Color::Rgb(r, g, b)) => Some(format!("{};2;{r};{g};{b}", base + 8)),
            (ColorDepth::Indexed, Color::Rgb(r, g, b)) => {
                Some(format!("{};5;{}", base + 8, indexed(r, g, b)))
            }
            // A background of sixteen colours is either shouting or invisible.
            (ColorDepth::Sixteen, Color::Rgb(..)) if background => None,
            (ColorDepth::Sixteen, Color::Rgb(r, g, b)) => Some(ansi(sixteen(r, g, b))),
        }
    }
}

/// The text without anything that would leave its row.
fn one_row(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// The nearest of the 256 colours.
fn indexed(r: u8, g: u8, b: u8) -> u8 {
    let step = |value: u8| -> u8 {
        match value {
            0..=47 => 0,
            48..=114 => 1,
            _ => (value - 35) / 40,
        }
    };
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    let (sr, sg, sb) = (step(r), step(g), step(b));
    let cube = 16 + 36 * sr + 6 * sg + sb;
    let average = ((u16::from(r) + u16::from(g) + u16::from(b)) / 3) as u8;
    let gray_step = average.saturating_sub(8).div_ceil(10).min(23);
    let gray = 8 + 10 * gray_step;
    let distance = |x: u8, y: u8, z: u8| {
        let d = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
        d(r, x) + d(g, y) + d(b, z)
    };
    if distance(gray, gray, gray) < distance(level(sr), level(sg), level(sb)) {
        232 + gray_step
    } else {
        cube
    }
}

/// The nearest of the sixteen colours, by hue and lightness.
fn sixteen(r: u8, g: u8, b: u8) -> u8 {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max - min < 40 {
        return match max {
            0..=60 => 0,
            61..=140 => 8,
            141..=210 => 7,
            _ => 15,
        };
    }
    let middle = u8::midpoint(max, min);
    let bit = |value: u8| u8::from(value > middle);
    let index = bit(r) | (bit(g) << 1) | (bit(b) << 2);
    if max > 170 { index + 8 } else { index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_with_as_many_colours_as_there_are() {
        let mut line = Line::plain("a ");
        line.push("b", Style::fg(Color::Rgb(255, 0, 0)).bold());
        let written = |depth| {
            let mut out = String::new();
            Encoder { depth, links: true }.line(&line, &mut out);
            out
        };
        assert_eq!(written(ColorDepth::True), "a \x1b[1;38;2;255;0;0mb\x1b[m");
        assert_eq!(written(ColorDepth::Indexed), "a \x1b[1;38;5;196mb\x1b[m");
        assert_eq!(written(ColorDepth::Sixteen), "a \x1b[1;91mb\x1b[m");
        assert_eq!(written(ColorDepth::None), "a \x1b[1mb\x1b[m");
    }

    #[test]
    fn a_line_stays_in_its_row_and_is_filled_to_the_edge() {
        let encoder = Encoder {
            depth: ColorDepth::True,
            links: true,
        };
        let mut out = String::new();
        let below = Style::PLAIN.on(Color::Ansi(4));
        let line = Line::plain("a\nb\rc").filled(below);
        encoder.line(&line, &mut out);
        encoder.clear_rest(&line, &mut out);
        assert_eq!(out, "a b c\x1b[44m\x1b[K\x1b[m");
        assert_eq!(line.behind("> ", Style::PLAIN).fill, below.background);
    }

    #[test]
    fn the_surroundings_say_how_many_colours_there_are() {
        let detect = |pairs: &[(&str, &str)]| {
            ColorDepth::detect(|name| {
                pairs
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(detect(&[("TERM", "xterm")]), ColorDepth::Sixteen);
        assert_eq!(detect(&[("TERM", "xterm-256color")]), ColorDepth::Indexed);
        assert_eq!(
            detect(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]),
            ColorDepth::True
        );
        assert_eq!(
            detect(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]),
            ColorDepth::None
        );
    }
}
