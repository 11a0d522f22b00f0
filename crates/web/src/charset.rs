//! Bytes as text, in whatever encoding they are.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// How far into a page its own word about its encoding is looked for.
const LOOKED_AT: usize = 4_096;

/// The text of bytes: by their mark, else as the server says, else as the page says, else as they look.
pub(crate) fn decode(bytes: &[u8], content_type: &str, is_html: bool) -> String {
    let named =
        parameter(content_type, "charset").and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = Encoding::for_bom(bytes)
        .map(|(encoding, _)| encoding)
        .or(named)
        .or_else(|| is_html.then(|| of_page(bytes)).flatten())
        .unwrap_or_else(|| sniff(bytes));
    encoding.decode(bytes).0.into_owned()
}

/// A parameter of a media type.
pub(crate) fn parameter<'a>(content_type: &'a str, wanted: &str) -> Option<&'a str> {
    content_type.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (key.trim().eq_ignore_ascii_case(wanted) && !value.is_empty()).then_some(value)
    })
}

/// The encoding in `<meta charset=…>`, `<meta … content="…; charset=…">` or an XML declaration.
fn of_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.get(..LOOKED_AT).unwrap_or(bytes);
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let declared = start
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split("?>").next())
        .and_then(|declaration| declaration.split_once("encoding="))
        .map(|(_, label)| label);
    let metas = start
        .split("<meta")
        .skip(1)
        .filter_map(|meta| meta.split('>').next())
        .filter_map(|meta| meta.split_once("charset").map(|(_, label)| label));
    let encoding = declared.into_iter().chain(metas).find_map(|label| {
        let label = label.trim_start_matches([' ', '=', '"', '\'']);
        let end = label
            .find(['"', '\'', ' ', ';', '/'])
            .unwrap_or(label.len());
        Encoding::for_label(label.get(..end)?.as_bytes())
    })?;
    // A page that could be read that far isn't UTF-16.
    Some(if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else {
        encoding
    })
}

fn sniff(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() {
        UTF_8
    } else {
        WINDOWS_1252
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_found() {
        let latin = b"caf\xe9";
        let cases: [(&[u8], &str, bool, &str); 13] = [
            (b"caf\xc3\xa9", "text/plain", false, "café"),
            (latin, "text/plain", false, "café"),
            (latin, "text/plain; charset=iso-8859-1", false, "café"),
            (
                b"\xef\xbb\xbfcaf\xc3\xa9",
                "text/plain; charset=latin1",
                false,
                "café",
            ),
            (b"\xff\xfea\0b\0", "text/plain", false, "ab"),
            (b"\xfe\xff\0a\0b", "text/html", true, "ab"),
            (
                b"<meta charset=\"windows-1251\">\xcf\xf0",
                "text/html",
                true,
                "<meta charset=\"windows-1251\">Пр",
            ),
            (
                b"<META http-equiv=x content='text/html; charset=shift_jis'>\x82\xa0",
                "text/html",
                true,
                "<META http-equiv=x content='text/html; charset=shift_jis'>あ",
            ),
            (
                b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1",
                "text/html",
                true,
                "<?xml version='1.0' encoding='iso-8859-2'?>ą",
            ),
            (
                b"<meta charset=utf-16>x",
                "text/html",
                true,
                "<meta charset=utf-16>x",
            ),
            (
                b"<meta charset=nonsense>\xe9",
                "text/html; charset=\"also nonsense\"",
                true,
                "<meta charset=nonsense>é",
            ),
            (
                b"\xe3\x81\x82",
                "text/html; charset=us-ascii-but-not",
                true,
                "あ",
            ),
            (
                b"a\xff\xc3",
                "text/html; charset=utf-8",
                true,
                "a\u{fffd}\u{fffd}",
            ),
        ];
        for (bytes, content_type, is_html, expected) in cases {
            assert_eq!(
                decode(bytes, content_type, is_html),
                expected,
                "{content_type}"
            );
        }
    }
}
