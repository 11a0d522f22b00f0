//! Pictures made to fit what models accept and what terminals show.
//!
//! A model takes PNG, JPEG, GIF and WebP up to a number of bytes, and scales down whatever is
//! larger than it can see. [`fit`] sends a picture that fits as it is, byte for byte, and scales or
//! converts any other. The format is detected from the bytes, never from a file's name. [`preview`] gives the
//! pixels of a picture, scaled down to where they are shown.
//!
//! This is a crate of its own so that nothing else waits for the decoders to be compiled. It knows
//! nothing of files or messages. Start with [`fit`].
#![forbid(unsafe_code)]

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageFormat, ImageReader, Limits, RgbaImage};
use std::io::Cursor;

/// The longest edge in pixels that a model sees; more is scaled down on arrival anyway.
pub const LONGEST_EDGE: u32 = 1568;
/// The most bytes that are sent: 5 MB once they are written as base64.
pub const MOST_BYTES: usize = 3_750_000;
/// The longest edge that is decoded at all.
const LONGEST_DECODED_EDGE: u32 = 30_000;
/// The most memory that decoding may take.
const MOST_MEMORY: u64 = 512 * 1024 * 1024;

/// A picture that a model accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// For example `image/png`.
    pub media_type: &'static str,
    /// The picture's file.
    pub bytes: Vec<u8>,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Width and height before it was scaled down, if it was.
    pub scaled_from: Option<(u32, u32)>,
}

/// Why a picture can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// None of the kinds that are known.
    #[error("it is not a PNG, JPEG, GIF, WebP or BMP image")]
    UnknownKind,
    /// The bytes are damaged, or the picture is enormous.
    #[error("it can't be decoded: {0}")]
    Undecodable(#[from] image::ImageError),
    /// Even scaled down it has too many bytes.
    #[error("it can't be made small enough to send")]
    TooLarge,
}

/// The media type of bytes that start as a picture does.
#[must_use]
pub fn media_type(start: &[u8]) -> Option<&'static str> {
    match image::guess_format(start).ok()? {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        ImageFormat::Gif => Some("image/gif"),
        ImageFormat::WebP => Some("image/webp"),
        ImageFormat::Bmp => Some("image/bmp"),
        _ => None,
    }
}

/// Makes a picture fit. One that fits already is returned as it is. Of a moving picture that is too
/// large, the first frame is kept.
///
/// # Errors
/// When the bytes are not a picture, damaged, or can't be made small enough.
pub fn fit(bytes: &[u8]) -> Result<Fitted, ImageError> {
    let media_type = media_type(bytes).ok_or(ImageError::UnknownKind)?;
    let (width, height) = reader(bytes)?.into_dimensions()?;
    let accepted = media_type != "image/bmp";
    if accepted && width.max(height) <= LONGEST_EDGE && bytes.len() <= MOST_BYTES {
        // Decoded once all the same: a damaged picture would make the whole request fail.
        reader(bytes)?.decode()?;
        return Ok(Fitted {
            media_type,
            bytes: bytes.to_vec(),
            width,
            height,
            scaled_from: None,
        });
    }
    let original = reader(bytes)?.decode()?;
    let mut edge = LONGEST_EDGE;
    while edge >= 64 {
        let scaled = scale(&original, edge);
        if let Some((media_type, bytes)) = encode(&scaled, media_type)? {
            let (new_width, new_height) = (scaled.width(), scaled.height());
            return Ok(Fitted {
                media_type,
                bytes,
                width: new_width,
                height: new_height,
                scaled_from: ((new_width, new_height) != (width, height))
                    .then_some((width, height)),
            });
        }
        edge /= 2;
    }
    Err(ImageError::TooLarge)
}

/// The pixels of a picture, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    pixels: RgbaImage,
}

impl Preview {
    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.pixels.dimensions()
    }

    /// Red, green, blue and opacity of each pixel, row by row.
    #[must_use]
    pub fn rgba(&self) -> &[u8] {
        self.pixels.as_raw()
    }

    /// The same as a PNG file.
    ///
    /// # Errors
    /// When it can't be encoded.
    pub fn png(&self) -> Result<Vec<u8>, ImageError> {
        let mut png = Cursor::new(Vec::new());
        self.pixels.write_to(&mut png, ImageFormat::Png)?;
        Ok(png.into_inner())
    }
}

/// Width and height of a picture in pixels, from its first bytes.
///
/// # Errors
/// When the bytes are not a picture, or damaged.
pub fn size(bytes: &[u8]) -> Result<(u32, u32), ImageError> {
    media_type(bytes).ok_or(ImageError::UnknownKind)?;
    Ok(reader(bytes)?.into_dimensions()?)
}

/// The pixels of a picture in exactly this size. Of a moving picture, the first frame.
///
/// # Errors
/// When the bytes are not a picture, or damaged.
pub fn preview(bytes: &[u8], width: u32, height: u32) -> Result<Preview, ImageError> {
    media_type(bytes).ok_or(ImageError::UnknownKind)?;
    let image = reader(bytes)?.decode()?;
    let (width, height) = (width.max(1), height.max(1));
    let pixels = if (image.width(), image.height()) == (width, height) {
        image.into_rgba8()
    } else {
        image
            .resize_exact(width, height, FilterType::Triangle)
            .into_rgba8()
    };
    Ok(Preview { pixels })
}

fn reader(bytes: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, ImageError> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| ImageError::Undecodable(image::ImageError::IoError(error)))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(LONGEST_DECODED_EDGE);
    limits.max_image_height = Some(LONGEST_DECODED_EDGE);
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    Ok(reader)
}

fn scale(image: &DynamicImage, edge: u32) -> DynamicImage {
    if image.width().max(image.height()) <= edge {
        image.clone()
    } else {
        image.resize(edge, edge, FilterType::Triangle)
    }
}

/// Encodes the picture, photographs as JPEG and all else as PNG, or as JPEG where PNG is too large.
/// `None` when nothing is small enough.
fn encode(
    image: &DynamicImage,
    original: &'static str,
) -> Result<Option<(&'static str, Vec<u8>)>, ImageError> {
    if original != "image/jpeg" {
        let mut png = Cursor::new(Vec::new());
        image.write_to(&mut png, ImageFormat::Png)?;
        let png = png.into_inner();
        if png.len() <= MOST_BYTES {
            return Ok(Some(("image/png", png)));
        }
    }
    // JPEG has neither transparency nor deep colours.
    let opaque = image.to_rgb8();
    for quality in [85, 60, 35] {
        let mut jpeg = Vec::new();
        JpegEncoder::new_with_quality(&mut jpeg, quality).encode_image(&opaque)?;
        if jpeg.len() <= MOST_BYTES {
            return Ok(Some(("image/jpeg", jpeg)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::RgbImage;

    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let image = RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x % 256) as u8, (y % 256) as u8, 7])
        });
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_picture_that_fits_is_sent_byte_for_byte() {
        for (format, media_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
            (ImageFormat::Gif, "image/gif"),
            (ImageFormat::WebP, "image/webp"),
        ] {
            let bytes = picture(20, 10, format);
            let fitted = fit(&bytes).unwrap();
            assert_eq!(fitted.bytes, bytes);
            assert_eq!(fitted.media_type, media_type);
            assert_eq!((fitted.width, fitted.height), (20, 10));
            assert_eq!(fitted.scaled_from, None);
        }
    }

    #[test]
    fn a_large_picture_is_scaled_to_the_longest_edge() {
        for (format, media_type) in [
            (ImageFormat::Png, "image/png"),
            (ImageFormat::Jpeg, "image/jpeg"),
        ] {
            let fitted = fit(&picture(LONGEST_EDGE * 2, 40, format)).unwrap();
            assert_eq!((fitted.width, fitted.height), (LONGEST_EDGE, 20));
            assert_eq!(fitted.scaled_from, Some((LONGEST_EDGE * 2, 40)));
            assert_eq!(fitted.media_type, media_type);
            let again = reader(&fitted.bytes).unwrap().decode().unwrap();
            assert_eq!((again.width(), again.height()), (LONGEST_EDGE, 20));
        }
    }

    #[test]
    fn a_kind_that_models_do_not_take_is_converted() {
        let fitted = fit(&picture(8, 8, ImageFormat::Bmp)).unwrap();
        assert_eq!(fitted.media_type, "image/png");
        assert_eq!(fitted.scaled_from, None);
    }

    #[test]
    fn a_preview_has_the_wanted_size_and_is_a_png_of_its_own() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
            let bytes = picture(40, 20, format);
            assert_eq!(size(&bytes).unwrap(), (40, 20));
            let shown = preview(&bytes, 10, 5).unwrap();
            assert_eq!((shown.size(), shown.rgba().len()), ((10, 5), 200));
            assert_eq!(size(&shown.png().unwrap()).unwrap(), (10, 5));
        }
        assert!(matches!(size(b"hello"), Err(ImageError::UnknownKind)));
        assert!(preview(b"hello", 1, 1).is_err());
    }

    #[test]
    fn damaged_and_foreign_bytes_are_refused() {
        assert!(matches!(fit(b"hello"), Err(ImageError::UnknownKind)));
        let mut bytes = picture(50, 50, ImageFormat::Png);
        bytes.truncate(bytes.len() / 2);
        assert!(matches!(fit(&bytes), Err(ImageError::Undecodable(_))));
    }
}
