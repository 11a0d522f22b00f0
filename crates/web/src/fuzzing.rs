//! Properties of reading a page that hold for any bytes: it ends, and the output has no URL that runs code.

use crate::content::Content;
use url::Url;

/// Any bytes as a page.
#[expect(clippy::missing_panics_doc, reason = "panicking is how a target fails")]
pub fn fuzz_html(bytes: &[u8]) {
    let Ok(address) = Url::parse("https://site.example/folder/page") else {
        return;
    };
    if let Content::Text { text, .. } = Content::of(bytes.to_vec(), "text/html", &address) {
        let links = text.split("](").skip(1);
        for link in links {
            let lower = link.to_ascii_lowercase();
            assert!(!lower.starts_with("javascript:"), "{link}");
        }
    }
    // Whatever it is called.
    drop(Content::of(bytes.to_vec(), "", &address));
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_read_as_a_page() {
        let words = [
            "<p>",
            "</p>",
            "<table><tr><td>",
            "<a href=",
            "javascript:x",
            "<script>",
            "&amp;",
            "&#x",
            "<!--",
            "<pre>",
            "<ul><li>",
            "<h1>",
            "`",
            "<blockquote>",
            "<title>",
            "\u{0}",
            "<svg/>",
            "<b><i>",
            "</",
            "<dl><dt>",
        ];
        lathe_fuzzing::run("html", 3_000, &words, super::fuzz_html);
    }
}
