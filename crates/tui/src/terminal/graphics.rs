//! Images in the terminal: by the Kitty protocol, as iTerm2 does it, or as sixels.
//!
//! A terminal is asked only when the first image is to be shown, so that a start costs nothing. The last question
//! is one that every terminal answers; when the answer is there, so are those to the others.

use super::sixel;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lathe_images::{ImageError, Preview};
use lathe_settings::Environment;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether the Kitty protocol is known, how large a character is, and the general abilities.
pub(crate) const ASK: &str = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[16t\x1b[c";

/// How long an answer may take, over a slow connection too.
const ANSWER: Duration = Duration::from_secs(1);

/// Width and height of a character in pixels, where the terminal doesn't say.
const USUAL_CELL: (u32, u32) = (8, 16);

/// The widest image, in columns.
const WIDEST: usize = 100;

/// The highest image, in rows.
const HIGHEST: usize = 20;

/// Columns to the left of an image.
const INDENT: usize = 2;

/// How images are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    ITerm2,
    Sixel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    Nothing,
    /// Asked; until when an answer is waited for.
    Asked(Instant),
    Known(Option<Protocol>),
}

/// The protocol to use, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ability {
    /// The terminal must be asked: [`ASK`].
    Ask,
    /// It was asked and has not answered yet.
    Wait,
    Use(Protocol),
    /// It shows no images.
    None,
}

/// The terminal's ability to show images.
#[derive(Debug)]
pub(crate) struct Graphics {
    knowledge: Knowledge,
    kitty: bool,
    /// Width and height of a character in pixels.
    cell: Option<(u32, u32)>,
    /// Whether an image is being prepared.
    pub(crate) preparing: bool,
}

impl Graphics {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self {
            knowledge: by_surroundings(|name| environment.foreign(name).map(str::to_owned)),
            kitty: false,
            cell: None,
            preparing: false,
        }
    }

    /// Another terminal is there now.
    pub(crate) fn forget(&mut self) {
        self.knowledge = Knowledge::Nothing;
        self.kitty = false;
        self.cell = None;
    }

    pub(crate) fn ability(&self) -> Ability {
        match self.knowledge {
            Knowledge::Nothing => Ability::Ask,
            Knowledge::Asked(_) => Ability::Wait,
            Knowledge::Known(Some(protocol)) => Ability::Use(protocol),
            Knowledge::Known(None) => Ability::None,
        }
    }

    /// The terminal is being asked.
    pub(crate) fn asked(&mut self, now: Instant) {
        self.knowledge = Knowledge::Asked(now + ANSWER);
    }

    /// When a terminal that stays silent counts as one without images.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.knowledge {
            Knowledge::Asked(until) => Some(until),
            _ => None,
        }
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        if self.due().is_some_and(|due| due <= now) {
            self.knowledge = Knowledge::Known(None);
        }
    }

    /// The terminal speaks the Kitty protocol.
    pub(crate) fn speaks_kitty(&mut self) {
        self.kitty = true;
    }

    pub(crate) fn cell_size(&mut self, height: u16, width: u16) {
        if height > 0 && width > 0 {
            self.cell = Some((u32::from(width), u32::from(height)));
        }
    }

    /// The last answer is there.
    pub(crate) fn answered(&mut self, sixel: bool) {
        self.knowledge = Knowledge::Known(if self.kitty {
            Some(Protocol::Kitty)
        } else {
            sixel.then_some(Protocol::Sixel)
        });
    }

    /// Where an image goes in a window of this size.
    pub(crate) fn canvas(&self, protocol: Protocol, columns: usize, rows: usize) -> Canvas {
        Canvas {
            protocol,
            cell: self.cell.or_else(super::cell_size).unwrap_or(USUAL_CELL),
            columns: columns.saturating_sub(INDENT + 1).clamp(1, WIDEST),
            rows: (rows / 2).clamp(1, HIGHEST),
        }
    }
}

/// The knowledge that the environment gives about the terminal, before it is asked.
fn by_surroundings(variable: impl Fn(&str) -> Option<String>) -> Knowledge {
    let value = |name: &str| variable(name).unwrap_or_default();
    let term = value("TERM");
    if term == "linux" || term == "dumb" {
        return Knowledge::Known(None);
    }
    // Inside of tmux or screen their terminal counts, not the one around it.
    let nested =
        !value("TMUX").is_empty() || term.starts_with("screen") || term.starts_with("tmux");
    let named = [value("TERM_PROGRAM"), value("LC_TERMINAL")];
    let is = |name: &str| named.iter().any(|program| program == name);
    if !nested && (is("iTerm.app") || is("iTerm2") || is("mintty") || is("WezTerm")) {
        return Knowledge::Known(Some(Protocol::ITerm2));
    }
    Knowledge::Nothing
}

/// The room for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Canvas {
    protocol: Protocol,
    cell: (u32, u32),
    columns: usize,
    rows: usize,
}

/// An image that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graphic {
    /// Rows that it covers.
    pub(crate) rows: usize,
    /// Written in the row below it.
    pub(crate) sequence: Arc<str>,
    /// Width and height of the picture in pixels, before it was scaled.
    pub(crate) size: (u32, u32),
}

impl Canvas {
    /// Columns and rows for a picture of so many pixels: as large as it is, or as fits.
    fn cells(&self, (width, height): (u32, u32)) -> (u32, u32) {
        let count = |pixels: u32, cell: u32| pixels.max(1).div_ceil(cell.max(1));
        let most = |cells: usize| u32::try_from(cells).unwrap_or(u32::MAX).max(1);
        let (most_columns, most_rows) = (most(self.columns), most(self.rows));
        let (columns, rows) = (count(width, self.cell.0), count(height, self.cell.1));
        if columns <= most_columns && rows <= most_rows {
            return (columns, rows);
        }
        // By the side that is further beyond its limit; the other one follows.
        let by = |limit: u32, side: u32, other: u32| {
            u32::try_from(u64::from(other) * u64::from(limit) / u64::from(side.max(1))).unwrap_or(1)
        };
        if u64::from(columns) * u64::from(most_rows) >= u64::from(rows) * u64::from(most_columns) {
            (
                most_columns,
                by(most_columns, columns, rows).clamp(1, most_rows),
            )
        } else {
            (
                by(most_rows, rows, columns).clamp(1, most_columns),
                most_rows,
            )
        }
    }

    /// Draws a picture: scaled to the room, in the terminal's own form.
    ///
    /// # Errors
    /// When the bytes are not a picture.
    pub(crate) fn draw(&self, bytes: &[u8]) -> Result<Graphic, ImageError> {
        let size = lathe_images::size(bytes)?;
        let (columns, rows) = self.cells(size);
        let pixels = |cells: u32, cell: u32, own: u32| cells.saturating_mul(cell).min(own).max(1);
        let (most_width, most_height) = (
            pixels(columns, self.cell.0, size.0),
            pixels(rows, self.cell.1, size.1),
        );
        let (width, height) = within(size, most_width, most_height);
        let preview = lathe_images::preview(bytes, width, height)?;
        let payload = match self.protocol {
            Protocol::Kitty => kitty(&preview, columns, rows)?,
            Protocol::ITerm2 => iterm(&preview, columns, rows)?,
            Protocol::Sixel => {
                let width = usize::try_from(preview.size().0).unwrap_or(0);
                sixel::encode(preview.rgba(), width)
            }
        };
        Ok(Graphic {
            rows: usize::try_from(rows).unwrap_or(1),
            sequence: format!("\x1b7\x1b[{rows}A\r\x1b[{INDENT}C{payload}\x1b8").into(),
            size,
        })
    }
}

/// The largest size within these limits that has the same shape.
fn within((width, height): (u32, u32), most_width: u32, most_height: u32) -> (u32, u32) {
    let scaled = |side: u32, limit: u32, of: u32| {
        u32::try_from(u64::from(side) * u64::from(limit) / u64::from(of.max(1)))
            .unwrap_or(u32::MAX)
            .max(1)
    };
    if u64::from(most_width) * u64::from(height) <= u64::from(most_height) * u64::from(width) {
        (most_width, scaled(height, most_width, width))
    } else {
        (scaled(width, most_height, height), most_height)
    }
}

/// Bytes of base64 in one piece of the Kitty protocol.
const PIECE: usize = 4096;

/// The picture as a PNG file in pieces. The cursor stays; no answer is wanted.
fn kitty(preview: &Preview, columns: u32, rows: u32) -> Result<String, ImageError> {
    let data = STANDARD.encode(preview.png()?);
    let mut out = String::new();
    let mut rest = data.as_str();
    let mut keys = format!("a=T,f=100,c={columns},r={rows},C=1,q=2,");
    loop {
        let (piece, later) = rest.split_at(PIECE.min(rest.len()));
        let more = u8::from(!later.is_empty());
        let _ = write!(out, "\x1b_G{keys}m={more};{piece}\x1b\\");
        if later.is_empty() {
            return Ok(out);
        }
        rest = later;
        keys.clear();
    }
}

fn iterm(preview: &Preview, columns: u32, rows: u32) -> Result<String, ImageError> {
    let png = preview.png()?;
    Ok(format!(
        "\x1b]1337;File=inline=1;size={};width={columns};height={rows};preserveAspectRatio=1;doNotMoveCursor=1:{}\x07",
        png.len(),
        STANDARD.encode(&png)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(set: &[(&str, &str)]) -> Knowledge {
        by_surroundings(|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_surroundings_name_the_protocol_or_the_terminal_is_asked() {
        let iterm = Knowledge::Known(Some(Protocol::ITerm2));
        assert_eq!(known(&[("TERM", "linux")]), Knowledge::Known(None));
        assert_eq!(known(&[("TERM_PROGRAM", "iTerm.app")]), iterm);
        assert_eq!(known(&[("LC_TERMINAL", "iTerm2")]), iterm);
        assert_eq!(
            known(&[("LC_TERMINAL", "iTerm2"), ("TMUX", "/tmp/x")]),
            Knowledge::Nothing
        );
        assert_eq!(known(&[("TERM", "xterm-256color")]), Knowledge::Nothing);
    }

    #[test]
    fn an_answer_decides_and_silence_means_no_images() {
        let now = Instant::now();
        let mut graphics = Graphics::new(&Environment::of_variables([("TERM", "xterm")]));
        assert_eq!(graphics.ability(), Ability::Ask);
        graphics.asked(now);
        assert_eq!(graphics.ability(), Ability::Wait);
        graphics.expire(now);
        assert_eq!(graphics.ability(), Ability::Wait);
        graphics.expire(now + ANSWER);
        assert_eq!((graphics.ability(), graphics.due()), (Ability::None, None));
        // An answer that comes late counts from then on.
        graphics.answered(true);
        assert_eq!(graphics.ability(), Ability::Use(Protocol::Sixel));
        graphics.speaks_kitty();
        graphics.answered(true);
        assert_eq!(graphics.ability(), Ability::Use(Protocol::Kitty));
        graphics.forget();
        assert_eq!(graphics.ability(), Ability::Ask);
    }

    fn canvas(protocol: Protocol) -> Canvas {
        Canvas {
            protocol,
            cell: (10, 20),
            columns: 40,
            rows: 10,
        }
    }

    #[test]
    fn an_image_is_as_large_as_it_is_or_as_fits_and_keeps_its_shape() {
        let canvas = canvas(Protocol::Kitty);
        for (pixels, cells) in [
            ((1, 1), (1, 1)),
            ((100, 100), (10, 5)),
            ((400, 200), (40, 10)),
            ((4000, 2000), (40, 10)),
            ((4000, 40), (40, 1)),
            ((40, 4000), (1, 10)),
            ((0, 0), (1, 1)),
        ] {
            assert_eq!(canvas.cells(pixels), cells, "{pixels:?}");
        }
        assert_eq!(within((400, 100), 200, 100), (200, 50));
        assert_eq!(within((100, 400), 200, 100), (25, 100));
    }

    /// A PNG of one colour.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let pixel = STANDARD
            .decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
            .unwrap();
        lathe_images::preview(&pixel, width, height)
            .unwrap()
            .png()
            .unwrap()
    }

    #[test]
    fn every_protocol_draws_above_the_row_and_returns_to_it() {
        for (protocol, begins, holds) in [
            (
                Protocol::Kitty,
                "\x1b_Ga=T,f=100,c=10,r=3,C=1,q=2,m=0;",
                "\x1b\\",
            ),
            (
                Protocol::ITerm2,
                "\x1b]1337;File=inline=1;size=",
                ";width=10;height=3;",
            ),
            (Protocol::Sixel, "\x1bP0;1;0q\"1;1;100;50", "\x1b\\"),
        ] {
            let graphic = canvas(protocol).draw(&png(100, 50)).unwrap();
            let inside = graphic
                .sequence
                .strip_prefix("\x1b7\x1b[3A\r\x1b[2C")
                .and_then(|rest| rest.strip_suffix("\x1b8"))
                .unwrap();
            assert!(
                inside.starts_with(begins) && inside.contains(holds),
                "{inside:?}"
            );
            assert_eq!((graphic.rows, graphic.size), (3, (100, 50)));
        }
        assert!(canvas(Protocol::Kitty).draw(b"no picture").is_err());
    }

    #[test]
    fn a_large_image_goes_in_pieces_that_together_are_its_file() {
        let pixels: Vec<u8> = (0..400_u32 * 200 * 3)
            .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let bitmap = bitmap(400, 200, &pixels);
        let graphic = canvas(Protocol::Kitty).draw(&bitmap).unwrap();
        let mut data = String::new();
        for (index, piece) in graphic.sequence.split("\x1b_G").skip(1).enumerate() {
            let (keys, rest) = piece.split_once(';').unwrap();
            let piece = rest.split('\x1b').next().unwrap();
            assert!(piece.len() <= PIECE);
            assert_eq!(keys.starts_with("a=T"), index == 0);
            data.push_str(piece);
        }
        let file = STANDARD.decode(data).unwrap();
        assert_eq!(lathe_images::size(&file).unwrap(), (400, 200));
    }

    /// A bitmap file of these pixels.
    fn bitmap(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
        let mut file = b"BM".to_vec();
        let size = u32::try_from(54 + pixels.len()).unwrap();
        for value in [size, 0, 54, 40, width, height] {
            file.extend(value.to_le_bytes());
        }
        file.extend([1, 0, 24, 0]);
        file.extend([0; 24]);
        file.extend(pixels);
        file
    }
}
