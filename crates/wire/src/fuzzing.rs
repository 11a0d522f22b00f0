//! Properties of the frames that hold for any bytes: reading ends, and what was read is written and read the same.

use crate::frame::{ClientFrame, HostFrame};

/// Any bytes as a line of a client and of a host.
#[expect(clippy::missing_panics_doc, reason = "panicking is how a target fails")]
pub fn fuzz_wire(bytes: &[u8]) {
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    if let Ok(frame) = ClientFrame::parse(line) {
        let written = frame.to_line();
        assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let again = ClientFrame::parse(&written).ok();
        assert_eq!(again.map(|again| again.to_line()), Some(written));
    }
    if let Ok(frame) = HostFrame::parse(line) {
        let written = frame.to_line();
        assert_eq!(written.last(), Some(&b'\n'));
        let again = HostFrame::parse(&written).ok();
        assert_eq!(again.map(|again| again.to_line()), Some(written));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_read_as_a_frame() {
        let words = [
            "{\"hello\":",
            "{\"v\":1,\"client\":\"a\",\"kind\":\"page\"}",
            "{\"seq\":1,\"event\":",
            "{\"type\":\"prompt\",\"content\":\"a\"}",
            "\"after\":{\"epoch\":\"e\",\"seq\":",
            "\"id\":\"6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f\"",
            "{\"beat\":",
            "{\"out\":\"G1tB\"}",
            "18446744073709551615",
            "}",
            "\\u0000",
        ];
        lathe_fuzzing::run("wire", 20_000, &words, super::fuzz_wire);
    }
}
