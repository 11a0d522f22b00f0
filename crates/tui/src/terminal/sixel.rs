//! Images as sixels: bands of six rows of pixels, one colour after another.
//!
//! Colours are brought down to a cube of 216 with an ordered dither, so that a picture needs no search for a palette.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Rows of pixels in a band.
const BAND: usize = 6;

/// Levels of each of red, green and blue.
const LEVELS: u32 = 6;

/// Where a colour between two levels goes, by place.
const DITHER: [[u32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Pixels that are less opaque than this are left as they are on the screen.
const OPAQUE: u8 = 128;

/// The sequence that draws these pixels (red, green, blue and opacity each) at the cursor.
pub(super) fn encode(rgba: &[u8], width: usize) -> String {
    let pixels: Vec<Option<u8>> = rgba
        .chunks_exact(4)
        .enumerate()
        .map(|(index, pixel)| color(pixel, index % width.max(1), index / width.max(1)))
        .collect();
    let rows: Vec<&[Option<u8>]> = pixels.chunks(width.max(1)).collect();
    let mut out = String::from("\x1bP0;1;0q");
    let _ = write!(out, "\"1;1;{width};{}", rows.len());
    let used: BTreeSet<u8> = pixels.iter().flatten().copied().collect();
    for color in used {
        let [r, g, b] = percent(color);
        let _ = write!(out, "#{color};2;{r};{g};{b}");
    }
    for band in rows.chunks(BAND) {
        draw_band(band, width, &mut out);
        out.push('-');
    }
    out.push_str("\x1b\\");
    out
}

/// The number of the colour that a pixel gets; `None` if it can be seen through.
fn color(pixel: &[u8], x: usize, y: usize) -> Option<u8> {
    let [r, g, b, opacity] = pixel else {
        return None;
    };
    if *opacity < OPAQUE {
        return None;
    }
    let threshold = DITHER[y % 4][x % 4];
    let level = |value: u8| {
        // A sixteenth of a level each, so that the dither decides about the rest.
        let sixteenths = u32::from(value) * (LEVELS - 1) * 16 / 255;
        (sixteenths / 16 + u32::from(sixteenths % 16 > threshold)).min(LEVELS - 1)
    };
    let number = level(*r) * LEVELS * LEVELS + level(*g) * LEVELS + level(*b);
    u8::try_from(number).ok()
}

/// Red, green and blue of a colour, in percent.
fn percent(color: u8) -> [u32; 3] {
    let number = u32::from(color);
    let part = |level: u32| level * 100 / (LEVELS - 1);
    [
        part(number / (LEVELS * LEVELS)),
        part(number / LEVELS % LEVELS),
        part(number % LEVELS),
    ]
}

fn draw_band(band: &[&[Option<u8>]], width: usize, out: &mut String) {
    let colors: BTreeSet<u8> = band
        .iter()
        .flat_map(|row| row.iter().flatten())
        .copied()
        .collect();
    for (index, color) in colors.into_iter().enumerate() {
        if index > 0 {
            out.push('$');
        }
        let _ = write!(out, "#{color}");
        let mut run: (char, usize) = ('?', 0);
        for x in 0..width {
            let mut bits = 0_u8;
            for (y, row) in band.iter().enumerate() {
                if row.get(x).copied().flatten() == Some(color) {
                    bits |= 1 << y;
                }
            }
            let sixel = char::from(b'?' + bits);
            if sixel == run.0 {
                run.1 += 1;
            } else {
                repeat(run, out);
                run = (sixel, 1);
            }
        }
        // Nothing more of this colour needs no drawing.
        if run.0 != '?' {
            repeat(run, out);
        }
    }
}

fn repeat((sixel, count): (char, usize), out: &mut String) {
    if count > 3 {
        let _ = write!(out, "!{count}{sixel}");
    } else {
        out.extend(std::iter::repeat_n(sixel, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_drawn_colour_by_colour() {
        let red = [255, 0, 0, 255];
        let clear = [0, 0, 0, 0];
        let white = [255, 255, 255, 255];
        // Five columns and seven rows: red at the left, white at the right, nothing between; the last row is red.
        let mut pixels = Vec::new();
        for y in 0..7 {
            for x in 0..5 {
                pixels.extend(match (x, y) {
                    (_, 6) | (0, _) => red,
                    (4, _) => white,
                    _ => clear,
                });
            }
        }
        assert_eq!(
            encode(&pixels, 5),
            "\x1bP0;1;0q\"1;1;5;7#180;2;100;0;0#215;2;100;100;100#180~$#215!4?~-#180!5@-\x1b\\"
        );
    }

    #[test]
    fn a_colour_between_two_levels_is_mixed_of_both() {
        let gray = [128, 128, 128, 255].repeat(64);
        let drawn = encode(&gray, 8);
        // 128 lies between the third and the fourth of six levels.
        assert!(
            drawn.contains("#86;2;40;40;40") && drawn.contains("#129;2;60;60;60"),
            "{drawn}"
        );
        assert!(!drawn.contains("#172;"), "{drawn}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(encode(&[], 0), "\x1bP0;1;0q\"1;1;0;0\x1b\\");
    }
}
