//! Signature Version 4 of AWS. Pure.

use http::HeaderMap;
use ring::digest::{SHA256, digest};
use ring::hmac;
use std::fmt::Write as _;
use url::Url;

/// The keys that a request is signed with.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AwsKeys {
    pub(crate) access: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// The signed parts of a request.
pub(crate) struct Signing<'a> {
    pub(crate) keys: &'a AwsKeys,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    /// `20260102T030405Z`.
    pub(crate) time: &'a str,
    pub(crate) method: &'a str,
    pub(crate) url: &'a Url,
    /// The headers that are signed, `host` aside, in lower case.
    pub(crate) headers: &'a [(&'a str, String)],
    /// The hash of the body in hexadecimal digits.
    pub(crate) body_hash: &'a str,
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, data).as_ref().to_vec()
}

/// Encodes all but unreserved letters, and slashes if they stay.
pub(crate) fn encoded(text: &str, keep_slashes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~')
            || (keep_slashes && byte == b'/')
        {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The host of an address with its port, where that isn't the usual one.
pub(crate) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

impl Signing<'_> {
    /// The value of the `authorization` header.
    pub(crate) fn authorization(&self) -> String {
        let date = &self.time[..self.time.len().min(8)];
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let mut headers: Vec<(&str, String)> = vec![("host", host(self.url))];
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| (*name, value.trim().to_owned())),
        );
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut canonical = format!(
            "{}\n{}\n{}\n",
            self.method,
            // The path is encoded once more.
            encoded(self.url.path(), true),
            query(self.url),
        );
        for (name, value) in &headers {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{}", self.body_hash);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{}\n{scope}\n{}",
            self.time,
            hex(digest(&SHA256, canonical.as_bytes()).as_ref())
        );
        let mut key = mac(
            format!("AWS4{}", self.keys.secret).as_bytes(),
            date.as_bytes(),
        );
        for part in [self.region, self.service, "aws4_request"] {
            key = mac(&key, part.as_bytes());
        }
        let signature = hex(&mac(&key, to_sign.as_bytes()));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.keys.access
        )
    }
}

fn query(url: &Url) -> String {
    let mut pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| (encoded(&name, false), encoded(&value, false)))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// The headers of a request that are signed.
pub(crate) fn signed_headers(headers: &HeaderMap) -> Vec<(&str, String)> {
    ["content-type", "x-amz-date", "x-amz-security-token"]
        .into_iter()
        .filter_map(|name| Some((name, headers.get(name)?.to_str().ok()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the AWS documentation (`GET` of IAM's list of users).
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let keys = AwsKeys {
            access: "AKIDEXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let url =
            Url::parse("https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08").unwrap();
        let signing = Signing {
            keys: &keys,
            region: "us-east-1",
            service: "iam",
            time: "20150830T123600Z",
            method: "GET",
            url: &url,
            headers: &[
                (
                    "content-type",
                    "application/x-www-form-urlencoded; charset=utf-8".into(),
                ),
                ("x-amz-date", "20150830T123600Z".into()),
            ],
            body_hash: &hex(digest(&SHA256, b"").as_ref()),
        };
        assert_eq!(
            signing.authorization(),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }
}
