//! The callback of the authorisation page: a listener on 127.0.0.1 for the duration of a sign-in. Only
//! a request with our `state` is accepted; others are answered and ignored, so that no other local user
//! can end the wait with a forged request.

use super::error::AuthError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// The maximum size of a request.
const REQUEST_BYTES: usize = 32 * 1024;

/// The authorisation server's answer, as the browser passes it on.
pub(super) struct CallbackAnswer {
    pub(super) code: Result<String, Declined>,
    /// The issuer that the answer names (RFC 9207).
    pub(super) issuer: Option<String>,
}

/// The authorisation server's reason for giving no code.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Declined(String);

pub(super) struct Callback {
    listener: TcpListener,
    pub(super) redirect_uri: String,
}

impl Callback {
    /// Listens on a port, or on any free one.
    pub(super) async fn open(port: Option<u16>) -> Result<Self, AuthError> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))
            .await
            .map_err(|source| match port {
                Some(port) => AuthError::CallbackPort { port, source },
                None => AuthError::Listen(source),
            })?;
        let port = listener.local_addr()?.port();
        Ok(Self {
            listener,
            redirect_uri: format!("http://127.0.0.1:{port}/callback"),
        })
    }

    /// Waits for the answer with a `state`.
    pub(super) async fn answer(&self, state: &str) -> Result<CallbackAnswer, AuthError> {
        let (found, mut answers) = tokio::sync::mpsc::channel(1);
        loop {
            tokio::select! {
                Some(answer) = answers.recv() => return Ok(answer),
                connection = self.listener.accept() => {
                    let (stream, _) = connection?;
                    // A browser may open connections without using them.
                    let (found, state) = (found.clone(), state.to_owned());
                    lathe_spawn::task(async move {
                        if let Some(answer) = serve(stream, &state).await {
                            let _ = found.send(answer).await;
                        }
                    });
                }
            }
        }
    }
}

async fn serve(mut stream: TcpStream, state: &str) -> Option<CallbackAnswer> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await.ok()?;
        if count == 0 || request.len() + count > REQUEST_BYTES {
            return None;
        }
        request.extend_from_slice(&buffer[..count]);
    }
    let answer = read(&String::from_utf8_lossy(&request), state);
    let (status, words) = match &answer {
        Some(CallbackAnswer { code: Ok(_), .. }) => {
            ("200 OK", "You are signed in. This page can be closed.")
        }
        Some(_) => (
            "200 OK",
            "Sign-in failed; see the terminal for the reason. You can close this page.",
        ),
        None => ("404 Not Found", "There is nothing here."),
    };
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>Lathe</title><p style=\"font-family:sans-serif\">{words}</p>"
    );
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    answer
}

/// The answer in a request, if its `state` is ours.
fn read(request: &str, state: &str) -> Option<CallbackAnswer> {
    let mut words = request.lines().next()?.split(' ');
    if words.next()? != "GET" {
        return None;
    }
    let url = Url::parse("http://127.0.0.1")
        .ok()?
        .join(words.next()?)
        .ok()?;
    if url.path() != "/callback" {
        return None;
    }
    let value = |name: &str| {
        url.query_pairs()
            .find(|(found, _)| found == name)
            .map(|(_, value)| value.into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return None;
    }
    let code = match (value("code"), value("error")) {
        (Some(code), None) => Ok(code),
        (_, Some(error)) => {
            let description = value("error_description").unwrap_or_default();
            let reason = crate::text::line(format!("{error} {description}").trim(), 300);
            Err(Declined(reason))
        }
        (None, None) => Err(Declined("there is no code in the answer".to_owned())),
    };
    Some(CallbackAnswer {
        code,
        issuer: value("iss"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_with_our_state_are_accepted() {
        let get = |path: &str| read(&format!("GET {path} HTTP/1.1\r\n\r\n"), "s");
        let answer = get("/callback?code=a%2Fb&state=s&iss=https%3A%2F%2Fi").unwrap();
        assert_eq!(answer.code.as_deref(), Ok("a/b"));
        assert_eq!(answer.issuer.as_deref(), Some("https://i"));
        assert!(get("/callback?code=a&state=other").is_none());
        assert!(get("/callback?code=a").is_none());
        assert!(get("/favicon.ico?state=s&code=a").is_none());
        let denied = get("/callback?error=access_denied&error_description=no+way&state=s").unwrap();
        assert_eq!(denied.code.unwrap_err().to_string(), "access_denied no way");
        assert!(
            get("/callback?code=a&error=b&state=s")
                .unwrap()
                .code
                .is_err()
        );
    }
}
