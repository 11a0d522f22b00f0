//! The page that a browser comes back to: a listener on 127.0.0.1 for as long as an authorisation
//! takes. Only a request with our `state` counts; anything else is answered and ignored, so that
//! nobody on this machine can end the wait with a forged one.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// The most of a request that is read.
const REQUEST_BYTES: usize = 32 * 1024;

/// What the browser brought back.
pub(super) struct Answer {
    pub(super) code: Result<String, String>,
    /// Who says that they answer (RFC 9207).
    pub(super) issuer: Option<String>,
}

/// Waits for a browser.
pub(super) struct Callback {
    listener: TcpListener,
    pub(super) redirect_uri: String,
}

impl Callback {
    /// Listens on a given port, or on any.
    pub(super) async fn open(port: Option<u16>) -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))
            .await
            .map_err(|error| match port {
                Some(port) => format!("the callback port {port} can't be used: {error}"),
                None => format!("nothing can listen on 127.0.0.1: {error}"),
            })?;
        let port = listener
            .local_addr()
            .map_err(|error| error.to_string())?
            .port();
        Ok(Self {
            listener,
            redirect_uri: format!("http://127.0.0.1:{port}/callback"),
        })
    }

    /// Waits for the answer with this `state`.
    pub(super) async fn answer(&self, state: &str) -> Result<Answer, String> {
        let (found, mut answers) = tokio::sync::mpsc::channel(1);
        loop {
            tokio::select! {
                Some(answer) = answers.recv() => return Ok(answer),
                connection = self.listener.accept() => {
                    let (stream, _) = connection.map_err(|error| error.to_string())?;
                    // A browser may open connections that it never uses.
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

async fn serve(mut stream: TcpStream, state: &str) -> Option<Answer> {
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
        Some(Answer { code: Ok(_), .. }) => {
            ("200 OK", "You are signed in. This page can be closed.")
        }
        Some(_) => (
            "200 OK",
            "The sign-in didn't work out; the terminal says why. This page can be closed.",
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

/// What a request brings, if it is the one we wait for.
fn read(request: &str, state: &str) -> Option<Answer> {
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
            Err(crate::text::line(
                format!("{error} {description}").trim(),
                300,
            ))
        }
        (None, None) => Err("it brought no code".to_owned()),
    };
    Some(Answer {
        code,
        issuer: value("iss"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_state_counts() {
        let get = |path: &str| read(&format!("GET {path} HTTP/1.1\r\n\r\n"), "s");
        let answer = get("/callback?code=a%2Fb&state=s&iss=https%3A%2F%2Fi").unwrap();
        assert_eq!(answer.code.as_deref(), Ok("a/b"));
        assert_eq!(answer.issuer.as_deref(), Some("https://i"));
        assert!(get("/callback?code=a&state=other").is_none());
        assert!(get("/callback?code=a").is_none());
        assert!(get("/favicon.ico?state=s&code=a").is_none());
        let denied = get("/callback?error=access_denied&error_description=no+way&state=s").unwrap();
        assert_eq!(denied.code.unwrap_err(), "access_denied no way");
        assert!(
            get("/callback?code=a&error=b&state=s")
                .unwrap()
                .code
                .is_err()
        );
    }
}
